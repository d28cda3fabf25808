"""The report of `pet-fairseq neurons`: table, plot and numbers."""

from pathlib import Path
from statistics import fmean
from typing import Optional

from matplotlib.figure import Figure

from pet_fairseq.checkpoints.subsets import read_batches
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.files import check_folder, write_with_figure
from pet_fairseq.markdown import table
from pet_fairseq.variator.neurons import watch_neurons
from pet_fairseq.variator.plugin_files import load_variator

Shares = dict[int, dict[str, list[float]]]  # by ratio and name: one number for each layer


def report_neurons(
    checkpoint: str,
    data: str,
    subset: str = "valid",
    sentences: int = 200,
    max_tokens: int = 4000,
    out: Optional[Path] = None,
    device: str = "cpu",
) -> str:
    """Count at every ratio of the files, write neurons.{md,json,png}, and return the Markdown.

    Args:
        checkpoint: plugin files for one backbone, `a.pt:b.pt`; out: nothing is written without it.
    Raises:
        UserError: a wrong option; nothing is written then.
    """
    device = check_device(device)
    model, task = load_variator(checkpoint, "CHECKPOINT", data)
    options = (task, subset, sentences, max_tokens, device)
    samples = list(read_batches(*options, model.max_positions()))
    if out is not None:
        check_folder(out, "--out")
    shares_by_ratio: Shares = {}
    for ratio in model.ratios[1:]:
        shares = watch_neurons(model.to(device), samples, ratio).shares()
        shares_by_ratio[ratio] = {name: values.tolist() for name, values in shares.items()}
    text = to_markdown(shares_by_ratio)
    if out is not None:
        content = {
            "checkpoint": checkpoint,
            "data": data,
            "subset": subset,
            "layers": shares_by_ratio,
        }
        write_with_figure(out, "neurons", text, content, plot(shares_by_ratio))
    return text


def to_markdown(shares_by_ratio: Shares) -> str:
    """Format a row for each ratio: percentages, averaged over the layers.

    Raises:
        UserError: there is no ratio above 1.
    """
    if not shares_by_ratio:
        raise UserError("CHECKPOINT: holds no plugins for a ratio above 1")
    names = list(next(iter(shares_by_ratio.values())))
    rows = []
    for ratio, shares in shares_by_ratio.items():
        rows.append([str(ratio), *(f"{100 * fmean(shares[name]):.1f}" for name in names)])
    return table(["k", *(f"{name} %" for name in names)], rows, text=())


def plot(shares_by_ratio: Shares) -> Figure:
    """Plot active neurons, and how many of a compressed vector's are active for its members too."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    names = list(next(iter(shares_by_ratio.values())))
    for axes, part in zip(figure.subplots(1, 2), (names[:3], names[3:])):
        for name, marker in zip(part, "os^"):
            values = [100 * fmean(shares[name]) for shares in shares_by_ratio.values()]
            axes.plot([str(k) for k in shares_by_ratio], values, marker=marker, label=name)
        axes.set(xlabel="k", ylabel="% of neurons", ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    return figure
