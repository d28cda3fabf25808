#!/usr/bin/env python3
"""Draws the pictures of the methods in README.md, docs/pet.md, variator.md and selfcp.md.

    python scripts/docs/pictures.py [--out FOLDER]

They go into docs/pictures if no folder is given.
"""

from pathlib import Path

from drawing import draw_all
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from pet_fairseq.files import write_figure

OUT = Path(__file__).resolve().parents[2] / "docs" / "pictures"
GREY = "#d9d9d9"
SHARED = ("#8ecae6", "#ffb703", "#90be6d", "#f4978e")  # a colour for each stored set of parameters
INK = "#333333"


def blank(axes: Axes, width: float, height: float) -> None:
    """Make the plot a sheet of paper of this size, in units of the drawing."""
    axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    axes.axis("off")


def box(
    axes: Axes, x: float, y: float, width: float, color: str, text: str, height: float = 0.6
) -> None:
    """A box with its text; x and y: its lower left corner."""
    style = dict(boxstyle="round,pad=0,rounding_size=0.1", facecolor=color, edgecolor=INK)
    axes.add_patch(FancyBboxPatch((x, y), width, height, linewidth=0.8, **style))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9, color=INK)


def join(axes: Axes, start: tuple[float, float], end: tuple[float, float], bend: float) -> None:
    """A line without an arrowhead between two places that share something."""
    line = dict(arrowstyle="-", color=INK, linewidth=1.2, connectionstyle=f"arc3,rad={bend}")
    axes.annotate("", end, start, arrowprops=line)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """An arrow from a value to what is computed from it."""
    axes.annotate("", end, start, arrowprops=dict(arrowstyle="-|>", color=INK, linewidth=1))


def stack(axes: Axes, x: float, name: str, layers: list[tuple[str, str]]) -> None:
    """Layers from the bottom up, each with a colour and a text; `name` below them."""
    for i, (color, text) in enumerate(layers):
        box(axes, x, 1.5 + 0.75 * i, 2.1, color, text)
    axes.text(x + 1.05, 1.2, name, ha="center", va="center", fontsize=10, color=INK)


def shared_layers(path: Path) -> None:
    """A teacher beside a student whose layers i and i + 2 have one set of parameters."""
    figure = Figure((9, 4.1), layout="constrained")
    axes = figure.subplots()
    blank(axes, 15.2, 6.9)
    axes.text(2.9, 6.4, "Teacher: 6 + 6 layers", ha="center", fontsize=12, weight="bold")
    axes.text(10.8, 6.4, "PET student: 4 + 4 layers", ha="center", fontsize=12, weight="bold")
    for x, name in ((0.6, "encoder"), (3.1, "decoder")):
        stack(axes, x, name, [(GREY, f"layer {i}") for i in range(1, 7)])
    for x, name, colors in ((7.4, "encoder", SHARED[:2]), (11.3, "decoder", SHARED[2:])):
        stack(axes, x, name, [(colors[i % 2], f"layer {i + 1}") for i in range(4)])
        for i in range(2):
            y = 1.8 + 0.75 * i
            join(axes, (x + 2.1, y), (x + 2.1, y + 1.5), 0.6)
        axes.text(x + 2.65, 2.95, "shared", rotation=90, va="center", fontsize=9, color=INK)
    note = "boxes of one colour are one stored set of\nparameters, computed once for each box"
    axes.text(10.8, 5.4, note, ha="center", va="center", fontsize=9, color=INK)
    axes.text(2.9, 0.65, "12 sets stored, 12 layers computed", ha="center", fontsize=10)
    axes.text(2.9, 0.2, "31.5 million layer parameters", ha="center", fontsize=10)
    axes.text(10.8, 0.65, "4 sets stored, 8 narrower layers computed", ha="center", fontsize=10)
    axes.text(10.8, 0.2, "3.0 million layer parameters: 9.5%", ha="center", fontsize=10)
    write_figure(path, figure)


