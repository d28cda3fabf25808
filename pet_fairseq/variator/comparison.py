"""The comparison of `pet-fairseq plugins`: plugins and their competitors beside the model itself.

Each run is a folder with checkpoint_best.pt and result.json, the scores of a test set.
"""

import math
from collections.abc import Callable
from itertools import chain, cycle
from pathlib import Path
from typing import NamedTuple, Optional

from fairseq.models import MODEL_REGISTRY
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.saving import stored_bytes, unique_tensors
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.files import write_with_figure
from pet_fairseq.markdown import table
from pet_fairseq.runs import SCORES, read_order, read_result
from pet_fairseq.variator.backbone_wrapper import BackboneWrapper
from pet_fairseq.variator.costs import plain_layer_cost
from pet_fairseq.variator.flops_table import shape_of
from pet_fairseq.variator.model import select_ratio
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.plugin_files import build_around

PLUGIN_OPTIONS = ("bottleneck_dim", "compression_site", "compression", "decompression")


class RunRow(NamedTuple):
    """A run in the comparison."""

    name: str
    kind: str  # --arch
    ratio: int
    trained: int  # parameters
    size: int  # bytes, without the optimizer's state
    cost: float  # multiply-adds of the compressed stack over those of the backbone's
    scores: dict[str, float]
    whole_cost: Optional[float] = None  # of the whole model, if it classifies by an encoder alone
    majority_class: float = 0.0  # as in `runs.Result`


def write_table(runs: Path, backbone: str, length: int) -> str:
    """Compare the runs in a folder and write plugins.{md,json,png} into it; returns the Markdown.

    Args:
        backbone: name of the run that the others start from. length: tokens of a sentence, for the
            cost.
    Raises:
        UserError: no such run, a run without scores, or a length below 1.
    """
    check_positive(length=length)
    folders = {f.name: f for f in sorted(runs.glob("*")) if (f / "result.json").is_file()}
    if backbone not in folders:
        raise UserError(f"{runs}: no run {backbone} with a result.json; give --backbone NAME")
    names = in_order(runs, [backbone, *(name for name in folders if name != backbone)])
    rows = [read_row(folders[name], length) for name in names]
    text = to_markdown(rows, backbone, length) + chance_note(rows)
    content = {"length": length, "rows": [row._asdict() for row in rows]}
    write_with_figure(runs, "plugins", text, content, plot(rows, backbone))
    return text


def in_order(runs: Path, names: list[str]) -> list[str]:
    """Sort names as the folder's order.txt says; those that it does not name come at the end."""
    order = read_order(runs)
    return sorted(names, key=lambda name: order.index(name) if name in order else len(order))


def read_row(folder: Path, length: int) -> RunRow:
    """Read what the comparison shows of a run.

    Raises:
        UserError: a checkpoint or scores that cannot be used.
    """
    path = str(folder / "checkpoint_best.pt")
    result = read_result(folder / "result.json")
    state = load_checkpoint(path, "RUNS")
    if result.cut > 1:  # the backbone itself, given a part of each prompt
        cost = cut_cost(state, path, length, result.cut)
        return RunRow(folder.name, "cut prompts", result.cut, 0, 0, cost, result.scores)
    cfg = state["cfg"].model
    kind = getattr(cfg, "_name", "")
    tensors = unique_tensors(state["model"])
    cost, whole_cost = relative_costs(state, kind, path, length)
    ratio = MODEL_REGISTRY[kind].ratio_for(cfg) if compresses(kind) else 1
    return RunRow(
        name=folder.name,
        kind=kind,
        ratio=ratio,
        trained=trained_parameters(tensors, ratio),
        size=stored_bytes(state | {"model": tensors}),
        cost=cost,
        scores=result.scores,
        whole_cost=whole_cost,
        majority_class=result.majority_class,
    )


def trained_parameters(tensors: dict[str, Tensor], ratio: int) -> int:
    """The number of parameters that a run has trained: of plugins, those of its ratio only."""
    plain = (
        tensor
        for name, tensor in tensors.items()
        if name != "backbone_hash" and not name.startswith("plugins.")
    )
    return sum(t.numel() for t in chain(plain, select_ratio(tensors, ratio).values()))


def compresses(kind: str) -> bool:
    """Whether the models registered under this name are compressed forms of a backbone."""
    return issubclass(MODEL_REGISTRY.get(kind, object), BackboneWrapper)


