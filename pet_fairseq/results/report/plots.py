"""The report's plots as PNG files. A group of runs has the same colour and marker in each."""

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from pet_fairseq.files import write_figure
from pet_fairseq.results.report.compare import Comparison
from pet_fairseq.results.report.scoring import Scoring
from pet_fairseq.results.report.seed_groups import RunGroup
from pet_fairseq.rounding import format_speed

MARKERS = "os^Dv<>PX*"
FEWEST_POINTS = 3  # a curve needs at least so many
AT_RATE = re.compile(r"_at\d+$")  # NAME_at5 is the group NAME at another rate


def over_rate(scoring: Scoring) -> str:
    """The name of the plot of a score over the compression rate."""
    return f"{scoring.key}_over_rate.png"


def write_plots(comparison: Comparison, folder: Path) -> None:
    """Write the plots; an old one over beams or rates is removed if there are too few of them."""
    beam, scoring = comparison.beam, comparison.scoring
    at_beam = "" if beam is None else f" (beam {beam})"
    name = f"{scoring.name}{at_beam}"

    def speedup(group: RunGroup) -> Optional[float]:
        return comparison.speedup(group, beam)

    plot_over_rate(comparison, comparison.score, ".1f", name, folder / over_rate(scoring))
    label = f"sentences/s, times the teacher's{at_beam}"
    plot_over_rate(comparison, speedup, ".2f", label, folder / "speed_over_rate.png")
    plot_speed(comparison.groups, comparison.main_beams, folder / "sentences_per_second.png")
    curves = folder / f"{scoring.key}_over_beam.png"
    if len(comparison.beams) >= FEWEST_POINTS:
        plot_over_beam(comparison.groups, comparison.beams, scoring.name, curves)
    else:
        curves.unlink(missing_ok=True)
    curves = folder / f"{scoring.key}_over_rates.png"
    sweeps = {title: points for title, points in rate_sweeps(comparison).items() if points}
    if any(len(points) >= FEWEST_POINTS for points in sweeps.values()):
        plot_sweeps(comparison, sweeps, name, curves)
    else:
        curves.unlink(missing_ok=True)


def plot_over_rate(
    comparison: Comparison,
    value: Callable[[RunGroup], Optional[float]],
    form: str,
    label: str,
    path: Path,
) -> None:
    """Plot a point for each group whose value and compression rate are known.

    The rate has a logarithmic axis, because students are much smaller than their teacher.

    Args:
        value: a group's value. form: the format of the value in the legend.
    """
    figure, axes = _axes(8.4, _legend_height(comparison.groups))
    for i, group in enumerate(comparison.groups):
        rate, y = comparison.rate(group), value(group)
        if rate is None or y is None:
            continue
        title = _wrap(f"{group.title}: {y:{form}}")
        axes.plot(rate, y, linestyle="", alpha=0.8, label=title, **_style(i))
    use_log_sizes(axes)
    axes.margins(0.15)
    axes.set_xlabel("compression rate: layer parameters, % of the teacher's")
    axes.set_ylabel(label)
    _add_legend(axes)
    write_figure(path, figure)


def rate_sweeps(comparison: Comparison) -> dict[str, list[tuple[float, float]]]:
    """Rate and score of the methods that were trained at several rates, by the method's title.

    The groups NAME, NAME_at5, NAME_at20, ... are one method. Points are in the order of the rate.
    """
    methods: dict[str, list[RunGroup]] = {}
    for group in comparison.groups:
        methods.setdefault(AT_RATE.sub("", group.name), []).append(group)
    titles = {group.name: group.title for group in comparison.groups}
    sweeps = {}
    for name, groups in methods.items():
        if len(groups) > 1:
            points = ((comparison.rate(g), comparison.score(g)) for g in groups)
            known = [(x, y) for x, y in points if x is not None and y is not None]
            sweeps[titles.get(name, name)] = sorted(known)
    return sweeps


def plot_sweeps(
    comparison: Comparison, sweeps: dict[str, list[tuple[float, float]]], label: str, path: Path
) -> None:
    """Plot a score over the rate as a line for each method (PET, Figure 7a), and the teacher's.

    Args:
        sweeps: as from `rate_sweeps`.
    """
    figure, axes = _axes(8.4, 4.4)
    teacher = comparison.score(comparison.teacher)
    if teacher is not None:
        title = f"{_wrap(comparison.teacher.title)}: {teacher:.1f}"
        axes.axhline(teacher, color="grey", linestyle="--", label=title)
    for i, (title, points) in enumerate(sweeps.items()):
        axes.plot(*zip(*points), label=_wrap(title), **_style(i))
    axes.set_xlim(left=0)
    axes.set_xlabel("compression rate: layer parameters, % of the teacher's")
    axes.set_ylabel(label)
    _add_legend(axes)
    write_figure(path, figure)


def plot_over_beam(groups: list[RunGroup], beams: list[int], label: str, path: Path) -> None:
    """Plot the mean score over beam size as a line for each group (PET, Figure 8)."""
    figure, axes = _axes(8.4, _legend_height(groups))
    for i, group in enumerate(groups):
        measured = sorted(group.score)
        scores = [group.score[beam] for beam in measured]
        if scores:
            axes.plot(measured, scores, label=_wrap(group.title), **_style(i))
    axes.set_xticks(beams)
    axes.set_xlabel("beam size")
    axes.set_ylabel(label)
    _add_legend(axes)
    write_figure(path, figure)