def compress(path: Path) -> None:
    """What goes into `pet-fairseq compress`, its steps, and what comes out."""
    figure = Figure((9, 2.9), layout="constrained")
    axes = figure.subplots()
    blank(axes, 15.2, 4.9)
    columns: list[tuple[float, float, str, list[tuple[str, str]]]] = [
        (
            *(0.1, 4.4, "what you have"),
            [
                (GREY, "a teacher: fairseq, OPUS-MT, NLLB,\nM2M-100, mBART, CTranslate2"),
                (SHARED[0], "pairs of sentences, or\ntext in one language"),
            ],
        ),
        (
            *(5.6, 3.8, "pet-fairseq compress"),
            [
                (SHARED[1], "cuts the vocabulary, if asked"),
                (SHARED[1], "translates text without pairs"),
                (SHARED[1], "trains a student"),
                (SHARED[1], "exports and compares"),
            ],
        ),
        (
            *(10.5, 4.6, "what you get"),
            [
                (SHARED[2], "CTranslate2, ONNX Runtime"),
                (SHARED[2], "transformers, stock fairseq"),
                (SHARED[2], "browsers, Firefox's engine"),
                (GREY, "report: size, quality, speed"),
            ],
        ),
    ]
    for x, width, title, rows in columns:
        axes.text(x + width / 2, 4.3, title, ha="center", fontsize=12, weight="bold", color=INK)
        height = 3.6 / len(rows) - 0.3
        for i, (color, text) in enumerate(rows, 1):
            box(axes, x, 4 - (height + 0.3) * i, width, color, text, height)
    arrow(axes, (4.6, 2.05), (5.5, 2.05))
    arrow(axes, (9.5, 2.05), (10.4, 2.05))
    write_figure(path, figure)


def projections(axes: Axes, y: float, title: str, rows: list[tuple[str, list[str]]]) -> None:
    """One layer: rows of boxes of width 1.4 with their colours; rows from the bottom up."""
    middle = y + 0.3 + 0.55 * (len(rows) - 1)
    axes.text(0.1, middle, title, va="center", fontsize=10, weight="bold", color=INK)
    for i, (names, colors) in enumerate(rows):
        for j, (name, color) in enumerate(zip(names.split(), colors)):
            box(axes, 2.2 + 1.9 * j, y + 1.1 * i, 1.4, color, name)


