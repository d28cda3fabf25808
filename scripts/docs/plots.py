#!/usr/bin/env python3
"""Draws the plots of docs/results from the CSV files in docs/results/data.

    python scripts/docs/plots.py [--out FOLDER]

They go into docs/results/plots if no folder is given.
"""

from collections.abc import Sequence
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
FORMS = {"4": "^", "8": "s", "32": "o"}  # bits a weight, and their marks
PLUGINS = ("model", "k 2", "k 4", "k 8", "k 16", "k 32")
SIDES = {  # of a point: where its name is, in 1/72 inch, and how that is aligned
    "right": dict(xytext=(7, 0), ha="left", va="center"),
    "left": dict(xytext=(-7, 0), ha="right", va="center"),
    "above": dict(xytext=(0, 7), ha="center", va="bottom"),
    "below": dict(xytext=(0, -7), ha="center", va="top"),
    "below right": dict(xytext=(5, -5), ha="left", va="top"),
}

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


def name(axes: Axes, text: str, at: tuple[float, float], side: str, color: str = "black") -> None:
    """Write a name beside a point; side: one of SIDES."""
    axes.annotate(text, at, textcoords="offset points", color=color, fontsize=9, **SIDES[side])


def draw_line(
    axes: Axes, text: str, xs: Sequence[float], ys: list[float], style: str, side: str = "right"
) -> None:
    """Draw a line with its name at its end; style: as C0o-, the colour first."""
    axes.plot(xs, ys, style, markersize=4)
    name(axes, text, (xs[-1], ys[-1]), side, style[:2])


def use_log_ticks(axes: Axes, ticks: Sequence[float], low: float, high: float) -> None:
    """Make the x-axis logarithmic, from low to high, with these ticks."""
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(low, high)


def frontier(path: Path) -> None:
    """BLEU over megabytes of a few models in 4, 8 and 32 bits, with the spread over seeds."""
    title = "Multi30k, German to English, beam 5; bars: deviation over three seeds, no bar: one"
    figure, axes = new_axes(8.4, 4.4, title, "MB, everything counted (logarithmic)", "BLEU")
    rows = {row["row"]: row for row in read("frontier")}
    for key, text, at, side, color in (
        ("teacher", "teacher", "32", "right", "C7"),
        ("kd", "2 + 2 layers", "8", "left", "C0"),
        ("speed_kd", "4 + 4 layers", "32", "right", "C1"),
    ):
        places = {}
        for form, marker in FORMS.items():
            place = float(rows[key][f"mb_{form}"]), float(rows[key][f"bleu_{form}"])
            spread = number(rows[key][f"bleu_{form}_spread"])
            axes.errorbar(*place, spread, color=color, marker=marker, capsize=3)
            if key == "teacher":
                name(axes, f"{form} bits", place, "above", color)
            elif form == "4":
                name(axes, f"{form} bits", place, "left", color)
            places[form] = place
        axes.plot(*zip(*places.values()), color=color, linewidth=1)
        name(axes, text, places[at], side, color)
    use_log_ticks(axes, (0.5, 1, 2, 5, 10, 20), 0.3, 35)
    axes.set_ylim(37, 40.1)
    write_figure(path, figure)


def frontier_speed(path: Path) -> None:
    """BLEU, with the spread over seeds, and speed of a few models in CTranslate2."""
    title = "Multi30k, CTranslate2 int8, beam 5; bars: deviation over three seeds, no bar: one"
    figure, axes = new_axes(8.4, 4, title, "speed on two threads, times the teacher's", "BLEU")
    rows = {row["row"]: row for row in read("frontier")}
    for key, text, side in (
        ("teacher", "teacher", "right"),
        ("speed_kd", "4 + 4 layers", "right"),
        ("pet_compress", "PET", "right"),
        ("kd", "2 + 2 layers", "left"),
        ("tenth_kd", "6 + 1 layers", "right"),
    ):
        at = float(rows[key]["times_teacher_2"]), float(rows[key]["bleu_int8"])
        spread = number(rows[key]["bleu_int8_spread"])
        axes.errorbar(*at, spread, color="C0", marker="o", capsize=3)
        name(axes, text, at, side)
    axes.set_xlim(0.8, 3.3)
    write_figure(path, figure)