def plot_speed(groups: list[RunGroup], beams: list[int], path: Path) -> None:
    """Plot sentences per second as bars, one for each group and beam that was measured.

    The first group is at the top.
    """
    bars = max(len(beams), 1)
    figure, axes = _axes(7.2, 1 + (0.2 * bars + 0.15) * len(groups))
    height = 0.8 / bars
    for i, beam in enumerate(beams):
        measured = [y for y, group in enumerate(groups) if beam in group.sentences_per_second]
        positions = [y - 0.4 + (i + 0.5) * height for y in measured]
        speeds = [groups[y].sentences_per_second[beam] for y in measured]
        drawn = axes.barh(positions, speeds, height * 0.95, label=f"beam {beam}", zorder=3)
        axes.bar_label(drawn, [*map(format_speed, speeds)], padding=2)
    axes.set_yticks(range(len(groups)), [_wrap(group.title) for group in groups])
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlabel("sentences per second, fairseq-generate")
    axes.margins(x=0.1)
    axes.grid(axis="x", alpha=0.3)
    if beams:  # above the axes, where it covers no bar
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(beams), frameon=False)
    write_figure(path, figure)


@dataclass(frozen=True)
class Trade:
    """The cost and the BLEU of a group of runs that is stored or run in one form.

    Attributes:
        title: of the group. form: such as "8 bits".
        x: the cost: megabytes, or sentences a second.
        spread: the standard deviation of BLEU over seeds, None for one seed.
    """

    title: str
    form: str
    x: float
    bleu: float
    spread: Optional[float] = None


def undominated(trades: Sequence[Trade], more_is_better: bool) -> list[Trade]:
    """The frontier: the trades that no other beats in both x and BLEU, the best x first."""
    sign = -1 if more_is_better else 1
    best: list[Trade] = []
    for trade in sorted(trades, key=lambda t: (sign * t.x, -t.bleu)):
        if not best or trade.bleu > best[-1].bleu:
            best.append(trade)
    return best


def plot_size_trades(trades: Sequence[Trade], label: str, path: Path) -> None:
    """Plot BLEU over megabytes on a logarithmic axis, with one frontier for all forms."""
    figure, axes = _trade_axes(trades, label)
    _add_frontier(axes, undominated(trades, more_is_better=False))
    use_log_sizes(axes)
    _add_legend(axes)
    write_figure(path, figure)


def plot_speed_trades(trades: Sequence[Trade], label: str, path: Path) -> None:
    """Plot BLEU over speed, with a frontier for each form."""
    figure, axes = _trade_axes(trades, label)
    for form in _forms(trades):
        rivals = [trade for trade in trades if trade.form == form]
        _add_frontier(axes, undominated(rivals, more_is_better=True))
    _add_legend(axes)
    write_figure(path, figure)


def _trade_axes(trades: Sequence[Trade], label: str) -> tuple[Figure, Axes]:
    """A plot of BLEU with a coloured line for each group and a marker for each form."""
    titles, forms = list(dict.fromkeys(trade.title for trade in trades)), _forms(trades)
    figure, axes = _axes(9.4, max(4.4, 0.35 * (len(titles) + len(forms) + 1)))
    for i, title in enumerate(titles):
        own = sorted((trade for trade in trades if trade.title == title), key=lambda t: t.x)
        color = colormaps["tab20"].colors[i * 2 % 20 + i // 10 % 2]  # ten dark ones, ten light ones
        axes.plot([t.x for t in own], [t.bleu for t in own], color=color, label=_wrap(title))
        for trade in own:
            marker = MARKERS[forms.index(trade.form)]
            axes.errorbar(trade.x, trade.bleu, trade.spread, color=color, marker=marker, capsize=2)
    for form, marker in zip(forms, MARKERS):
        axes.plot([], [], color="grey", linestyle="", marker=marker, label=form)
    axes.set_xlabel(label)
    axes.set_ylabel("BLEU")
    return figure, axes


def _forms(trades: Sequence[Trade]) -> list[str]:
    return list(dict.fromkeys(trade.form for trade in trades))


def _add_frontier(axes: Axes, best: Sequence[Trade]) -> None:
    """Add a dashed line through the trades of a frontier; the legend has one entry for all."""
    label = "none is better" if "none is better" not in axes.get_legend_handles_labels()[1] else ""
    points = [trade.x for trade in best], [trade.bleu for trade in best]
    style = {"color": "black", "linestyle": "--", "linewidth": 1, "drawstyle": "steps-post"}
    axes.plot(*points, label=label, zorder=1, **style)


def use_log_sizes(axes: Axes) -> None:
    """Make the x-axis logarithmic, with ticks at 1, 2, 5, 10, ..."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _style(i: int) -> dict[str, Any]:
    """The colour and marker of the i-th group, different for the first 100."""
    return dict(color=f"C{i % 10}", marker=MARKERS[(i + i // 10) % 10], markersize=7)


def _wrap(title: str) -> str:
    return textwrap.fill(title, 32)


def _legend_height(groups: list[RunGroup]) -> float:
    """The height in inches of a legend whose titles have up to two lines each."""
    return max(4.4, 0.4 * len(groups))


def _add_legend(axes: Axes) -> None:
    """Add a grid, and a legend to the right of the axes, where it covers nothing."""
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty plot of a width and height in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    return figure, figure.add_subplot()
