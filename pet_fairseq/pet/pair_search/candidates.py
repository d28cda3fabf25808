"""Candidates of `pet-fairseq suggest-pairs`: which slots of a Transformer could share parameters.

A candidate is a list of pairs as --encoder-pairs and --decoder-pairs take it: a single pair, or a
scheme, one kind of pair wherever it is possible at once.
"""

import itertools
import math
from typing import NamedTuple

from pet_fairseq.errors import UserError

CANDIDATES = ("thesis", "all")
INPUT_SLOTS = {  # projections whose pairs the thesis considered: those of the attention's inputs
    "encoder": ("Q", "K", "V"),
    "decoder": ("Qself", "Kself", "Vself", "Qenc", "Kenc", "Venc"),
}
PROJECTION_SLOTS = {
    "encoder": ("Q", "K", "V", "O"),
    "decoder": ("Qself", "Kself", "Vself", "Oself", "Qenc", "Kenc", "Venc", "Oenc"),
}
# what the thesis found best in each stack
CROSSWISE = "crosswise Q-K"
THESIS_CHOICE = {"encoder": CROSSWISE, "decoder": "Qself=Qenc"}


class Candidate(NamedTuple):
    """What to tie in a stack; `kind` is "scheme" or "pair", `name` what a table shows."""

    stack: str
    kind: str
    name: str
    pairs: str


def matched_layers(num_layers: int) -> list[tuple[int, int]]:
    """Layers (from 1) that the thesis pairs: i with i + n/2; for odd n the middle one is alone."""
    half = math.ceil(num_layers / 2)
    return [(i, i + half) for i in range(1, num_layers - half + 1)]


def pair_candidates(stack: str, num_layers: int, which: str) -> list[str]:
    """Single pairs of a stack.

    Args:
        which: "thesis", every two layers and the projection pairs that the thesis considered, or
            "all", every two layers and every two projections.
    Raises:
        UserError: `which` has another value.
    """
    if which not in CANDIDATES:
        raise UserError(f"--candidates {which}: give one of {', '.join(CANDIDATES)}")
    numbers = range(1, num_layers + 1)
    pairs = [f"L{i}=L{j}" for i, j in itertools.combinations(numbers, 2)]
    if which == "all":
        slots = [f"{name}{i}" for i in numbers for name in PROJECTION_SLOTS[stack]]
        return pairs + [f"{a}={b}" for a, b in itertools.combinations(slots, 2)]
    if stack == "encoder":
        kinds = ("QQ", "KK", "VV", "QK", "KQ")
        pairs += [f"{a}{i}={b}{j}" for i, j in matched_layers(num_layers) for a, b in kinds]
    inside = list(itertools.combinations(INPUT_SLOTS[stack], 2))
    return pairs + [f"{a}{i}={b}{i}" for i in numbers for a, b in inside]


def schemes(stack: str, num_layers: int) -> dict[str, str]:
    """The list of pairs of every scheme, by name: a kind of pair wherever it is possible at once.

    Between layers the pairs are those of `matched_layers`; one layer alone has no such schemes.
    """
    matched = matched_layers(num_layers)

    def between(*kinds: str) -> str:
        return " ".join(f"{a}{i}={b}{j}" for i, j in matched for a, b in kinds)

    layers = between("LL")
    inside = [f"{a}={b}" for a, b in itertools.combinations(INPUT_SLOTS[stack], 2)]
    if stack == "encoder":
        between_layers = {
            "layers": layers,
            f"layers, {CROSSWISE}": f"{layers} {between('QK', 'KQ')}",
            CROSSWISE: between("QK", "KQ"),
            "Q-Q and K-K": between("QQ", "KK"),
            "Q-Q": between("QQ"),
            "K-K": between("KK"),
            "V-V": between("VV"),
        }
        inside.append("Q=K Q=V")
    else:
        with_layers = ("Qself=Qenc", "Qself=Kself", "Kself=Vself Kenc=Venc")
        between_layers = {
            "layers": layers,
            f"layers, {CROSSWISE}": f"{layers} {between('QK', 'KQ')}",
            **{f"layers, {kind}": f"{layers} {kind}" for kind in with_layers},
        }
        inside += ["Kself=Vself Kenc=Venc", "Qself=Kself Qself=Vself"]
    return (between_layers if matched else {}) | {pairs: pairs for pairs in inside}


def list_candidates(stack: str, num_layers: int, which: str) -> list[Candidate]:
    """All candidates of a stack, schemes first."""
    pairs = pair_candidates(stack, num_layers, which)
    return [
        *(Candidate(stack, "scheme", *item) for item in schemes(stack, num_layers).items()),
        *(Candidate(stack, "pair", pair, pair) for pair in pairs),
    ]
