"""What `pet-fairseq neurons` shows and writes."""

from pathlib import Path
from typing import Dict, List, Optional

from matplotlib.figure import Figure

from pet_fairseq.errors import UserError
from pet_fairseq.files import check_folder, write_figure, write_json, write_text
from pet_fairseq.loading import check_device, read_batches
from pet_fairseq.markdown import table
from pet_fairseq.variator.load import load_variator
from pet_fairseq.variator.neurons import watch_neurons

Shares = Dict[int, Dict[str, List[float]]]  # by ratio and name: one number for each layer


def report_neurons(
    checkpoint: str,
    data: str,
    subset: str = "valid",
    sentences: int = 200,
    max_tokens: int = 4000,
    out: Optional[Path] = None,
    device: str = "cpu",
) -> str:
    """Count at every ratio of the files, write neurons.{md,json,png} into `out`; the Markdown.

    Raises:
        UserError: a wrong option; nothing is written then.
    """
    check_device(device)
    model, task = load_variator(checkpoint, "--checkpoint", data)
    samples = list(read_batches(task, subset, sentences, max_tokens, device))
    if out is not None:
        check_folder(out, "--out")
    found: Shares = {}
    for ratio in model.ratios[1:]:
        shares = watch_neurons(model.to(device), samples, ratio).shares()
        found[ratio] = {name: values.tolist() for name, values in shares.items()}
    text = to_markdown(found)
    if out is not None:
        figure = plot(found)
        content = {"checkpoint": checkpoint, "data": data, "subset": subset, "layers": found}
        write_text(out / "neurons.md", text)
        write_json(out / "neurons.json", content)
        write_figure(out / "neurons.png", figure)
    return text


def mean(values: List[float]) -> float:
    return sum(values) / len(values)


def to_markdown(found: Shares) -> str:
    """A row for each ratio: percent, mean over layers.

    Raises:
        UserError: there is no ratio above 1.
    """
    if not found:
        raise UserError("--checkpoint: holds no plugins for a ratio above 1")
    names = list(next(iter(found.values())))
    rows = []
    for ratio, shares in found.items():
        rows.append([str(ratio), *(f"{100 * mean(shares[name]):.1f}" for name in names)])
    return table(["k", *(f"{name} %" for name in names)], rows, text=())


def plot(found: Shares) -> Figure:
    """Active neurons, and what the compressed vectors' ones have in common with their members'."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    names = list(next(iter(found.values())))
    for axes, part in zip(figure.subplots(1, 2), (names[:3], names[3:])):
        for name, marker in zip(part, "os^"):
            values = [100 * mean(shares[name]) for shares in found.values()]
            axes.plot([str(k) for k in found], values, marker=marker, label=name)
        axes.set(xlabel="k", ylabel="% of neurons", ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    return figure