def shared_attention(path: Path) -> None:
    """What two paired layers share: queries and keys crosswise, and Qself with Qenc."""
    a, b, c, d = SHARED
    figure = Figure((9, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, height_ratios=(3.2, 5.6))
    blank(upper, 15.2, 3.2)
    upper.text(0.1, 2.9, "Encoder: layers 1 and 3 of 4", fontsize=12, weight="bold")
    projections(upper, 0.1, "layer 1", [("Q K V O FFN", [a, b, c, d, GREY])])
    projections(upper, 1.9, "layer 3", [("Q K V O FFN", [b, a, c, d, GREY])])
    for start, end in ((0, 1), (1, 0), (2, 2), (3, 3), (4, 4)):
        join(upper, (2.9 + 1.9 * start, 0.7), (2.9 + 1.9 * end, 1.9), 0)
    note = (
        "Crosswise: K of layer 3 is Q of\nlayer 1, and Q of layer 3 is K of\n"
        "layer 1; the rest is the same."
    )
    upper.text(11.8, 1.3, note, va="center", fontsize=9, color=INK)
    blank(lower, 15.2, 5.6)
    lower.text(0.1, 5.2, "Decoder: layers 1 and 3 of 4", fontsize=12, weight="bold")
    colors = [a, b, c, d]
    own, source = "Qself Kself Vself Oself", "Qenc Kenc Venc Oenc FFN"
    other = ["#cdb4db", "#b7e4c7", "#e9c46a", GREY]
    for y, title in ((0.2, "layer 1"), (2.9, "layer 3")):
        projections(lower, y, title, [(own, colors), (source, [a, *other])])
        join(lower, (2.9, y + 0.6), (2.9, y + 1.1), 0)
    join(lower, (2.9, 1.9), (2.9, 2.9), 0)
    note = (
        "One set of queries: Qself and Qenc, in\nboth layers. Every other box of layer 3\n"
        "is the one of layer 1 in its place."
    )
    lower.text(11.8, 2.5, note, va="center", fontsize=9, color=INK)
    caption = "Boxes of one colour in a panel are one stored set of parameters"
    figure.suptitle(caption, fontsize=10)
    write_figure(path, figure)


VECTOR, TRAINED = SHARED[:2]
WHITE = "#ffffff"
KEY = "blue: vectors; orange: trained; grey: frozen"


def plugin(path: Path) -> None:
    """A plugin around a feed-forward network: four positions are one inside, and four again."""
    figure = Figure((9, 4.2), layout="constrained")
    axes = figure.subplots()
    blank(axes, 15.2, 7.2)
    axes.text(0.2, 6.9, "Variator: a plugin with k 4 around a feed-forward network", fontsize=12)
    axes.text(0.2, 6.3, KEY, fontsize=9, color=INK)
    places = [0.4 + 2.1 * j for j in range(4)]
    for j, x in enumerate(places, 1):
        box(axes, x, 0.1, 1.5, VECTOR, f"$h_{j}$")
        box(axes, x, 4.0, 1.5, TRAINED, "adapter")
        box(axes, x, 5.2, 1.5, VECTOR, f"$o_{j}$")
        arrow(axes, (x + 0.4, 0.75), (x + 0.4, 3.95))
        arrow(axes, (x + 0.75, 4.65), (x + 0.75, 5.15))
        axes.plot((x + 1.1, x + 1.1), (0.75, 1.25), color=INK, linewidth=1)
        arrow(axes, (x + 1.1, 3.25), (x + 1.1, 3.95))
    arrow(axes, (places[0] + 1.1, 1.25), (9.75, 1.25))
    axes.plot((places[0] + 1.1, 9.75), (3.25, 3.25), color=INK, linewidth=1)
    for y, color, text in (
        (0.95, TRAINED, "weighted mean"),
        (1.95, GREY, "feed-forward network, once"),
        (2.95, VECTOR, "g, the group's output"),
    ):
        box(axes, 9.8, y, 4.6, color, text)
    for y in (1.55, 2.55):
        arrow(axes, (12.1, y), (12.1, y + 0.4))
    write_figure(path, figure)


def memory(path: Path) -> None:
    """SelfCP: a frozen model makes memory tokens of a segment, and reads them in its place."""
    figure = Figure((9, 4.4), layout="constrained")
    axes = figure.subplots()
    blank(axes, 15.2, 7.4)
    axes.text(0.2, 7.0, "SelfCP: one frozen language model, used twice", fontsize=12)
    axes.text(0.2, 6.4, f"{KEY}; white: text", fontsize=9, color=INK)
    tags = [7.7 + 1.1 * i for i in range(3)]
    for x, width, color, text in (
        (0.4, 0.9, WHITE, "</s>"),
        (1.5, 1.6, WHITE, "query Q"),
        (3.3, 4.2, WHITE, "segment S of the prompt"),
        *((x, 0.9, TRAINED, "[M]") for x in tags),
    ):
        box(axes, x, 0.2, width, color, text)
    box(axes, 0.4, 1.3, 10.4, GREY, "the model as compressor")
    for i, x in enumerate(tags, 1):
        box(axes, x, 2.4, 0.9, TRAINED, "W, b")
        box(axes, x, 3.5, 0.9, VECTOR, f"$t_{i}$")
        for y in (0.85, 1.95, 3.05, 4.15):
            arrow(axes, (x + 0.45, y), (x + 0.45, y + 0.43))
    for x, width, text in (
        (4.8, 0.9, "</s>"),
        (5.9, 1.6, "query Q"),
        (11.0, 4.0, "rest R of the prompt"),
    ):
        box(axes, x, 3.5, width, WHITE, text)
        arrow(axes, (x + width / 2, 4.15), (x + width / 2, 4.58))
    box(axes, 4.8, 4.6, 10.2, GREY, "the same model as generator")
    arrow(axes, (13.0, 5.25), (13.0, 5.68))
    box(axes, 11.0, 5.7, 4.0, WHITE, "response Y")
    for x, width in ((0.4, 0.9), (1.5, 1.6), (3.3, 4.2)):
        arrow(axes, (x + width / 2, 0.85), (x + width / 2, 1.28))
    axes.text(4.5, 3.8, "memory tokens in place of S", ha="right", va="center", fontsize=9)
    write_figure(path, figure)


PICTURES = {
    "compress": compress,
    "shared_layers": shared_layers,
    "shared_attention": shared_attention,
    "plugin": plugin,
    "memory": memory,
}


if __name__ == "__main__":
    draw_all(__doc__, PICTURES, OUT)
