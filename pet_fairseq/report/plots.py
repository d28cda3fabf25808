"""The report's plots as PNG files. A row has the same colour and marker in each."""

import textwrap
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pet_fairseq.files import write_figure
from pet_fairseq.report.compare import Comparison
from pet_fairseq.report.rows import Row

MARKERS = "os^Dv<>PX*"
FEWEST_BEAMS = 3  # that make a curve


def write_plots(comparison: Comparison, folder: Path) -> None:
    """Write the plots; an old one of beam sizes is removed if there are too few now."""
    beam = comparison.beam
    name = "" if beam is None else f" (beam {beam})"

    def bleu(row: Row) -> Optional[float]:
        return row.bleu.get(beam)

    def speedup(row: Row) -> Optional[float]:
        return comparison.speedup(row, beam)

    plot_over_rate(comparison, bleu, ".1f", f"BLEU{name}", folder / "bleu_over_rate.png")
    label = f"sentences/s, times the teacher's{name}"
    plot_over_rate(comparison, speedup, ".2f", label, folder / "speed_over_rate.png")
    plot_speed(comparison.rows, comparison.main_beams, folder / "sentences_per_second.png")
    curves = folder / "bleu_over_beam.png"
    if len(comparison.beams) >= FEWEST_BEAMS:
        plot_bleu_over_beam(comparison.rows, comparison.beams, curves)
    else:
        curves.unlink(missing_ok=True)


def plot_over_rate(
    comparison: Comparison,
    value: Callable[[Row], Optional[float]],
    form: str,
    label: str,
    path: Path,
) -> None:
    """A point for each row whose value and compression rate are known."""
    figure, axes = _axes(8.4, _legend_height(comparison.rows))
    farthest = 100.0
    for i, row in enumerate(comparison.rows):
        rate, y = comparison.rate(row), value(row)
        if rate is None or y is None:
            continue
        farthest = max(farthest, rate)
        title = _wrap(f"{row.title}: {y:{form}}")
        axes.plot(rate, y, linestyle="", alpha=0.8, label=title, **_style(i))
    axes.set_xlim(0, 1.05 * farthest)
    axes.margins(y=0.1)
    axes.set_xlabel("compression rate: layer parameters, % of the teacher's")
    axes.set_ylabel(label)
    _add_legend(axes)
    write_figure(path, figure)


def plot_bleu_over_beam(rows: List[Row], beams: List[int], path: Path) -> None:
    """A line of BLEU over beam size for each row (PET, Figure 8), the seeds' mean."""
    figure, axes = _axes(8.4, _legend_height(rows))
    for i, row in enumerate(rows):
        measured = sorted(row.bleu)
        scores = [row.bleu[beam] for beam in measured]
        if scores:
            axes.plot(measured, scores, label=_wrap(row.title), **_style(i))
    axes.set_xticks(beams)
    axes.set_xlabel("beam size")
    axes.set_ylabel("BLEU")
    _add_legend(axes)
    write_figure(path, figure)


def plot_speed(rows: List[Row], beams: List[int], path: Path) -> None:
    """Sentences per second for each row and beam, the first at the top; no bar if not measured."""
    bars = max(len(beams), 1)
    figure, axes = _axes(7.2, 1 + (0.2 * bars + 0.15) * len(rows))
    height = 0.8 / bars
    for i, beam in enumerate(beams):
        measured = [y for y, row in enumerate(rows) if beam in row.sentences_per_second]
        places = [y - 0.4 + (i + 0.5) * height for y in measured]
        speeds = [rows[y].sentences_per_second[beam] for y in measured]
        drawn = axes.barh(places, speeds, height * 0.95, label=f"beam {beam}", zorder=3)
        axes.bar_label(drawn, [format(speed, speed_form(speed)) for speed in speeds], padding=2)
    axes.set_yticks(range(len(rows)), [_wrap(row.title) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("sentences per second, fairseq-generate")
    axes.margins(x=0.1)
    axes.grid(axis="x", alpha=0.3)
    if beams:  # above the axes, where it covers no bar
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(beams), frameon=False)
    write_figure(path, figure)


def speed_form(speed: float) -> str:
    """The format in which to show sentences per second: slow ones with a decimal."""
    return ".0f" if speed >= 10 else ".1f"


def _style(i: int) -> Dict[str, Any]:
    """Colour and marker of the i-th row, different for the first 100."""
    return dict(color=f"C{i % 10}", marker=MARKERS[(i + i // 10) % 10], markersize=7)


def _wrap(title: str) -> str:
    return textwrap.fill(title, 32)


def _legend_height(rows: List[Row]) -> float:
    """Inches, for titles of up to two lines each."""
    return max(4.4, 0.4 * len(rows))


def _add_legend(axes: Axes) -> None:
    """A legend at the right of the axes, where it covers nothing; a grid."""
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _axes(width: float, height: float) -> Tuple[Figure, Axes]:
    """An empty plot, in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    return figure, figure.add_subplot()
