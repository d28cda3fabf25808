#!/usr/bin/env python3
"""Draws the plots of docs/results from the CSV files in docs/results/data.

    python scripts/docs/plots.py [--out FOLDER]

They go into docs/results/plots if no folder is given.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Optional

from drawing import draw_all
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pet_fairseq.files import read_csv, write_figure
from pet_fairseq.number_format import format_speed

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
DATA = RESULTS / "data"
BEAMS = range(1, 11)
FORMS = {  # name and mark of each way to store a model, by its columns in frontier.csv
    "32": ("32 bits", "o"),
    "8": ("8 bits", "s"),
    "4": ("4 bits", "^"),
    "int8": ("CTranslate2 int8", "D"),
}
ENGINES = {  # of decoding.csv that are drawn, with the words at their lines
    "fairseq": "fairseq",
    "fast": "pet_translation",
    "CTranslate2 float32": "CTranslate2",
    "CTranslate2 int8": "CTranslate2 int8",
}
MODELS = {"teacher": "teacher, 6 + 6 layers", "PET": "PET, 4 + 4", "d256": "4 + 4, width 256"}
SERVED_WITH = {  # what is said behind a model's name
    "-": "",
    "--int8": ",\n8 bits",
    "--int8 --batch-order length": ",\n8 bits, sorted batches",
}
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
    """A legend of marks, each with its name, in no model's colour."""
    for name, marker in marks.values():
        axes.plot([], [], color="grey", linestyle="", marker=marker, label=name)
    axes.legend(loc="lower right")


def name_lines(axes: Axes, ends: Mapping[str, tuple[float, float]], x: float, gap: float) -> None:
    """Write names in a column right of the plot, each joined to the end of its line.

    Args:
        ends: by name, in the order of their colours. x: of the column. gap: between names, at
            least, in units of the plot.
    """
    colors = {name: f"C{i}" for i, name in enumerate(ends)}
    place = float("inf")
    for name, end in sorted(ends.items(), key=lambda one: -one[1][1]):
        place = min(end[1], place - gap)
        axes.annotate(
            *(name, end, (x, place)),
            color=colors[name],
            va="center",
            fontsize="small",
            annotation_clip=False,
            arrowprops=dict(arrowstyle="-", color=colors[name], linewidth=0.6),
        )


def frontier(path: Path) -> None:
    """BLEU over megabytes for each model and number of bits a weight."""
    title = "What a byte buys: Multi30k, German to English, beam 5"
    figure, axes = new_axes(10, 4.6, title, "MB, everything counted (logarithmic)", "BLEU")
    ends = {}
    for i, row in enumerate(read("frontier")):
        own = sorted((float(row[f"mb_{key}"]), float(row[f"bleu_{key}"]), key) for key in FORMS)
        axes.plot(*zip(*(place[:2] for place in own)), color=f"C{i}", linewidth=1)
        for x, y, key in own:
            spread = number(row[f"bleu_{key}_spread"])
            axes.errorbar(x, y, spread, color=f"C{i}", marker=FORMS[key][1], capsize=3)
        ends[row["title"]] = own[-1][:2]
    explain_marks(axes, FORMS)
    sizes = (0.5, 1, 2, 5, 10, 20)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    name_lines(axes, ends, 23, 0.3)
    write_figure(path, figure)


def frontier_speed(path: Path) -> None:
    """BLEU, with the spread over seeds, and speed of each model in CTranslate2 on two threads."""
    title = "Speed and quality: Multi30k, German to English, CTranslate2 int8, beam 5"
    figure, axes = new_axes(10, 4, title, "sentences/s on two threads, times the teacher's", "BLEU")
    ends = {}
    for i, row in enumerate(read("frontier")):
        ends[row["title"]] = end = float(row["times_teacher_2"]), float(row["bleu_int8"])
        axes.errorbar(*end, number(row["bleu_int8_spread"]), color=f"C{i}", marker="o", capsize=3)
    name_lines(axes, ends, 3, 0.22)
    write_figure(path, figure)


def beams(path: Path) -> None:
    """BLEU over the beam size, a line for each model."""
    title = "Multi30k: BLEU over the beam size, first seeds"
    figure, axes = new_axes(8.4, 4.2, title, "beam size (hypotheses kept at each step)", "BLEU")
    ends = {}
    for row in read("beams"):
        scores = [float(row[f"bleu_beam{beam}"]) for beam in BEAMS]
        axes.plot(BEAMS, scores)
        ends[row["model"]] = (BEAMS[-1], scores[-1])
    axes.set_xticks(BEAMS)
    name_lines(axes, ends, 10.7, 0.2)
    write_figure(path, figure)


