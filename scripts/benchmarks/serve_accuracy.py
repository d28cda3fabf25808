#!/usr/bin/env python3
"""Accuracy over speed: a recipe's finished models behind `pet-fairseq serve`, under full load.

    python scripts/benchmarks/serve_accuracy.py RUNS --texts FILE --labels FILE \\
        [--models backbone backbone+int8 k4+int8+length ...] [OPTIONS OF pet-fairseq serve]

RUNS has plugins.json, as the recipes of Variator and `pet-fairseq plugins` leave it. A model is the
name of a run; `+int8` and `+bf16` serve it in that --precision, `+length` with --batch-order
length. Each has a server process of its own, and all of them are there from the beginning. First
every text is asked once, with as many requests under way as later: that gives the accuracy, and
warms up. Then the servers take turns, round after round, and always so many requests are under way.
Written into --out: serving.md, serving.csv and serving.png.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Optional

from harness import Parser, Report, take_turns
from http_load import (
    Request,
    busy_seconds,
    full_load,
    percentile,
    read_requests,
    starved_seconds,
    steady_rate,
)
from matplotlib.figure import Figure
from served import Server, server

from pet_fairseq.errors import install_excepthook
from pet_fairseq.files import check_folder, write_figure
from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.results.score.tables import read_run
from pet_fairseq.runner.fairseq_commands import BEST
from pet_fairseq.statistics import paired_bootstrap

OPTIONS = {
    "int8": ("--precision", "int8"),
    "bf16": ("--precision", "bf16"),
    "length": ("--batch-order", "length"),
}
BASE = "backbone"
SIZES = {"--rounds": 5, "--seconds": 5.0, "--under-way": 64, "--batch-tokens": 1024}
TINY = {"--rounds": 2, "--seconds": 0.5, "--under-way": 4, "--batch-tokens": 40}


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


def read_specs(runs: Path, words: Optional[list[str]]) -> list[Spec]:
    """What the words of --models ask for, of a recipe's runs.

    Raises:
        SystemExit: there is no such run or option.
    """
    rows = read_run(runs).rows
    return [read_spec(word, runs, rows) for word in words or default_models(rows)]


def read_spec(word: str, runs: Path, rows: dict[str, dict]) -> Spec:
    """What one word asks for."""
    run, *helps = word.split("+")
    if run not in rows:
        raise SystemExit(f"--models {word}: no run {run}; give some of {', '.join(rows)}")
    if not set(helps) <= OPTIONS.keys():
        raise SystemExit(f"--models {word}: give no other options than {', '.join(OPTIONS)}")
    ratio = rows[run]["ratio"] if rows[run]["kind"] == "variator" else 1
    options = itertools.chain(*(OPTIONS[name] for name in helps))
    path = runs / run / BEST
    return Spec(run, tuple(helps), (path, "--ratio", ratio, *options))


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
        moments = (answer.at for answer in answers)
        self.rates.append(steady_rate(moments, start, seconds))
        self.seconds += [answer.seconds for answer in answers]


def endless(requests: list[Request]) -> Iterator[Request]:
    """All texts again and again, each time in another order, the same for every model."""
    draw = random.Random(0)
    while True:
        yield from draw.sample(requests, len(requests))


# --- what is written ------------------------------------------------------------------------------


COLUMNS = {
    "model": "",
    "served with": "",
    "accuracy %": ".2f",
    "to backbone": "+.2f",
    "95% low": "+.2f",
    "high": "+.2f",
    "requests/s": format_speed,
    "of backbone's": format_ratio,
    "lowest": format_ratio,  # of all rounds
    "highest": format_ratio,
    "processor ms": ".2f",  # of the server, for a request
    "p95 ms": ".0f",
    "starved %": ".0f",
}


def cells(model: Measured, base: Measured) -> list:
    """The values of COLUMNS for a model; ratios are taken within each round."""
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


def write(models: list[Measured], args: argparse.Namespace, about: str) -> None:
    """Print the table, and write it with its plot."""
    base = next((model for model in models if model.spec.name == BASE), models[0])
    check_folder(args.out, "--out")
    report = Report(about)
    report.begin_table(COLUMNS)
    for model in models:
        report.add_row(*cells(model, base))
    report.write(args.out / "serving.md", args.out / "serving.csv")
    write_figure(args.out / "serving.png", draw(models, f"{args.runs}: {args.texts.name}"))


def describe(args: argparse.Namespace, requests: list[Request]) -> str:
    """What the figures stand for, in a sentence or two."""
    words = statistics.mean(len(" ".join(r.fields.values()).split()) for r in requests)
    return (
        f"{len(requests)} texts of {args.texts.name} ({words:.0f} words on average), "
        f"{args.under_way} requests under way, batches of {args.batch_tokens} tokens, "
        f"{args.rounds} rounds of {args.seconds:g} s in turn, {os.cpu_count()} cores, load average "
        f"{os.getloadavg()[1]:.1f} at the end."
    )


def measure(args: argparse.Namespace, options: list[str]) -> None:
    """Start the servers and let them take turns."""
    specs = read_specs(args.runs, args.models)
    requests = read_requests(args.texts, args.labels, args.pairs)
    orders = {spec: endless(requests) for spec in specs}
    common = ("--max-batch-tokens", args.batch_tokens, *options)
    with contextlib.ExitStack() as servers:
        models = []
        for spec in specs:
            started = servers.enter_context(server(*spec.options, *common))
            models.append(Measured(spec, started))
            models[-1].ask_all(requests, args.under_way)
            print(f"{spec.name}: accuracy {models[-1].accuracy:.2f}", flush=True)

        def run_round(model):
            model.run_round(orders[model.spec], args.under_way, args.seconds)
            print(f"{model.spec.name}: {model.rates[-1]:.1f} requests/s", flush=True)

        take_turns({m.spec: partial(run_round, m) for m in models}, args.rounds, warm_up=0)
    write(models, args, describe(args, requests))


def main() -> None:
    install_excepthook()
    parser = Parser(__doc__, SIZES, TINY, ())
    parser.add_argument("runs", type=Path, metavar="RUNS")
    parser.add_argument("--texts", type=Path, required=True, help="one a line")
    parser.add_argument("--labels", type=Path, required=True, help="their right classes")
    parser.add_argument("--pairs", type=Path, help="their second sentences")
    parser.add_argument("--models", nargs="+", help="RUN[+int8|+bf16][+length] (default: all runs)")
    parser.add_argument("--out", type=Path, help="a folder (default: RUNS/serving)")
    args, options = parser.parse_known_args()
    args.out = args.out or args.runs / "serving"
    measure(args, options)


if __name__ == "__main__":
    main()
