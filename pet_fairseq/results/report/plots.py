"""The report's plots as PNG files. A group of runs has the same colour and marker in each."""

import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from pet_fairseq.files import write_figure
from pet_fairseq.number_format import format_speed
from pet_fairseq.results.report.compare import Comparison
from pet_fairseq.results.report.scoring import Scorer
from pet_fairseq.results.report.seed_groups import RunGroup
from pet_fairseq.statistics import Sample

MARKERS = "os^Dv<>PX*"
FEWEST_POINTS = 3  # of a curve
AT_RATE = re.compile(r"_at\d+$")  # NAME_at5 is the group NAME at another rate


def over_rate(scorer: Scorer) -> str:
    """The name of the plot of a score over the compression rate."""
    return f"{scorer.key}_over_rate.png"


def write_plots(comparison: Comparison, folder: Path) -> None:
    """Write the plots; an old one over beams or rates is removed if there are too few of them."""
    beam, scorer = comparison.beam, comparison.scorer
    at_beam = "" if beam is None else f" (beam {beam})"
    name = f"{scorer.name}{at_beam}"

    def speedup(group: RunGroup) -> Optional[Sample]:
        ratio = comparison.speedup(group, beam)
        return None if ratio is None else Sample([ratio])

    plot_over_rate(comparison, comparison.scores, ".1f", name, folder / over_rate(scorer))
    label = f"sentences/s, times the teacher's{at_beam}"
    plot_over_rate(comparison, speedup, ".2f", label, folder / "speed_over_rate.png")
    plot_speed(comparison.groups, comparison.main_beams, folder / "sentences_per_second.png")
    curves = folder / f"{scorer.key}_over_beam.png"
    if len(comparison.beams) >= FEWEST_POINTS:
        plot_over_beam(comparison.groups, comparison.beams, scorer.name, curves)
    else:
        curves.unlink(missing_ok=True)
    curves = folder / f"{scorer.key}_over_rates.png"
    sweeps = {title: points for title, points in rate_sweeps(comparison).items() if points}
    if any(len(points) >= FEWEST_POINTS for points in sweeps.values()):
        plot_sweeps(comparison, sweeps, name, curves)
    else:
        curves.unlink(missing_ok=True)


def plot_over_rate(
    comparison: Comparison,
    value: Callable[[RunGroup], Optional[Sample]],
    form: str,
    label: str,
    path: Path,
) -> None:
    """Plot a point for each group whose value and compression rate are known.

    The rate has a logarithmic axis, because students are much smaller than their teacher.

    Args:
        value: a group's values. form: the format of their mean in the legend.
    """
    figure, axes = new_axes(8.4, _legend_height(comparison.groups))
    for i, group in enumerate(comparison.groups):
        rate, y = comparison.rate(group), value(group)
        if rate is None or y is None:
            continue
        title = f"{group.title}: {y.mean:{form}}"
        _plot_samples(axes, [rate], [y], title, linestyle="", alpha=0.8, **_style(i))
    use_log_sizes(axes)
    axes.margins(0.15)
    axes.set_xlabel("compression rate: layer parameters, % of the teacher's")
    axes.set_ylabel(label)
    add_legend(axes)
    write_figure(path, figure)


def rate_sweeps(comparison: Comparison) -> dict[str, list[tuple[float, Sample]]]:
    """Rate and scores of the methods that were trained at several rates, by the method's title.

    The groups NAME, NAME_at5, NAME_at20, ... are one method. Points are in the order of the rate.
    """
    methods: dict[str, list[RunGroup]] = {}
    for group in comparison.groups:
        methods.setdefault(AT_RATE.sub("", group.name), []).append(group)
    titles = {group.name: group.title for group in comparison.groups}
    sweeps = {}
    for name, groups in methods.items():
        if len(groups) > 1:
            points = ((comparison.rate(g), comparison.scores(g)) for g in groups)
            known = [(x, y) for x, y in points if x is not None and y is not None]
            sweeps[titles.get(name, name)] = sorted(known, key=lambda point: point[0])
    return sweeps