def relative_kl(rows: list[Row]) -> dict[str, dict[int, list[float]]]:
    """KL of all seeds, by row and update, divided by the mean of `kd` at that update."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        of_row = found.setdefault(row["row"], {})
        of_row.setdefault(int(row["updates"]), []).append(float(row["kl"]))
    base = {at: mean(seeds) for at, seeds in found["kd"].items()}
    return {
        name: {at: [kl / base[at] for kl in seeds] for at, seeds in of_row.items()}
        for name, of_row in found.items()
    }


def over_time(path: Path) -> None:
    """KL to the teacher during the longest trainings, and at the ends of shorter ones."""
    by_schedule: dict[int, list[Row]] = {}
    for row in read("cmudict_over_time"):
        by_schedule.setdefault(int(row["schedule"]), []).append(row)
    *shorter, longest = sorted(by_schedule)
    title = f"CMUdict: during trainings of {longest:,} updates; crosses: ends of shorter trainings"
    y = "KL to the teacher, mean of kd = 1"
    figure, axes = new_axes(9, 4.2, title, "updates (logarithmic)", y)
    ends = {}
    for i, (name, by_update) in enumerate(relative_kl(by_schedule[longest]).items()):
        updates = [at for at in sorted(by_update) if at >= 1000]  # earlier ones are noise
        seeds = [by_update[at] for at in updates]
        axes.plot(updates, [mean(one) for one in seeds], color=f"C{i}")
        lowest, highest = [min(one) for one in seeds], [max(one) for one in seeds]
        axes.fill_between(updates, lowest, highest, color=f"C{i}", alpha=0.15, linewidth=0)
        ends[name] = longest, mean(by_update[longest])
    for length in shorter:
        for i, by_update in enumerate(relative_kl(by_schedule[length]).values()):
            axes.plot(length, mean(by_update[length]), f"C{i}x", markersize=9)
    ticks = [1000, 2000, 4000, 8000, longest]
    axes.set(xscale="log", ylim=(0.65, 1.35))
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    name_lines(axes, ends, 1.2 * longest, 0.04)
    write_figure(path, figure)


def decoding(path: Path) -> None:
    """Sentences a second over the batch with beam 5, by model and engine."""
    rows = [row for row in read("decoding") if row["beam"] == "5" and row["engine"] in ENGINES]
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure = Figure((12, 3.6), layout="constrained")
    figure.suptitle("Speed with beam 5: random weights, 10,000 words, two CPU cores")
    for axes, model in zip(figure.subplots(1, len(models)), models):
        ends = {}
        for engine, name in ENGINES.items():
            points = [row for row in rows if (row["model"], row["engine"]) == (model, engine)]
            speeds = numbers(points, "sentences_per_second")
            axes.plot([row["batch"] for row in points], speeds, marker="o", markersize=4)
            ends[name] = (len(points) - 1, speeds[-1])
        axes.set(title=MODELS[model], ylim=(0, None), xlabel="sentences in a batch")
        axes.grid(alpha=0.3)
        name_lines(axes, ends, len(points) - 0.75, 0.06 * axes.get_ylim()[1])
    figure.axes[0].set_ylabel("sentences/s")
    write_figure(path, figure)


def engines(path: Path) -> None:
    """Sentences a second of one student in each engine, by beam and batch."""
    rows = read("engines")
    names = list(dict.fromkeys(row["model"] for row in rows))[::-1]
    figure = Figure((9, 4), layout="constrained")
    figure.suptitle("One student in each engine: one core, from text to text")
    panels = [(beam, batch) for beam in ("1", "5") for batch in ("1", "32")]
    for axes, (beam, batch) in zip(figure.subplots(1, 4, sharey=True), panels):
        mine = {row["model"]: row for row in rows if (row["beam"], row["batch"]) == (beam, batch)}
        speeds = [float(mine[name]["sentences/s"]) for name in names]
        colors = ["C7" if name == "teacher" else "C0" for name in names]
        bars = axes.barh([name.replace("_", " ") for name in names], speeds, color=colors)
        axes.bar_label(bars, [format_speed(speed) for speed in speeds], padding=2, fontsize=8)
        axes.set(title=f"beam {beam}, batch {batch}", xlim=(0, 1.35 * max(speeds)))
        axes.set_xlabel("sentences/s")
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
    """Accuracy over the cost of a model fine-tuned for longer, with the spread over seeds."""
    rows = read("sst2_three_epochs")
    plugins = [row for row in rows if row["row"] in PLUGINS]
    others = rows[len(plugins) :]
    groups = {"plugins, k 1 (the model) to 32": (plugins, "C0o-"), "others": (others, "C1s")}
    title = "SST-2, MiniLM fine-tuned for three epochs; bars: deviation over three seeds"
    figure, axes = accuracy_over_cost(title, groups)
    for points, style in groups.values():
        for row in points:
            place = float(row["encoder_cost_percent"]), float(row["accuracy"])
            axes.errorbar(*place, number(row["accuracy_sd"]), color=style[:2], capsize=3)
    name_points(axes, plugins, (5, -12))
    name_points(axes, others, (8, -3))
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
    note = "bars: 95% interval of the difference to the plain model"
    figure, axes = new_axes(8.4, 4.6, title, f"requests a second ({note})", "accuracy, %")
    for row in read("serving"):
        accuracy, change = float(row["accuracy"]), number(row["accuracy_to_model"])
        low, high = number(row["interval_low"]), number(row["interval_high"])
        bars = None
        if change is not None and low is not None and high is not None:
            bars = [[change - low], [high - change]]
        speed = float(row["requests_per_second"])
        axes.errorbar(speed, accuracy, bars, marker="o", linestyle="", capsize=3, color="C0")
        model = f"plugins, {row['model']}" if row["model"] in PLUGINS[1:] else row["model"]
        way = SERVED_WITH[row["served_with"]]
        above = row["model"] == "token pruning"  # its neighbour's name is below
        side = dict(xytext=(6, 6 if above else -6), va="bottom" if above else "top")
        axes.annotate(model + way, (speed, accuracy), textcoords="offset points", **side)
    axes.set_xlim(0, 760)
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
    "over_time": over_time,
    "decoding": decoding,
    "engines": engines,
    "sst2": sst2,
    "sst2_three_epochs": sst2_three_epochs,
    "variator_speed": variator_speed,
    "serving": serving,
    "shots": shots,
}


if __name__ == "__main__":
    draw_all(__doc__, PLOTS, RESULTS / "plots")
