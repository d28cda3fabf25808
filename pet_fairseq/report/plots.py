"""The report's plots as PNG files."""

import logging
import os
from pathlib import Path
from typing import List

import matplotlib
from matplotlib.figure import Figure

from pet_fairseq.report.measure import Run

matplotlib.use("Agg")
logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns on everything


def plot_bleu_over_rate(runs: List[Run], teacher: Run, path: Path) -> None:
    """BLEU at the largest beam over the compression rate, a labelled point for each run."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    beam = max((b for run in runs for b in run.bleu), default=None)
    shown = [r for r in runs if beam in r.bleu and r.layer_parameters and teacher.layer_parameters]
    for run in shown:
        rate = 100 * run.layer_parameters / teacher.layer_parameters
        axes.scatter(rate, run.bleu[beam], s=60, zorder=3)
        right = rate < 50
        axes.annotate(
            f"{run.title}: {run.bleu[beam]:.1f}",
            (rate, run.bleu[beam]),
            xytext=(9 if right else -9, 0),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
        )
    axes.set_xlim(0, 105)
    axes.margins(y=0.15)
    axes.set_xlabel("compression rate: layer parameters, % of the teacher's")
    axes.set_ylabel(f"BLEU (beam {beam})")
    axes.set_title("Quality over size")
    axes.grid(alpha=0.3)
    _save(figure, path)


def plot_speed(runs: List[Run], path: Path) -> None:
    """Sentences per second for each run and beam."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    beams = sorted({beam for run in runs for beam in run.sentences_per_second})
    width = 0.8 / max(len(beams), 1)
    for i, beam in enumerate(beams):
        places = [x - 0.4 + (i + 0.5) * width for x in range(len(runs))]
        speeds = [run.sentences_per_second.get(beam, 0) for run in runs]
        bars = axes.bar(places, speeds, width * 0.95, label=f"beam {beam}", zorder=3)
        axes.bar_label(bars, fmt="%.0f")
    axes.set_xticks(range(len(runs)), [run.title for run in runs])
    axes.set_ylabel("sentences per second")
    axes.set_title("Speed of fairseq-generate")
    axes.margins(y=0.1)
    axes.grid(axis="y", alpha=0.3)
    if beams:
        axes.legend()
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    temporary = path.with_name("." + path.name)
    figure.savefig(temporary, dpi=150, format="png")
    os.replace(temporary, path)