def plot_sweeps(
    comparison: Comparison, sweeps: dict[str, list[tuple[float, Sample]]], label: str, path: Path
) -> None:
    """Plot a score over the rate as a line for each method (PET, Figure 7a), and the teacher's.

    Args:
        sweeps: as from `rate_sweeps`.
    """
    figure, axes = new_axes(8.4, 4.4)
    teacher = comparison.score(comparison.teacher)
    if teacher is not None:
        title = f"{wrap_title(comparison.teacher.title)}: {teacher:.1f}"
        axes.axhline(teacher, color="grey", linestyle="--", label=title)
    for i, (title, points) in enumerate(sweeps.items()):
        rates, samples = zip(*points)
        _plot_samples(axes, rates, samples, title, **_style(i))
    axes.set_xlim(left=0)
    axes.set_xlabel("compression rate: layer parameters, % of the teacher's")
    axes.set_ylabel(label)
    add_legend(axes)
    write_figure(path, figure)


def plot_over_beam(groups: list[RunGroup], beams: list[int], label: str, path: Path) -> None:
    """Plot the mean score over beam size as a line for each group (PET, Figure 8)."""
    figure, axes = new_axes(8.4, _legend_height(groups))
    for i, group in enumerate(groups):
        measured = sorted(group.score)
        samples = [group.score[beam] for beam in measured]
        if samples:
            _plot_samples(axes, measured, samples, group.title, **_style(i))
    axes.set_xticks(beams)
    axes.set_xlabel("beam size")
    axes.set_ylabel(label)
    add_legend(axes)
    write_figure(path, figure)


def plot_speed(groups: list[RunGroup], beams: list[int], path: Path) -> None:
    """Plot sentences per second as bars, one for each group and beam that was measured.

    The first group is at the top.
    """
    bars = max(len(beams), 1)
    figure, axes = new_axes(7.2, 1 + (0.2 * bars + 0.15) * len(groups))
    height = 0.8 / bars
    for i, beam in enumerate(beams):
        measured = [y for y, group in enumerate(groups) if beam in group.sentences_per_second]
        positions = [y - 0.4 + (i + 0.5) * height for y in measured]
        speeds = [groups[y].sentences_per_second[beam] for y in measured]
        drawn = axes.barh(positions, speeds, height * 0.95, label=f"beam {beam}", zorder=3)
        axes.bar_label(drawn, [*map(format_speed, speeds)], padding=2)
    axes.set_yticks(range(len(groups)), [wrap_title(group.title) for group in groups])
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlabel("sentences per second, fairseq-generate")
    axes.margins(x=0.1)
    axes.grid(axis="x", alpha=0.3)
    if beams:  # above the axes, where it covers no bar
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(beams), frameon=False)
    write_figure(path, figure)


def _plot_samples(
    axes: Axes, xs: Sequence[float], samples: Sequence[Sample], title: str, **style: Any
) -> None:
    """Plot the means of samples, with bars of their deviation where there are seeds."""
    means = [sample.mean for sample in samples]
    axes.plot(xs, means, label=wrap_title(title), **style)
    deviations = [sample.deviation or 0.0 for sample in samples]
    axes.errorbar(xs, means, deviations, fmt="none", ecolor=style["color"])


def use_log_sizes(axes: Axes) -> None:
    """Make the x-axis logarithmic, with ticks at 1, 2, 5, 10, ..."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _style(i: int) -> dict[str, Any]:
    """The colour and marker of the i-th group, different for the first 100."""
    return dict(color=f"C{i % 10}", marker=MARKERS[(i + i // 10) % 10], markersize=7)


def wrap_title(title: str) -> str:
    return textwrap.fill(title, 32)


def _legend_height(groups: list[RunGroup]) -> float:
    """The height in inches of a legend whose titles have up to two lines each."""
    return max(4.4, 0.4 * len(groups))


def add_legend(axes: Axes) -> None:
    """Add a grid, and a legend to the right of the axes, where it covers nothing."""
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty plot of a width and height in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    return figure, figure.add_subplot()
