#!/usr/bin/env python3
"""Accuracy over speed: a recipe's finished models behind `pet-fairseq serve`, under full load.

    python scripts/benchmarks/serve_accuracy.py RUNS --texts FILE --labels FILE \\
        [--models backbone backbone+int8 k4+int8+length ...] [OPTIONS OF pet-fairseq serve]

RUNS has plugins.json, as the recipes of Variator and `pet-fairseq plugins` leave it. A model is the
name of a run; `+int8` and `+bf16` serve it with --int8 or --bf16, `+length` with --batch-order
length. Each has a server process of its own, and all of them are there from the beginning. First
every text is asked once, with as many requests under way as later: that gives the accuracy, and
warms up. Then the servers take turns, round after round, and always so many requests are under way.
Written into --out: serving.md, serving.csv and serving.png.
"""

import argparse
import asyncio
import contextlib
import csv
import io
import itertools
import os
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from http_load import (
    Answer,
    Request,
    busy_seconds,
    full_load,
    percentile,
    read_requests,
    starved_seconds,
)
from matplotlib.figure import Figure
from served import Server, server

from pet_fairseq.errors import install_excepthook
from pet_fairseq.files import write_figure, write_text
from pet_fairseq.markdown import table
from pet_fairseq.results.score.bootstrap import paired_bootstrap
from pet_fairseq.results.score.task_table import read_run
from pet_fairseq.runner.training import BEST

OPTIONS = {"int8": ("--int8",), "bf16": ("--bf16",), "length": ("--batch-order", "length")}
BASE = "backbone"


class Spec(NamedTuple):
    """A model that is served: the run, the names of OPTIONS, and the options for the server."""

    run: str
    helps: tuple[str, ...]
    options: tuple

    @property
    def name(self) -> str:
        return "+".join((self.run, *self.helps))


def default_models(rows: dict[str, dict]) -> list[str]:
    """Every run as it is and with all options together; the backbone with each one, too."""
    everything = "".join(f"+{name}" for name in OPTIONS)
    names = [f"{run}{helps}" for run in rows for helps in ("", everything)]
    return [*names, *(f"{BASE}+{name}" for name in OPTIONS)]


def read_spec(word: str, runs: Path, rows: dict[str, dict]) -> Spec:
    """What a word of --models asks for.

    Raises:
        SystemExit: there is no such run or option.
    """
    run, *helps = word.split("+")
    if run not in rows:
        raise SystemExit(f"--models {word}: no run {run}; give some of {', '.join(rows)}")
    if not set(helps) <= OPTIONS.keys():
        raise SystemExit(f"--models {word}: give no other options than {', '.join(OPTIONS)}")
    ratio = rows[run]["ratio"] if rows[run]["kind"] == "variator" else 1
    options = itertools.chain(*(OPTIONS[name] for name in helps))
    path = runs / run / BEST
    return Spec(run, tuple(helps), ("--path", path, "--ratio", ratio, *options))


@dataclass
class Measured:
    """A served model and what was measured of it.

    Attributes:
        hits: whether each text got its class. rates: requests a second, by round.
        busy: seconds of the processor for a request, by round; others on the machine disturb them
            less than the rates.
        seconds: latencies of all rounds. starved: share of the time without a processor, by round.
    """

    spec: Spec
    server: Server
    hits: list[bool] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    starved: list[float] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        return 100 * statistics.fmean(self.hits)

    def ask_all(self, requests: list[Request], under_way: int) -> None:
        """Ask every text once."""
        answers = asyncio.run(full_load(self.server.address, requests, under_way))
        by_request = {id(answer.request): answer.right for answer in answers}
        self.hits = [by_request[id(request)] for request in requests]

    def run_round(self, requests: Iterator[Request], under_way: int, seconds: float) -> None:
        pids, start = self.server.pids, time.perf_counter()
        busy, starved = busy_seconds(pids), starved_seconds(pids)
        answers = asyncio.run(full_load(self.server.address, requests, under_way, seconds))
        taken = time.perf_counter() - start
        self.starved.append((starved_seconds(pids) - starved) / taken)
        self.busy.append((busy_seconds(pids) - busy) / max(1, len(answers)))
        self.rates.append(steady_rate(answers, start, seconds))
        self.seconds += [answer.seconds for answer in answers]


def steady_rate(answers: list[Answer], start: float, seconds: float) -> float:
    """Answers a second in the last three quarters of a round, while the load was full.

    Raises:
        SystemExit: there were none.
    """
    first = start + seconds / 4
    counted = sum(first < answer.at <= start + seconds for answer in answers)
    if not counted:
        raise SystemExit(f"no text was answered within {seconds:g} s; give more with --seconds")
    return counted / (0.75 * seconds)


def endless(requests: list[Request], seed: int) -> Iterator[Request]:
    """All texts again and again, each time in another order, the same for every model."""
    draw = random.Random(seed)
    while True:
        yield from draw.sample(requests, len(requests))


# --- what is written ------------------------------------------------------------------------------


