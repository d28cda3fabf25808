#!/usr/bin/env python3
"""Draws the plots of docs/results from the CSV files in docs/results/data.

    python scripts/docs/plots.py [--out FOLDER]

They go into docs/results/plots if no folder is given.
"""

import itertools
from pathlib import Path
from typing import Optional

from drawing import draw_all
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pet_fairseq.files import read_csv, write_figure

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
DATA = RESULTS / "data"
BEAMS = range(1, 11)
FORMS = {  # name and mark of each way to store a model, by its columns in frontier.csv
    "32": ("32 bits", "o"),
    "8": ("8 bits", "s"),
    "4": ("4 bits", "^"),
    "int8": ("CTranslate2 int8", "D"),
}
THREADS = {"1": ("1 thread", "o"), "2": ("2 threads", "s")}  # by column, as in FORMS
ENGINES = {  # the legend's words for the engines of decoding.csv; others are called as there
    "fairseq": "fairseq's generator",
    "fast": "--task pet_translation",
    "CTranslate2 float32, shared": "CTranslate2 float32, batch shared by the cores",
    "CTranslate2 int8, shared": "CTranslate2 int8, batch shared by the cores",
}
MODELS = {"teacher": "teacher, 6 + 6 layers", "PET": "PET, 4 + 4", "d256": "4 + 4, width 256"}
PLUGINS = ("model", "k 2", "k 4", "k 8", "k 16", "k 32")

Row = dict[str, str]


def read(name: str) -> list[Row]:
    """The rows of a CSV file, by the names of its columns."""
    return read_csv(DATA / f"{name}.csv")


def number(text: str) -> Optional[float]:
    """The number in a cell; None for an empty one."""
    return float(text) if text else None


def numbers(rows: list[Row], column: str) -> list[float]:
    return [float(row[column]) for row in rows]