def beams(path: Path) -> None:
    """BLEU over the beam size of a few models."""
    title = "Multi30k: BLEU over the beam size, one seed each"
    figure, axes = new_axes(8.4, 4, title, "beam size (hypotheses kept at each step)", "BLEU")
    rows = {row["model"]: row for row in read("beams")}
    sizes = list(range(1, 11))
    for model, text, style in (
        ("Teacher", "teacher", "C7-"),
        ("Same size, distilled", "unshared, distilled", "C0-"),
        ("PET", "PET", "C1-"),
        ("Same size, from scratch", "unshared, from scratch", "C0-"),
    ):
        scores = [float(rows[model][f"bleu_beam{size}"]) for size in sizes]
        draw_line(axes, text, sizes, scores, style)
    axes.set_xticks(sizes)
    axes.set_xlim(0.7, 12.7)
    write_figure(path, figure)


def over_time(path: Path) -> None:
    """KL to the teacher of all seeds during a training, relative to the unshared student's mean."""
    kl: dict[str, dict[int, list[float]]] = {}
    for row in read("cmudict_over_time"):
        if row["schedule"] == "12000" and int(row["updates"]) >= 4000:  # earlier ones are noise
            by_update = kl.setdefault(row["row"], {})
            by_update.setdefault(int(row["updates"]), []).append(float(row["kl"]))
    title = "CMUdict: trainings of 12,000 updates; bands: from the lowest to the highest seed"
    y = "KL to the teacher, mean of unshared = 1"
    figure, axes = new_axes(9, 4.2, title, "updates", y)
    updates = sorted(kl["kd"])
    for key, text, color in (
        ("kd", "unshared", "C7"),
        ("pet", "PET", "C1"),
        ("speed_kd", "twice the\nparameters", "C0"),
    ):
        seeds = [[one / mean(kl["kd"][at]) for one in kl[key][at]] for at in updates]
        lowest, middle, highest = ([take(one) for one in seeds] for take in (min, mean, max))
        draw_line(axes, text, updates, middle, f"{color}-")
        axes.fill_between(updates, lowest, highest, color=color, alpha=0.15, linewidth=0)
    axes.set_xlim(3800, 13300)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    write_figure(path, figure)


def decoding(path: Path) -> None:
    """Sentences a second over the batch with beam 5, of teacher and student in three engines."""
    rows = read("decoding")
    figure = Figure((9, 3.8), layout="constrained")
    figure.suptitle("Speed with beam 5: random weights, 10,000 words, two CPU cores")
    panels = (("teacher", "teacher, 6 + 6 layers"), ("PET", "PET, 4 + 4 layers"))
    for axes, (model, title) in zip(figure.subplots(1, 2, sharey=True), panels):
        for engine, text, style in (
            ("CTranslate2 int8", "CTranslate2\nint8", "C0o-"),
            ("fast", "fast", "C1o-"),
            ("fairseq", "fairseq", "C7o-"),
        ):
            wanted = dict(model=model, beam="5", engine=engine)
            points = [row for row in rows if wanted.items() <= row.items()]
            batches = numbers(points, "batch")
            draw_line(axes, text, batches, numbers(points, "sentences_per_second"), style)
        axes.set(title=title, xlim=(-8, 345), xlabel="sentences in a batch")
        axes.set_xticks(batches)
        axes.grid(alpha=0.3)
    figure.axes[0].set(ylabel="sentences/s", ylim=(0, None))
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


def accuracy_over_cost(path: Path, title: str, rows: list[Row], sides: dict[str, str]) -> None:
    """Accuracy over the cost of the encoder, with the spread over seeds, if there are some.

    Args:
        rows: the plugins, which are joined by a line, and others. sides: of the names of some.
    """
    x = "multiply-adds of the encoder, % of the plain one's (32 tokens)"
    figure, axes = new_axes(8.4, 4.4, title, x, "accuracy, %")
    plugins = [row for row in rows if row["row"] in PLUGINS]
    axes.plot(numbers(plugins, "encoder_cost_percent"), numbers(plugins, "accuracy"), "C0-")
    for row in rows:
        at = float(row["encoder_cost_percent"]), float(row["accuracy"])
        color, marker, side = ("C1", "s", "right")
        if row in plugins:
            color, marker, side = ("C0", "o", "below right")
        spread = number(row.get("accuracy_sd", ""))
        axes.errorbar(*at, spread, color=color, marker=marker, capsize=3)
        name(axes, row["row"], at, sides.get(row["row"], side), color)
    axes.margins(0.08)
    write_figure(path, figure)