def relative_costs(state: dict, kind: str, path: str, length: int) -> tuple[float, Optional[float]]:
    """Multiply-adds over the backbone's: of the compressed stack's layers, and of the whole model.

    The latter is known for encoders with a classification head: their embeddings multiply nothing.
    """
    cfg = state["cfg"].model
    if not compresses(kind):
        return 1.0, None if head_cost(state["model"]) is None else 1.0
    backbone = load_checkpoint(cfg.backbone_path, f"{path}: its backbone")
    options = {name: getattr(cfg, name) for name in PLUGIN_OPTIONS if hasattr(cfg, name)}
    model = build_around(backbone, VariatorConfig(backbone_path=cfg.backbone_path, **options))
    shape, form = shape_of(model), MODEL_REGISTRY[kind]
    plain = shape.layers * plain_layer_cost(shape, length)
    cost = form.encoder_cost(form.shape_for(cfg, shape), length)
    head = head_cost(backbone["model"])
    return cost / plain, None if head is None else (cost + head) / (plain + head)


def head_cost(weights: dict[str, Tensor]) -> Optional[int]:
    """Multiply-adds of an encoder's only classification head, which reads one position.

    None: the model has no such head or several, or it has a decoder, whose cost is not counted.
    """
    heads = {name: w for name, w in weights.items() if name.startswith("classification_heads.")}
    has_decoder = any(name.startswith("decoder.layers.") for name in weights)
    if has_decoder or len({name.split(".")[1] for name in heads}) != 1:
        return None
    return sum(w.numel() for w in heads.values() if w.dim() == 2)


def cut_cost(state: dict, path: str, length: int, cut: int) -> float:
    """Multiply-adds of a language model's layers for 1/cut of a prompt, over those for all."""
    shape = shape_of(build_around(state, VariatorConfig(backbone_path=path)))
    return plain_layer_cost(shape, -(-length // cut)) / plain_layer_cost(shape, length)


# --- what is shown --------------------------------------------------------------------------------


def to_markdown(rows: list[RunRow], backbone: str, length: int) -> str:
    """Format a row for each run, with the difference to the backbone beside each score."""
    base = next(row for row in rows if row.name == backbone)
    names = list(base.scores)
    header = ["run", "k", "trained parameters", "MB", f"multiply-adds, {length} tokens"]
    header += [part for name in names for part in (name, f"to {backbone}")]
    lines = []
    for row in rows:
        cells = [row.name, str(row.ratio), f"{row.trained:,}", f"{row.size / 1e6:.2f}"]
        cells.append(f"{100 * row.cost:.1f}%")
        for name in names:
            cells += score_cells(row.scores.get(name), base.scores[name])
        lines.append(cells)
    return table(header, lines)


def chance_note(rows: list[RunRow]) -> str:
    """Name the runs that classify no better than by one class for all, "" if there are none."""
    known = [row for row in rows if row.majority_class and "accuracy" in row.scores]
    lost = [row for row in known if row.scores["accuracy"] <= row.majority_class]
    if not lost:
        return ""
    return (
        f"\n* no better than the most frequent class, which {lost[0].majority_class:.2f}% of the "
        f"sentences have: {', '.join(row.name for row in lost)}\n"
    )


def score_cells(score: Optional[float], base: float) -> list[str]:
    """Format a score and its difference to the backbone's."""
    return ["-", "-"] if score is None else [f"{score:.2f}", f"{score - base:+.2f}"]


def plot(rows: list[RunRow], backbone: str) -> Figure:
    """Plot the first score over the stack's cost, and over the time of a prompt if it is known."""
    name, *others = next(row for row in rows if row.name == backbone).scores
    by_kind: dict[str, list[RunRow]] = {"model": []}
    for row in rows:
        if name in row.scores:
            by_kind.setdefault("model" if row.cost == 1 else row.kind, []).append(row)
    costs = {"multiply-adds of the compressed stack, % of the model's": lambda row: 100 * row.cost}
    if "prompt_ms" in others:
        costs["milliseconds to read a prompt"] = lambda row: row.scores.get("prompt_ms", math.nan)
    figure = Figure(figsize=(7 * len(costs), 4.5), layout="constrained")
    for axes, (label, cost) in zip(figure.subplots(1, len(costs), squeeze=False)[0], costs.items()):
        draw(axes, by_kind, name, cost)
        axes.set(xlabel=label, ylabel=f"{name} {SCORES[name]}")
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def draw(
    axes: Axes, by_kind: dict[str, list[RunRow]], name: str, cost: Callable[[RunRow], float]
) -> None:
    """Draw a named point for each run, with a marker for each kind."""
    for (kind, rows), marker in zip(by_kind.items(), chain("*", cycle("osvD^"))):
        points = [(cost(row), row.scores[name]) for row in rows]
        if points:
            axes.plot(*zip(*points), marker, label=kind)
        for row, point in zip(rows, points):
            axes.annotate(row.name, point, (4, 4), textcoords="offset points", fontsize=7)