def new_axes(width: float, height: float, title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """A figure of one plot with its title and the labels of its axes."""
    figure = Figure((width, height), layout="constrained")
    axes = figure.subplots()
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return figure, axes


def explain_marks(axes: Axes, marks: dict[str, tuple[str, str]]) -> None:
    """Add marks to the legend, each with its name, in no model's colour."""
    for name, marker in marks.values():
        axes.plot([], [], color="grey", linestyle="", marker=marker, label=name)


def frontier(path: Path) -> None:
    """BLEU over megabytes for each model and number of bits a weight."""
    title = "What a byte buys: Multi30k, German to English, beam 5"
    figure, axes = new_axes(9, 5, title, "MB, everything counted (logarithmic)", "BLEU")
    points = []
    for i, row in enumerate(read("frontier")):
        own = sorted((float(row[f"mb_{key}"]), float(row[f"bleu_{key}"]), key) for key in FORMS)
        axes.plot(*zip(*(place[:2] for place in own)), color=f"C{i}", label=row["title"])
        for x, y, key in own:
            spread = number(row[f"bleu_{key}_spread"])
            axes.errorbar(x, y, spread, color=f"C{i}", marker=FORMS[key][1], capsize=3)
        points += own
    best = []
    for point in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    axes.step(
        *zip(*(point[:2] for point in best)),
        where="post",
        color="black",
        linestyle="--",
        linewidth=1,
        label="no smaller model is better",
    )
    explain_marks(axes, FORMS)
    sizes = (0.5, 1, 2, 5, 10, 20)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    figure.legend(loc="outside lower center", ncols=2)
    write_figure(path, figure)


def frontier_speed(path: Path) -> None:
    """BLEU over the speed of each model in CTranslate2, with one thread and with two."""
    title = "Speed and quality: Multi30k, German to English, CTranslate2 int8, beam 5"
    label = "sentences/s, times the teacher's with as many threads"
    figure, axes = new_axes(9, 5, title, label, "BLEU")
    for i, row in enumerate(read("frontier")):
        bleu = float(row["bleu_int8"])
        speeds = {key: float(row[f"times_teacher_{key}"]) for key in THREADS}
        axes.plot([*speeds.values()], [bleu, bleu], f"C{i}-", linewidth=1, label=row["title"])
        for key, speed in speeds.items():
            axes.plot(speed, bleu, color=f"C{i}", marker=THREADS[key][1])
    explain_marks(axes, THREADS)
    figure.legend(loc="outside lower center", ncols=2)
    write_figure(path, figure)


def beams(path: Path) -> None:
    """BLEU over the beam size, a line for each model."""
    title = "Multi30k: BLEU over the beam size, first seeds"
    figure, axes = new_axes(8.4, 4.2, title, "beam size (hypotheses kept at each step)", "BLEU")
    for row, marker in zip(read("beams"), "os^Dv<>"):
        scores = [float(row[f"bleu_beam{beam}"]) for beam in BEAMS]
        axes.plot(BEAMS, scores, marker=marker, label=row["model"])
    axes.set_xticks(BEAMS)
    figure.legend(loc="outside right upper")
    write_figure(path, figure)


def decoding(path: Path) -> None:
    """Sentences a second over the batch, by model, beam and engine."""
    rows = read("decoding")
    models = list(dict.fromkeys(row["model"] for row in rows))
    sizes = sorted({row["beam"] for row in rows})
    figure = Figure((11, 6), layout="constrained")
    figure.suptitle("Speed of translation: random weights, 10,000 words, two CPU cores")
    grid = figure.subplots(len(sizes), len(models), squeeze=False)
    for axes, (beam, model) in zip(grid.flat, itertools.product(sizes, models)):
        mine = [row for row in rows if (row["model"], row["beam"]) == (model, beam)]
        for engine in dict.fromkeys(row["engine"] for row in mine):
            points = [row for row in mine if row["engine"] == engine]
            batches = [row["batch"] for row in points]
            speeds = numbers(points, "sentences_per_second")
            axes.plot(batches, speeds, marker="o", label=ENGINES.get(engine, engine))
        axes.set(title=f"{MODELS[model]}, beam {beam}", ylim=(0, None))
        axes.grid(alpha=0.3)
    for axes in grid[-1]:
        axes.set_xlabel("sentences in a batch")
    for axes in grid[:, 0]:
        axes.set_ylabel("sentences/s")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    write_figure(path, figure)


def name_points(axes: Axes, rows: list[Row], offset: tuple[int, int], ha: str = "left") -> None:
    """Write each row's name beside its accuracy over its cost, shifted by an offset in points."""
    side = dict(xytext=offset, textcoords="offset points", ha=ha, fontsize="small")
    for row in rows:
        place = (float(row["encoder_cost_percent"]), float(row["accuracy"]))
        axes.annotate(row["row"], place, **side)


def accuracy_over_cost(title: str, groups: dict[str, tuple[list[Row], str]]) -> tuple[Figure, Axes]:
    """Accuracy over the cost of the encoder; groups: rows and their colour and mark, by label."""
    x = "multiply-adds of the encoder, % of the plain one's (32 tokens)"
    figure, axes = new_axes(8.4, 4.6, title, x, "accuracy, %")
    for label, (points, style) in groups.items():
        costs, scores = numbers(points, "encoder_cost_percent"), numbers(points, "accuracy")
        axes.plot(costs, scores, style, label=label)
    axes.margins(x=0.08)
    return figure, axes


def sst2(path: Path) -> None:
    """Plugins, their ablations, competitors."""
    rows = read("sst2_minilm")
    plugins = [row for row in rows if row["row"] in PLUGINS]
    groups = {
        "plugins, k 1 (the model) to 32": (plugins, "o-"),
        "ablations of k 4": (rows[len(plugins) : -3], "x"),
        "token pruning": (rows[-3:-2], "s"),
        "narrow networks, with and without raw text": (rows[-2:], "D"),
    }
    title = "SST-2, MiniLM: accuracy over what is left of the encoder's arithmetic"
    figure, axes = accuracy_over_cost(title, groups)
    name_points(axes, plugins, (-5, 4), ha="right")
    axes.legend(loc="lower right")
    write_figure(path, figure)


def sst2_three_epochs(path: Path) -> None:
    """The same for a model that was fine-tuned for longer, with the spread over seeds."""
    rows = read("sst2_three_epochs")
    plugins = [row for row in rows if row["row"] in PLUGINS]
    groups = {
        "plugins, k 1 (the model) to 32": (plugins, "C0o-"),
        **{row["row"]: ([row], f"C{i}s") for i, row in enumerate(rows[len(plugins) :], 1)},
    }
    figure, axes = accuracy_over_cost("SST-2, MiniLM fine-tuned for three epochs", groups)
    for points, style in groups.values():
        for row in points:
            place = float(row["encoder_cost_percent"]), float(row["accuracy"])
            axes.errorbar(*place, number(row["accuracy_sd"]), color=style[:2], capsize=3)
    axes.plot([], [], color="grey", label="± sample standard deviation of three seeds")
    name_points(axes, plugins, (5, -12))
    figure.legend(loc="outside lower center", ncols=2)
    write_figure(path, figure)


def variator_speed(path: Path) -> None:
    """Time and FLOPs over the ratio, for two lengths."""
    title = "Variator: time and FLOPs of an encoder, 6 layers, width 512, random weights"
    y = "share of the plain encoder's time or FLOPs"
    figure, axes = new_axes(7.2, 4, title, "ratio k: positions in a group", y)
    rows = read("variator_speed")
    for color, tokens in zip(("C0", "C1"), ("128", "512")):
        mine = [row for row in rows if row["tokens"] == tokens]
        ratios = [row["k"] for row in mine]
        for column, style, what in (("time_ratio", "o-", "time"), ("flops_ratio", "x--", "FLOPs")):
            label = f"{what}, texts of {tokens} tokens"
            axes.plot(ratios, numbers(mine, column), style, color=color, label=label)
    axes.set_ylim(0, None)
    axes.legend()
    write_figure(path, figure)


def serving(path: Path) -> None:
    """Accuracy over speed of a classifier behind the server, with its 95% interval."""
    title = "SST-2, MiniLM behind pet-fairseq serve, two CPU cores"
    figure, axes = new_axes(8.4, 4.6, title, "requests a second", "accuracy, %")
    for row in read("serving"):
        accuracy, change = float(row["accuracy"]), number(row["accuracy_to_model"])
        low, high = number(row["interval_low"]), number(row["interval_high"])
        bars = None
        if change is not None and low is not None and high is not None:
            bars = [[change - low], [high - change]]
        speed = float(row["requests_per_second"])
        way = "" if row["served_with"] == "-" else f", {row['served_with']}"
        model = f"plugins, {row['model']}" if row["model"] in PLUGINS[1:] else row["model"]
        style = dict(marker="o", linestyle="", capsize=3, label=model + way)
        axes.errorbar(speed, accuracy, bars, **style)
    axes.plot([], [], color="grey", label="95% interval of the difference to the plain model")
    axes.set_xlim(0, None)
    figure.legend(loc="outside lower center", ncols=2)
    write_figure(path, figure)


def shots(path: Path) -> None:
    """Speed and memory over the number of demonstrations, as text and from a bank."""
    rows = read("shots")
    figure = Figure((9, 3.8), layout="constrained")
    figure.suptitle("SelfCP: demonstrations of 256 tokens, language model of random weights")
    panels = (("responses_per_second", "responses/s"), ("peak_mb", "peak memory, MB"))
    for axes, (column, label) in zip(figure.subplots(1, 2), panels):
        count = [row["shots"] for row in rows]
        axes.plot(count, numbers(rows, f"{column}_as_text"), "o-", label="read as text")
        axes.plot(count, numbers(rows, f"{column}_from_bank"), "s-", label="memory of a bank")
        axes.set(xlabel="demonstrations", ylabel=label, ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend()
    write_figure(path, figure)


PLOTS = {
    "frontier_megabytes": frontier,
    "frontier_speed": frontier_speed,
    "beams": beams,
    "decoding": decoding,
    "sst2": sst2,
    "sst2_three_epochs": sst2_three_epochs,
    "variator_speed": variator_speed,
    "serving": serving,
    "shots": shots,
}


if __name__ == "__main__":
    draw_all(__doc__, PLOTS, RESULTS / "plots")
