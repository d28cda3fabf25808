"""A plot of how long prompts and responses are (SelfCP, Figure 3)."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from fairseq.data.indexed_dataset import MMapIndexedDataset
from matplotlib.figure import Figure

PARTS = ("prompt", "response")
MOST_BARS = 40


def lengths_of(prefix: Path, part: str) -> np.ndarray:
    """The number of tokens of this part of each record of a subset, in their order."""
    records = MMapIndexedDataset(f"{prefix}.{part}")
    return np.array(records.sizes)  # copied: with the data set its file is closed


def bar_edges(longest: int) -> np.ndarray:
    """Edges of at most MOST_BARS bars, each about as many whole numbers of 0 to `longest`."""
    width = -(-(longest + 1) // MOST_BARS)
    return np.arange(0, longest + 1 + width, width) - 0.5


def plot_lengths(folder: Path, splits: Iterable[str]) -> Figure:
    """Plot the lengths of a folder's records: a panel for each part, a line for each subset.

    Heights are shares of the subset's records, so that small subsets can be seen beside large ones.
    """
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, part in zip(figure.subplots(1, 2), PARTS):
        by_split = {split: lengths_of(folder / split, part) for split in splits}
        edges = bar_edges(max(lengths.max() for lengths in by_split.values()))
        for split, lengths in by_split.items():
            share = np.full(len(lengths), 100 / len(lengths))
            label = f"{split}: mean {lengths.mean():,.1f}, most {lengths.max():,}"
            axes.hist(lengths, edges, weights=share, histtype="step", label=label)
        axes.set(xlabel=f"tokens of a {part}", ylabel="% of records")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    return figure
