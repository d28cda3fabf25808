"""Which slots of a trained Transformer could share parameters (`pet-fairseq suggest-pairs`).

The search behind PET's replaceable pairs (thesis, section 3.2), automated: tie the slots of a
candidate by their average, without any training, and see how much the validation loss rises.
A candidate is a list of pairs as --encoder-pairs and --decoder-pairs take it, and ties exactly the
slots that such a model would share.
"""

import itertools
import math
from collections import defaultdict
from contextlib import contextmanager
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pet_fairseq.distillation.chunks import chunk_size
from pet_fairseq.errors import UserError
from pet_fairseq.pet.pairs import Part, find_owner, parse_pairs

STACKS = ("encoder", "decoder")
CANDIDATES = ("thesis", "all")
INPUTS = {  # projections whose pairs the thesis considered: those of the attention's inputs
    "encoder": ("Q", "K", "V"),
    "decoder": ("Qself", "Kself", "Vself", "Qenc", "Kenc", "Venc"),
}
PROJECTIONS = {
    "encoder": ("Q", "K", "V", "O"),
    "decoder": ("Qself", "Kself", "Vself", "Oself", "Qenc", "Kenc", "Venc", "Oenc"),
}
# what the thesis found best in each stack
CROSSWISE = "crosswise Q-K"
THESIS_CHOICE = {"encoder": CROSSWISE, "decoder": "Qself=Qenc"}

# --- candidates -----------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """What to tie in a stack; `kind` is "scheme" or "pair", `name` what a table shows."""

    stack: str
    kind: str
    name: str
    pairs: str


def matched_layers(num_layers: int) -> List[Tuple[int, int]]:
    """Layers (from 1) that the thesis pairs: i with i + n/2; for odd n the middle one is alone."""
    half = math.ceil(num_layers / 2)
    return [(i, i + half) for i in range(1, num_layers - half + 1)]


def pair_candidates(stack: str, num_layers: int, which: str) -> List[str]:
    """Single pairs of a stack.

    Args:
        which: "thesis", every two layers and the projection pairs that the thesis considered, or
            "all", every two layers and every two projections.
    Raises:
        UserError: another value.
    """
    if which not in CANDIDATES:
        raise UserError(f"--candidates {which}: give one of {', '.join(CANDIDATES)}")
    numbers = range(1, num_layers + 1)
    pairs = [f"L{i}=L{j}" for i, j in itertools.combinations(numbers, 2)]
    if which == "all":
        slots = [f"{name}{i}" for i in numbers for name in PROJECTIONS[stack]]
        return pairs + [f"{a}={b}" for a, b in itertools.combinations(slots, 2)]
    if stack == "encoder":
        kinds = ("QQ", "KK", "VV", "QK", "KQ")
        pairs += [f"{a}{i}={b}{j}" for i, j in matched_layers(num_layers) for a, b in kinds]
    inside = list(itertools.combinations(INPUTS[stack], 2))
    return pairs + [f"{a}{i}={b}{i}" for i in numbers for a, b in inside]


