"""The plots of `frontier.py`: BLEU over megabytes and over speed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pet_fairseq.files import write_figure
from pet_fairseq.results.report.plots import (
    MARKERS,
    add_legend,
    new_axes,
    use_log_sizes,
    wrap_title,
)


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
    add_legend(axes)
    write_figure(path, figure)


def plot_speed_trades(trades: Sequence[Trade], label: str, path: Path) -> None:
    """Plot BLEU over speed, with a frontier for each form."""
    figure, axes = _trade_axes(trades, label)
    for form in _forms(trades):
        rivals = [trade for trade in trades if trade.form == form]
        _add_frontier(axes, undominated(rivals, more_is_better=True))
    add_legend(axes)
    write_figure(path, figure)


def _trade_axes(trades: Sequence[Trade], label: str) -> tuple[Figure, Axes]:
    """A plot of BLEU with a coloured line for each group and a marker for each form."""
    titles, forms = list(dict.fromkeys(trade.title for trade in trades)), _forms(trades)
    figure, axes = new_axes(9.4, max(4.4, 0.35 * (len(titles) + len(forms) + 1)))
    for i, title in enumerate(titles):
        own = sorted((trade for trade in trades if trade.title == title), key=lambda t: t.x)
        color = colormaps["tab20"].colors[i * 2 % 20 + i // 10 % 2]  # ten dark ones, ten light ones
        axes.plot([t.x for t in own], [t.bleu for t in own], color=color, label=wrap_title(title))
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
