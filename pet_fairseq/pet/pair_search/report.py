"""What `pet-fairseq suggest-pairs` shows and writes: ranked tables and their files."""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from tqdm import tqdm

from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.checkpoints.subsets import read_samples
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.files import check_folder, write_with_figure
from pet_fairseq.markdown import aligned_table
from pet_fairseq.nn.layers import STACKS
from pet_fairseq.pet.pair_search.candidates import THESIS_CHOICE, matched_layers
from pet_fairseq.pet.pair_search.search import Measured, SearchResult, search

SHOWN_PAIRS = 15  # single pairs of a stack in the tables; JSON has all


def suggest_pairs(
    checkpoint: str,
    data: str,
    subset: str = "valid",
    sentences: int = 200,
    max_tokens: int = 4000,
    stacks: str = ",".join(STACKS),
    candidates: str = "thesis",
    out: Optional[Path] = None,
    device: str = "cpu",
) -> str:
    """Search, write pairs.json, pairs.md and pairs.png into `out` if given, return the Markdown.

    Raises:
        UserError: a wrong option; nothing is written then.
    """
    names = read_stacks(stacks)
    device = check_device(device)
    model, task = load_transformer(checkpoint, "CHECKPOINT", data)
    samples = read_samples(task, subset, sentences, max_tokens, model.max_positions(), device)
    if out is not None:
        check_folder(out, "--out")

    def progress(candidates: Sequence) -> tqdm:
        return tqdm(candidates, desc="tying", unit="candidate", file=sys.stderr, mininterval=2)

    result = search(model.to(device), samples, names, candidates, progress)
    text = to_markdown(result, checkpoint, f"{subset} of {data}")
    if out is not None:
        content = {"checkpoint": checkpoint, "data": data, "subset": subset} | to_json(result)
        write_files(out, text, content, result)
    return text


def write_files(out: Path, text: str, content: dict, result: SearchResult) -> None:
    """Write pairs.md, pairs.json and pairs.png into a folder."""
    # imported here, because a run without files needs no matplotlib
    from pet_fairseq.pet.pair_search.plot import heat_maps

    write_with_figure(out, "pairs", text, content, heat_maps(result))


def read_stacks(text: str) -> list[str]:
    """The stacks that --stacks names.

    Raises:
        UserError: anything but encoder, decoder, or both with a comma between.
    """
    names = [name.strip() for name in text.split(",")]
    if len(set(names)) < len(names) or not {*names} <= {*STACKS}:
        raise UserError(f"--stacks {text}: give encoder, decoder or encoder,decoder")
    return names


# --- tables ---------------------------------------------------------------------------------------


def to_json(result: SearchResult) -> dict:
    """All that was measured; `rank` counts the schemes, or the pairs, of one stack."""
    ranks: Counter = Counter()
    measured = []
    for candidate in result.measured:
        key = (candidate.stack, candidate.kind)
        ranks[key] += 1
        measured.append({**candidate._asdict(), "rank": ranks[key]})
    return {
        "loss": result.loss,
        "sentences": result.sentences,
        "tokens": result.tokens,
        "layers": result.layers,
        "schemes": [m for m in measured if m["kind"] == "scheme"],
        "pairs": [m for m in measured if m["kind"] == "pair"],
        "left_out": [candidate._asdict() for candidate in result.left_out],
    }


def to_markdown(result: SearchResult, checkpoint: str, data: str) -> str:
    """The tables for people, best first; columns are aligned for the terminal."""
    text = (
        f"# Pairs for {checkpoint}\n\n"
        f"Rise of the loss when slots are tied by their average, without training, in nats per "
        f"target token:\nthe loss untied is {result.loss:.4f} on {result.sentences:,} sentences "
        f"({result.tokens:,} tokens) of {data}.\n'saves' is the share of the stack's layer "
        f"parameters; ± is one standard error over sentences.\n"
    )
    for stack in result.layers:
        schemes, pairs = (result.ranked(stack, kind) for kind in ("scheme", "pair"))
        if schemes:
            text += f"\n## {stack.capitalize()} schemes\n\n"
            text += _table("scheme", schemes, f"to paste: --{stack}-pairs")
        if pairs:
            shown = min(SHOWN_PAIRS, len(pairs))
            text += f"\n## {stack.capitalize()} pairs, the best {shown} of {len(pairs)}\n\n"
            text += _table("pair", pairs[:shown])
    text += "\n## Notes\n\n"
    return text + "".join(f"* {note}\n" for note in notes(result))


def _table(kind: str, rows: list[Measured], paste: Optional[str] = None) -> str:
    header = ["rank", kind, "rise", "±", "cosine", "saves %"] + ([paste] if paste else [])
    cells = [
        [str(rank), m.name, signed(m.rise, 4), "-" if m.error is None else f"{m.error:.4f}"]
        + [signed(m.cosine, 3), f"{m.saved_percent:.1f}"]
        + ([f'"{m.pairs}"'] if paste else [])
        for rank, m in enumerate(rows, 1)
    ]
    return aligned_table(header, cells, text=(1, 6))


def signed(value: float, digits: int) -> str:
    """A number with its sign; what rounds to zero is +0."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def notes(result: SearchResult) -> list[str]:
    """Where the thesis's schemes rank here, and what was not measured."""
    lines = [where_thesis_ranks(result, stack) for stack in result.layers]
    for stack, layers in result.layers.items():
        if layers % 2 and matched_layers(layers):
            pairs = ", ".join(f"{i} with {j}" for i, j in matched_layers(layers))
            lines.append(
                f"{stack}: {layers} layers is odd, so schemes between layers pair {pairs} and "
                f"leave layer {math.ceil(layers / 2)} alone"
            )
    reasons = Counter((c.stack, c.reason) for c in result.left_out)
    lines += [
        f"{stack}: {count} {'candidate' if count == 1 else 'candidates'} left out: {reason}"
        for (stack, reason), count in reasons.items()
    ]
    return lines


def where_thesis_ranks(result: SearchResult, stack: str) -> str:
    """One line on the scheme that the thesis found best in a stack."""
    name = THESIS_CHOICE[stack]
    schemes = result.ranked(stack, "scheme")
    ours = next((m for m in schemes if m.name == name), None)
    start = f"{stack}: the thesis's choice, {name},"
    if ours is None:
        reasons = [c.reason for c in result.left_out if (c.stack, c.name) == (stack, name)]
        return f"{start} was not measured: {(reasons or ['too few layers'])[0]}"
    same_size = [m for m in schemes if m.saved >= ours.saved]
    return (
        f"{start} is number {schemes.index(ours) + 1} of {len(schemes)} schemes for this "
        f"checkpoint, and number {same_size.index(ours) + 1} of the {len(same_size)} that save as "
        "many parameters or more"
    )