def schemes(stack: str, num_layers: int) -> Dict[str, str]:
    """Name -> list of pairs of every scheme: a kind of pair wherever it is possible at once.

    Between layers the pairs are those of `matched_layers`; one layer alone has no such schemes.
    """
    matched = matched_layers(num_layers)

    def between(*kinds: str) -> str:
        return " ".join(f"{a}{i}={b}{j}" for i, j in matched for a, b in kinds)

    layers = between("LL")
    inside = [f"{a}={b}" for a, b in itertools.combinations(INPUTS[stack], 2)]
    if stack == "encoder":
        found = {
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
        found = {"layers": layers} | {f"layers, {kind}": f"{layers} {kind}" for kind in with_layers}
        inside += ["Kself=Vself Kenc=Venc", "Qself=Kself Qself=Vself"]
    return (found if matched else {}) | {pairs: pairs for pairs in inside}


def list_candidates(stack: str, num_layers: int, which: str) -> List[Candidate]:
    """All candidates of a stack, schemes first."""
    found = [Candidate(stack, "scheme", *item) for item in schemes(stack, num_layers).items()]
    pairs = pair_candidates(stack, num_layers, which)
    return found + [Candidate(stack, "pair", pair, pair) for pair in pairs]


# --- tying ----------------------------------------------------------------------------------------


class CannotTieError(ValueError):
    """A candidate that this model leaves no room for; the text says why."""


def tied_tensors(layers: nn.ModuleList, pairs: str, stack: str) -> List[List[Tensor]]:
    """Groups of parameters that become one under a list of pairs, each tensor once.

    Raises:
        CannotTieError: a slot is missing, shapes differ, or two of the slots share already.
    """
    parsed = parse_pairs(pairs, stack, len(layers))
    modules = {
        Part(i, path): module
        for i, layer in enumerate(layers)
        for path, module in layer.named_modules(remove_duplicate=False)
        if path and next(module.parameters(False), None) is not None
    }
    owners = {part: find_owner(part, parsed, stack) for part in modules}
    named = [part for pair in parsed for part in pair[:2] if part.path]
    if not modules.keys() >= {*owners.values(), *named}:
        raise CannotTieError("no such slot")
    parts: Dict[Part, List[nn.Module]] = defaultdict(list)
    for part, owner in owners.items():
        parts[owner].append(modules[part])
    groups = [group for members in parts.values() for group in _same_parameters(members)]
    return merge_groups([group for group in groups if len(group) > 1])


def _same_parameters(members: List[nn.Module]) -> List[List[Tensor]]:
    """The members' parameters by name: a group for the weights, one for the biases."""
    parameters = [dict(module.named_parameters()) for module in members]
    if len({tuple((n, p.shape) for n, p in named.items()) for named in parameters}) > 1:
        raise CannotTieError("shapes differ")
    groups = [[named[name] for named in parameters] for name in parameters[0]]
    if any(len({id(p) for p in group}) < len(group) for group in groups):
        raise CannotTieError("share already")
    return groups


def merge_groups(groups: List[List[Tensor]]) -> List[List[Tensor]]:
    """Join groups that have a tensor in common, as happens where the model shares parameters."""
    merged: List[Dict[int, Tensor]] = []
    for group in groups:
        joined = {id(tensor): tensor for tensor in group}
        apart = []
        for other in merged:
            if other.keys() & joined.keys():
                joined |= other
            else:
                apart.append(other)
        merged = [*apart, joined]
    return [list(group.values()) for group in merged]


@contextmanager
@torch.no_grad()
def averaged(groups: List[List[Tensor]]) -> Iterator[None]:
    """Give every tensor of a group the group's mean; on leaving, the old values bit by bit."""
    before = [[tensor.clone() for tensor in group] for group in groups]
    try:
        for group in groups:
            # in float64 the mean of equal numbers is that number
            mean = torch.stack([tensor.double() for tensor in group]).mean(dim=0)
            for tensor in group:
                tensor.copy_(mean)
        yield
    finally:
        for group, values in zip(groups, before):
            for tensor, value in zip(group, values):
                tensor.copy_(value)


@torch.no_grad()
def mean_cosine(groups: List[List[Tensor]]) -> float:
    """Cosine similarity of every two weight matrices in a group, averaged first over the group.

    Biases and layer norms do not count.
    """
    cosines = []
    for group in groups:
        if group[0].dim() < 2:
            continue
        flat = torch.stack([tensor.flatten().double() for tensor in group])
        similarity = F.normalize(flat) @ F.normalize(flat).T  # members x members
        upper = torch.triu_indices(len(group), len(group), offset=1, device=flat.device)
        cosines.append(similarity[upper[0], upper[1]].mean())
    return torch.stack(cosines).mean().item()


def saved_parameters(groups: List[List[Tensor]]) -> int:
    """How many parameters fewer a model stores when each group is one tensor."""
    return sum(tensor.numel() for group in groups for tensor in group[1:])


# --- loss -----------------------------------------------------------------------------------------


def encode(model: nn.Module, sample: dict) -> dict:
    """fairseq's encoder output for a batch."""
    net_input = sample["net_input"]
    return model.encoder(net_input["src_tokens"], src_lengths=net_input["src_lengths"])


def sentence_losses(model: nn.Module, sample: dict, encoder_out: dict) -> Tensor:
    """-log p(gold) in nats, summed over a sentence's tokens without padding: [B], float64."""
    decoder = model.decoder
    features, _ = decoder(
        sample["net_input"]["prev_output_tokens"], encoder_out=encoder_out, features_only=True
    )
    real = sample["target"].ne(decoder.padding_idx)  # B x T
    rows, target = features[real], sample["target"][real]  # N x C, N
    losses = torch.zeros(real.shape, dtype=torch.float64, device=features.device)
    size = chunk_size(len(decoder.dictionary))
    losses[real] = torch.cat(
        [_token_losses(decoder, *chunk) for chunk in zip(rows.split(size), target.split(size))]
    )
    return losses.sum(dim=1)


def _token_losses(decoder: nn.Module, rows: Tensor, target: Tensor) -> Tensor:
    """Features N x C and gold words N -> -log p(gold): [N], float64."""
    output = decoder.output_layer(rows[None])
    log_probs = decoder.get_normalized_probs((output, None), log_probs=True, sample=None)[0]
    return -log_probs.gather(-1, target[:, None])[:, 0].double()


@torch.no_grad()
def all_losses(
    model: nn.Module, samples: List[dict], encoder_outs: List[dict] | None = None
) -> Tensor:
    """`sentence_losses` of all batches in a row; with `encoder_outs` the encoder does not run."""
    if encoder_outs is None:
        encoder_outs = (encode(model, sample) for sample in samples)
    return torch.cat([sentence_losses(model, s, e) for s, e in zip(samples, encoder_outs)])


def mean_and_error(sums: Tensor, tokens: Tensor) -> Tuple[float, Optional[float]]:
    """Mean per token, and its standard error over sentences (None for a single one).

    Args:
        sums: [S] sums over each sentence's tokens. tokens: [S] how many they are.
    """
    total, sentences = tokens.sum().item(), len(sums)
    mean = sums.sum().item() / total
    if sentences < 2:
        return mean, None
    residuals = sums - mean * tokens  # a mean per token is a ratio of two sums
    variance = residuals.square().sum().item() * sentences / (sentences - 1)
    return mean, math.sqrt(variance) / total


# --- search ---------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """A candidate with what tying it does.

    rise: of the loss, in nats per target token; error: its standard error over sentences; cosine:
    of the tied weights; saved: parameters; saved_percent: of those in the stack's layers.
    """

    stack: str
    kind: str
    name: str
    pairs: str
    rise: float
    error: Optional[float]
    cosine: float
    saved: int
    saved_percent: float


class LeftOut(NamedTuple):
    """A candidate that could not be tied in this model, and why."""

    stack: str
    kind: str
    name: str
    pairs: str
    reason: str


class Search(NamedTuple):
    """What a search found: `measured` has the lowest rise first, schemes and pairs mixed.

    loss: nats per target token of the model as it is; layers: their number in each stack.
    """

    loss: float
    sentences: int
    tokens: int
    layers: Dict[str, int]
    measured: List[Measured]
    left_out: List[LeftOut]

    def ranked(self, stack: str, kind: str) -> List[Measured]:
        """The schemes or the pairs of a stack, the lowest rise first."""
        return [m for m in self.measured if (m.stack, m.kind) == (stack, kind)]


@torch.no_grad()
def search(
    model: nn.Module,
    samples: List[dict],
    stacks: Iterable[str] = STACKS,
    which: str = "thesis",
    progress: Callable[[Sequence[Candidate]], Iterable[Candidate]] = iter,
) -> Search:
    """Measure every candidate of the stacks on fairseq batches.

    Args:
        model: encoder-decoder Transformer; its parameters are the same afterwards, to the bit.
        progress: wraps the list of candidates while it is worked on.
    Raises:
        UserError: unknown `which`, or a model whose loss is not a number.
    """
    model.eval()
    stack_layers = {stack: getattr(model, stack).layers for stack in stacks}
    encoder_outs = [encode(model, sample) for sample in samples]
    losses = all_losses(model, samples, encoder_outs)
    tokens = torch.cat([s["target"].ne(model.decoder.padding_idx).sum(dim=1) for s in samples])
    loss, _ = mean_and_error(losses, tokens)
    if not math.isfinite(loss):
        raise UserError(f"--checkpoint: its loss is {loss}; give a model that was trained well")
    candidates = [
        candidate
        for stack, layers in stack_layers.items()
        for candidate in list_candidates(stack, len(layers), which)
    ]
    measured, left_out = [], []
    for candidate in progress(candidates):
        layers = stack_layers[candidate.stack]
        try:
            groups = tied_tensors(layers, candidate.pairs, candidate.stack)
        except CannotTieError as error:
            left_out.append(LeftOut(*candidate, str(error)))
            continue
        with averaged(groups):
            kept = encoder_outs if candidate.stack == "decoder" else None
            rises = all_losses(model, samples, kept) - losses
        saved = saved_parameters(groups)
        percent = 100 * saved / sum(p.numel() for p in layers.parameters())
        rise, error = mean_and_error(rises, tokens)
        measured.append(Measured(*candidate, rise, error, mean_cosine(groups), saved, percent))
    return Search(
        loss=loss,
        sentences=len(losses),
        tokens=int(tokens.sum()),
        layers={stack: len(layers) for stack, layers in stack_layers.items()},
        measured=sorted(measured, key=lambda m: m.rise),
        left_out=left_out,
    )