HEADER = {
    "model": "",
    "served with": "",
    "accuracy %": ".2f",
    "to backbone": "+.2f",
    "95% low": "+.2f",
    "high": "+.2f",
    "requests/s": ".1f",
    "of backbone's": ".2f",
    "lowest": ".2f",  # of all rounds
    "highest": ".2f",
    "processor ms": ".2f",  # of the server, for a request
    "p95 ms": ".0f",
    "starved %": ".0f",
}


def cells(model: Measured, base: Measured) -> list:
    """The values of HEADER for a model; ratios are taken within each round."""
    difference = paired_bootstrap(model.hits, base.hits)
    ratios = [ours / theirs for ours, theirs in zip(model.rates, base.rates)]
    return [
        *(model.spec.run, " ".join(model.spec.helps) or "-", model.accuracy),
        *(100 * difference.mean, 100 * difference.low, 100 * difference.high),
        *(statistics.median(model.rates), statistics.median(ratios), min(ratios), max(ratios)),
        *(1000 * statistics.median(model.busy), 1000 * percentile(model.seconds, 0.95)),
        100 * statistics.fmean(model.starved),
    ]


def draw(models: list[Measured], about: str) -> Figure:
    """Accuracy over requests a second, a marker for each way to serve."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    ways = dict.fromkeys(model.spec.helps for model in models)
    for way, marker in zip(ways, "os^D"):
        some = [model for model in models if model.spec.helps == way]
        points = [(statistics.median(model.rates), model.accuracy) for model in some]
        axes.plot(*zip(*points), marker, label=" and ".join(way) or "as it is")
        for model, point in zip(some, points):
            axes.annotate(model.spec.run, point, (4, 4), textcoords="offset points", fontsize=7)
    axes.set(title=about, xlabel="requests/s under full load", ylabel="accuracy %")
    axes.grid(alpha=0.3)
    axes.legend(title="served")
    return figure


def write(models: list[Measured], args: argparse.Namespace, about: str) -> str:
    """Write the table, as Markdown and CSV, and the plot; returns the Markdown."""
    base = next((model for model in models if model.spec.name == BASE), models[0])
    rows = [cells(model, base) for model in models]
    lines = [[format(x, how) for x, how in zip(row, HEADER.values())] for row in rows]
    text = f"{about}\n\n{table(list(HEADER), lines, text=(0, 1))}"
    sheet = io.StringIO()
    csv.writer(sheet, lineterminator="\n").writerows([list(HEADER), *rows])
    args.out.mkdir(parents=True, exist_ok=True)
    write_text(args.out / "serving.md", text)
    write_text(args.out / "serving.csv", sheet.getvalue())
    write_figure(args.out / "serving.png", draw(models, f"{args.runs}: {args.texts.name}"))
    return text


def describe(args: argparse.Namespace, requests: list[Request]) -> str:
    """What the figures stand for, in a sentence or two."""
    words = statistics.mean(len(" ".join(r.fields.values()).split()) for r in requests)
    return (
        f"{len(requests)} texts of {args.texts.name} ({words:.0f} words on average), "
        f"{args.under_way} requests under way, batches of {args.batch_tokens} tokens, "
        f"{args.rounds} rounds of {args.seconds:g} s in turn, OMP_NUM_THREADS "
        f"{os.environ.get('OMP_NUM_THREADS', 'not set')}, {os.cpu_count()} cores, "
        f"load average {os.getloadavg()[1]:.1f} at the end."
    )


def measure(args: argparse.Namespace, specs: list[Spec], options: list[str]) -> list[Measured]:
    """Start the servers and let them take turns."""
    requests = read_requests(args.texts, args.labels, args.pairs)
    common = ("--max-batch-tokens", args.batch_tokens, *options)
    with contextlib.ExitStack() as servers:
        models = []
        for spec in specs:
            started = servers.enter_context(server(*spec.options, *common))
            models.append(Measured(spec, started))
            models[-1].ask_all(requests, args.under_way)
            print(f"{spec.name}: accuracy {models[-1].accuracy:.2f}", flush=True)
        for number in range(args.rounds):
            # back and forth, so that what changes slowly on the machine meets all alike
            for model in models if number % 2 == 0 else models[::-1]:
                model.run_round(endless(requests, number), args.under_way, args.seconds)
            print(f"round {number + 1} of {args.rounds} done", flush=True)
    print("\n" + write(models, args, describe(args, requests)), end="")
    return models


def main() -> None:
    install_excepthook()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("runs", type=Path, metavar="RUNS")
    parser.add_argument("--texts", type=Path, required=True, help="one a line")
    parser.add_argument("--labels", type=Path, required=True, help="their right classes")
    parser.add_argument("--pairs", type=Path, help="their second sentences")
    parser.add_argument("--models", nargs="+", help="RUN[+int8|+bf16][+length] (default: all runs)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5, help="of a round of a model")
    parser.add_argument("--under-way", type=int, default=64, help="requests at a time")
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--out", type=Path, help="a folder (default: RUNS/serving)")
    args, options = parser.parse_known_args()
    args.out = args.out or args.runs / "serving"
    rows = read_run(args.runs).rows
    words = args.models or default_models(rows)
    measure(args, [read_spec(word, args.runs, rows) for word in words], options)


if __name__ == "__main__":
    main()