def sst2(path: Path) -> None:
    """Plugins and token pruning; the ablations of k 4 are in the table."""
    rows = [row for row in read("sst2_minilm") if row["row"] in (*PLUGINS, "token pruning (LTP)")]
    title = "SST-2, MiniLM fine-tuned for 500 updates; one seed, standard error 1.2"
    accuracy_over_cost(path, title, rows, {})


def sst2_three_epochs(path: Path) -> None:
    """Plugins and competitors of a model fine-tuned for longer."""
    rows = [row for row in read("sst2_three_epochs") if not row["row"].startswith("mean_copy")]
    title = "SST-2, MiniLM of three epochs; bars: deviation over three seeds, no bar: one"
    accuracy_over_cost(path, title, rows, {"token pruning": "left"})


def variator_speed(path: Path) -> None:
    """Time and FLOPs over the ratio, for texts of 128 tokens."""
    title = "Variator: an encoder of 6 layers, width 512, random weights, 128 tokens"
    x, y = "ratio k: positions in a group (logarithmic)", "share of the plain encoder's"
    figure, axes = new_axes(7.2, 3.6, title, x, y)
    rows = [row for row in read("variator_speed") if row["tokens"] == "128"]
    ratios = numbers(rows, "k")
    draw_line(axes, "time", ratios, numbers(rows, "time_ratio"), "C0o-", "above")
    draw_line(axes, "FLOPs", ratios, numbers(rows, "flops_ratio"), "C1o-", "below")
    use_log_ticks(axes, ratios, 0.9, 40)
    axes.set_ylim(0, None)
    write_figure(path, figure)


def serving(path: Path) -> None:
    """Accuracy over speed of a classifier behind the server, with its 95% interval."""
    title = "SST-2, MiniLM behind pet-fairseq serve, two CPU cores"
    note = "bars: 95% interval of the difference to the plain model"
    figure, axes = new_axes(8.4, 4.4, title, f"requests a second ({note})", "accuracy, %")
    ways = {"-": "", "--int8": ",\n8 bits"}
    for row in read("serving"):
        at = float(row["requests_per_second"]), float(row["accuracy"])
        change, low, high = (
            number(row[column]) for column in ("accuracy_to_model", "interval_low", "interval_high")
        )
        bars = None
        if change is not None and low is not None and high is not None:
            bars = [[change - low], [high - change]]
        axes.errorbar(*at, bars, marker="o", capsize=3, color="C0")
        model = f"plugins, {row['model']}" if row["model"] in PLUGINS[1:] else row["model"]
        way = ways.get(row["served_with"], ",\n8 bits, sorted batches")
        name(axes, model + way, at, "left" if model + way == "plugins, k 4" else "right")
    axes.set_xlim(0, 800)
    write_figure(path, figure)


def shots(path: Path) -> None:
    """Speed and memory over the number of demonstrations, as text and from a bank."""
    rows = read("shots")
    figure = Figure((9, 3.8), layout="constrained")
    figure.suptitle("SelfCP: demonstrations of 256 tokens, language model of random weights")
    count = numbers(rows, "shots")
    panels = (("responses_per_second", "responses/s", "above"), ("peak_mb", "peak MB", "right"))
    for axes, (column, label, side) in zip(figure.subplots(1, 2), panels):
        draw_line(axes, "as text", count, numbers(rows, f"{column}_as_text"), "C7o-", side)
        draw_line(axes, "from a bank", count, numbers(rows, f"{column}_from_bank"), "C0o-")
        use_log_ticks(axes, count, 0.9, 110)
        axes.set(xlabel="demonstrations (logarithmic)", ylabel=label, ylim=(0, None))
        axes.grid(alpha=0.3)
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
