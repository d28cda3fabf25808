"""Heat maps of `pet-fairseq suggest-pairs`: slots x slots, coloured by the rise of the loss."""

import re
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from pet_fairseq.pet.pair_search.candidates import PROJECTION_SLOTS
from pet_fairseq.pet.pair_search.search import Measured, SearchResult

MOST_LABELLED = 12  # slots of a panel up to which its cells hold numbers
PANELS_PER_ROW = 4
BESIDE = 1.3  # inches beside and below a panel's cells, for labels and the colour bar


class Panel(NamedTuple):
    """One heat map: the slots of its rows and columns, and rises by pair."""

    stack: str
    slots: list[str]
    rises: dict[str, float]

    @property
    def is_labelled(self) -> bool:
        return len(self.slots) <= MOST_LABELLED

    @property
    def inches(self) -> float:
        """Width and height of its cells."""
        return (len(self.slots) - 1) * (0.46 if self.is_labelled else 0.22)

    @property
    def title(self) -> str:
        if self.slots[0].startswith("L"):
            return f"{self.stack}: whole layers"
        layers = sorted({int(re.sub(r"\D", "", slot)) for slot in self.slots})
        if len(layers) > 2:
            return f"{self.stack}: projections"
        return f"{self.stack}: layer{'s' * (len(layers) > 1)} {' and '.join(map(str, layers))}"


def split_panels(stack: str, measured: list[Measured]) -> list[Panel]:
    """A panel for all slots that a chain of pairs connects, the layers' first."""
    names = ("L", *PROJECTION_SLOTS[stack])

    def order(slot: str) -> tuple[bool, int, int]:
        name = slot.rstrip("0123456789")
        return name != "L", int(slot.removeprefix(name)), names.index(name)

    connected: list[set[str]] = []
    for pair in measured:
        slots = set(pair.pairs.split("="))
        apart = [other for other in connected if not other & slots]
        connected = [*apart, slots.union(*(other for other in connected if other & slots))]
    panels = sorted((sorted(slots, key=order) for slots in connected), key=lambda s: order(s[0]))
    rises = {pair.pairs: pair.rise for pair in measured}
    return [Panel(stack, slots, rises) for slots in panels]


def heat_maps(result: SearchResult) -> Figure:
    """Panels of single pairs; layers and projections have a colour scale each in every stack."""
    rows = []
    for stack in result.layers:
        panels = split_panels(stack, result.ranked(stack, "pair"))
        rows += [panels[i : i + PANELS_PER_ROW] for i in range(0, len(panels), PANELS_PER_ROW)]
    heights = [BESIDE + max(panel.inches for panel in row) for row in rows]
    width = max([6.0, *(sum(BESIDE + panel.inches for panel in row) for row in rows)])
    figure = Figure(figsize=(width, sum(heights) + 0.5))
    title = "Rise of the loss when two slots are tied (nats per token)"
    figure.suptitle(title if rows else "No pair could be tied", y=1 - 0.15 / figure.get_figheight())
    bottom = sum(heights)
    for row, height in zip(rows, heights):
        bottom -= height
        left = 0.0
        for panel in row:
            top = bottom + height - 0.4  # inches; the rest of BESIDE is for labels below
            corner = (left + 0.7, top - panel.inches)
            _draw(figure, panel, corner, _scale(result, panel))
            left += BESIDE + panel.inches
    return figure


def _scale(result: SearchResult, panel: Panel) -> PowerNorm:
    """Colours from 0 to the largest rise of this kind in the stack; small rises stay apart."""
    layers = panel.slots[0][0] == "L"
    rises = [m.rise for m in result.ranked(panel.stack, "pair") if (m.pairs[0] == "L") == layers]
    return PowerNorm(0.5, vmin=0, vmax=max(1e-6, *rises))


def _draw(figure: Figure, panel: Panel, corner: tuple[float, float], scale: PowerNorm) -> None:
    """The lower triangle of slots x slots, empty where a pair was not measured.

    Args:
        corner: inches from the figure's lower left to the cells'.
    """

    def add_axes(left: float, width: float) -> Axes:
        unit = figure.get_size_inches()
        box = (corner[0] + left, corner[1], width, panel.inches)
        return figure.add_axes([length / unit[i % 2] for i, length in enumerate(box)])

    rows, columns = panel.slots[1:], panel.slots[:-1]
    cells = np.array([[panel.rises.get(f"{a}={b}", np.nan) for a in columns] for b in rows])
    colours = matplotlib.colormaps["YlOrRd"].with_extremes(bad="white")
    axes = add_axes(0, panel.inches)
    image = axes.imshow(cells.clip(0), cmap=colours, norm=scale)
    axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title(panel.title, fontsize=9, loc="left")
    bar = figure.colorbar(image, cax=add_axes(panel.inches + 0.08, 0.1))
    bar.ax.tick_params(labelsize=7)
    if not panel.is_labelled:
        return
    for (row, column), value in np.ndenumerate(cells):
        if not np.isnan(value):
            colour = "white" if scale(value) > 0.6 else "black"
            axes.text(column, row, _short(value), ha="center", va="center", size=7, color=colour)


def _short(value: float) -> str:
    """A number at most five figures wide, without a minus before 0."""
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1
    return f"{round(value, digits) + 0.0:.{digits}f}"
