"""The report's plots as PNG files."""

import itertools
import logging
import os
import textwrap
from pathlib import Path
from typing import List, Tuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from pet_fairseq.report.measure import Run

matplotlib.use("Agg")
logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns on everything

MARKER = 60  # area, square points
LABEL_SHIFTS = sorted(range(-182, 183, 13), key=abs)  # up or down, points; the nearest first


def plot_bleu_over_rate(runs: List[Run], teacher: Run, path: Path) -> None:
    """BLEU at the largest beam over the compression rate, a labelled point for each run."""
    figure, axes = _axes(width=6.4)
    beam = max((b for run in runs for b in run.bleu), default=None)
    shown = [r for r in runs if beam in r.bleu and r.layer_parameters and teacher.layer_parameters]
    points = [(100 * r.layer_parameters / teacher.layer_parameters, r.bleu[beam]) for r in shown]
    for point in points:
        axes.scatter(*point, s=MARKER, zorder=3)
    axes.set_xlim(0, 1.05 * max([100.0, *(rate for rate, _ in points)]))
    axes.margins(y=0.15)
    axes.set_xlabel("compression rate: layer parameters, % of the teacher's")
    axes.set_ylabel("BLEU" if beam is None else f"BLEU (beam {beam})")
    axes.set_title("Quality over size")
    axes.grid(alpha=0.3)
    texts = [f"{_wrap(run.title, 30)}: {run.bleu[beam]:.1f}" for run in shown]
    _label_points(figure, axes, points, texts)
    _save(figure, path)


def _label_points(
    figure: Figure, axes: Axes, points: List[Tuple[float, float]], texts: List[str]
) -> None:
    """Put each text beside its point, where it covers no other point and no other text."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the axes stay where they are now
    radius = MARKER**0.5 / 2 * figure.dpi / 72  # pixels
    centres = axes.transData.transform(points) if points else []
    taken = [Bbox.from_extents(x - radius, y - radius, x + radius, y + radius) for x, y in centres]
    for point, text in zip(points, texts):
        taken.append(_place(figure, axes, point, text, taken))


def _place(
    figure: Figure, axes: Axes, point: Tuple[float, float], text: str, taken: List[Bbox]
) -> Bbox:
    """Draw a text at the free place that is nearest to its point; returns what it covers.

    Where no place is free, beside the point.
    """
    renderer = figure.canvas.get_renderer()
    left, right = axes.get_xlim()
    sides = (1, -1) if point[0] < (left + right) / 2 else (-1, 1)
    for shift, side in itertools.product(LABEL_SHIFTS, sides):
        label = _annotate(axes, point, text, side, shift)
        box = _extent(label, renderer)
        inside = axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max)
        if inside and not box.count_overlaps(taken):
            return box
        label.remove()
    return _extent(_annotate(axes, point, text, sides[0], 0), renderer)


def _extent(label: Annotation, renderer: RendererBase) -> Bbox:
    """What a text covers, in pixels, without the line to its point."""
    label.update_positions(renderer)
    return Text.get_window_extent(label, renderer)


def _annotate(
    axes: Axes, point: Tuple[float, float], text: str, side: int, shift: int
) -> Annotation:
    """A text to the right (side 1) or left (-1) of a point, with a line to it if it is shifted."""
    line = dict(
        arrowstyle="-", color="0.6", shrinkA=0, shrinkB=3, relpos=(0 if side > 0 else 1, 0.5)
    )
    return axes.annotate(
        text,
        point,
        xytext=(9 * side, shift),
        textcoords="offset points",
        ha="left" if side > 0 else "right",
        va="center",
        arrowprops=line if shift else None,
    )


def plot_speed(runs: List[Run], path: Path) -> None:
    """Sentences per second for each run and beam; no bar where it was not measured."""
    figure, axes = _axes(width=max(6.4, 1.5 * len(runs)))
    beams = sorted({beam for run in runs for beam in run.sentences_per_second})
    width = 0.8 / max(len(beams), 1)
    for i, beam in enumerate(beams):
        measured = [x for x, run in enumerate(runs) if beam in run.sentences_per_second]
        places = [x - 0.4 + (i + 0.5) * width for x in measured]
        speeds = [runs[x].sentences_per_second[beam] for x in measured]
        bars = axes.bar(places, speeds, width * 0.95, label=f"beam {beam}", zorder=3)
        axes.bar_label(bars, [format(speed, speed_form(speed)) for speed in speeds])
    axes.set_xticks(range(len(runs)), [_wrap(run.title, 16) for run in runs])
    axes.set_ylabel("sentences per second")
    axes.set_title("Speed of fairseq-generate", loc="left")
    axes.margins(y=0.1)
    axes.grid(axis="y", alpha=0.3)
    if beams:  # above the axes, where it covers no bar
        axes.legend(
            loc="lower right", bbox_to_anchor=(1, 1), ncols=len(beams), frameon=False, borderpad=0.2
        )
    _save(figure, path)


def speed_form(speed: float) -> str:
    """The format in which to show sentences per second: slow ones with a decimal."""
    return ".0f" if speed >= 10 else ".1f"


def _wrap(title: str, width: int) -> str:
    return textwrap.fill(title, width)


def _axes(width: float) -> Tuple[Figure, Axes]:
    """An empty plot, 4.4 inches high; with a canvas, which measures texts."""
    figure = Figure(figsize=(width, 4.4), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _save(figure: Figure, path: Path) -> None:
    temporary = path.with_name("." + path.name)
    figure.savefig(temporary, dpi=150, format="png")
    os.replace(temporary, path)
