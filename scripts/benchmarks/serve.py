#!/usr/bin/env python3
"""Load test of `pet-fairseq serve` on the loopback: does the scheduler keep a target for latency?

    python scripts/benchmarks/serve.py         # a RoBERTa with random weights and plugins
    python scripts/benchmarks/serve.py --path A.pt:B.pt --texts FILE [--labels FILE] \\
        [OPTIONS OF pet-fairseq serve]

First the requests a second that ratio 1 can answer are measured, with full batches. Then requests
come at a low load and at one above that, at random times (Poisson, seeded) whether or not the
earlier ones are answered, to servers with fixed ratios and with --ratio auto. Latency is counted
from the time at which a request is due. The clients are this process, each server is its own.
With --labels the table says which accuracy was delivered: a larger ratio answers sooner, and worse.
"""

import asyncio
import contextlib
import itertools
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness import Parser, Report
from http_load import (
    Request,
    accuracy,
    ask,
    clients,
    full_load,
    percentile,
    read_requests,
    starved_seconds,
    steady_rate,
)
from served import Server, Shape, make_files, random_texts, server

from pet_fairseq.number_format import format_speed

SIZES = {
    **{"--layers": 6, "--width": 512, "--ffn": 2048, "--heads": 8, "--bottleneck-dim": 64},
    **{"--batch-tokens": 1024, "--seconds": 15.0, "--rounds": 2, "--seed": 1},
}
TINY = {
    **{"--layers": 1, "--width": 32, "--ffn": 64, "--heads": 2, "--bottleneck-dim": 4},
    **{"--batch-tokens": 60, "--seconds": 1.0, "--rounds": 1, "--lengths": [10, 20]},
    **{"--ratios": [2], "--low": 1.0},  # a lower load may bring no request at all
}
TARGET_BATCHES = 4  # the target, over the time of a batch
HIGH = 1.3  # the load, over the capacity of ratio 1
COLUMNS = {
    **{"load": "", "requests/s": format_speed, "ratio": "", "requests": "d"},
    **dict.fromkeys(("p50 ms", "p95 ms", "p99 ms"), ".0f"),
    **{"kept": "", "batches": "", "accuracy %": ".2f", "503": "d", "starved %": ".0f"},
}

# --- loads ----------------------------------------------------------------------------------------


def measure_capacity(address, requests, under_way, seconds):
    """Requests a second while there are always so many under way; the first third warms up."""
    start = time.perf_counter()
    draw = random.Random(1)
    source = (draw.choice(requests) for _ in itertools.count())
    answers = asyncio.run(full_load(address, source, under_way, seconds))
    return steady_rate((answer.at for answer in answers), start, seconds)


async def batches_by_ratio(session):
    async with session.get("/metrics") as response:
        page = await response.text()
    counts = re.findall(r'^pet_fairseq_batches_total\{ratio="(\d+)"\} (\d+)', page, re.MULTILINE)
    return Counter({int(ratio): int(count) for ratio, count in counts})


async def load(address, requests, rate, seconds, seed):
    """Poisson arrivals; returns answers, and batches by ratio."""
    draw = random.Random(seed)
    tasks = []
    async with clients(address) as session:
        before = await batches_by_ratio(session)
        due = start = time.perf_counter()
        while (due := due + draw.expovariate(rate)) < start + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(ask(session, draw.choice(requests), due)))
        answers = await asyncio.gather(*tasks)
        after = await batches_by_ratio(session)
    return answers, after - before


# --- the table ------------------------------------------------------------------------------------


@dataclass
class Row:
    """A load on a server; answers and batches of all rounds together."""

    name: str
    rate: float  # requests a second
    mode: str
    server: Server
    answers: list = field(default_factory=list)
    batches: Counter = field(default_factory=Counter)
    starved: float = 0.0
    seconds: float = 0.0

    def run(self, requests, seconds, seed):
        start, starved = time.perf_counter(), starved_seconds(self.server.pids)
        run = load(self.server.address, requests, self.rate, seconds, seed)
        answers, batches = asyncio.run(run)
        self.answers += answers
        self.batches += batches
        self.starved += starved_seconds(self.server.pids) - starved
        self.seconds += time.perf_counter() - start

    def cells(self, target, labelled):
        """The values of COLUMNS; without labels there is no accuracy."""
        taken = [1000 * answer.seconds for answer in self.answers if answer.status == 200]
        latencies = [percentile(taken, share) for share in (0.5, 0.95, 0.99)]
        total = self.batches.total()
        shares = [f"{k}: {100 * n / total:.0f}%" for k, n in sorted(self.batches.items())]
        return [
            *(self.name, self.rate, self.mode, len(self.answers), *latencies),
            *("yes" if latencies[1] <= target else "no", ", ".join(shares)),
            *([accuracy(self.answers)] if labelled else []),
            sum(answer.status == 503 for answer in self.answers),
            100 * self.starved / self.seconds,
        ]


def compare(args, path, requests, options):
    """Run everything and print the table; labelled requests add the accuracy delivered."""
    labelled = requests[0].label is not None
    words = [" ".join(request.fields.values()).split() for request in requests]
    mean_tokens = statistics.mean(len(some) + 2 for some in words)
    common = (path, "--max-batch-tokens", args.batch_tokens, *options)
    in_batch = max(1, round(args.batch_tokens / mean_tokens))
    with contextlib.ExitStack() as servers:
        plain = servers.enter_context(server("--ratio", 1, *common))
        starved = starved_seconds(plain.pids)
        under_way = min(3 * in_batch, 100)
        capacity = measure_capacity(plain.address, requests, under_way, args.seconds)
        starved = starved_seconds(plain.pids) - starved
        batch_ms = 1000 * in_batch / capacity
        target = args.target_ms or TARGET_BATCHES * batch_ms
        report = Report(
            f"Ratio 1 answers {format_speed(capacity)} requests of {mean_tokens:.0f} tokens a "
            f"second, a batch of {in_batch} in {batch_ms:.0f} ms (starved "
            f"{100 * starved / args.seconds:.0f}% of the time); target {target:.0f} ms for p95."
        )
        auto = servers.enter_context(server("--target-ms", target, *common))
        fastest = max(args.ratios)
        fast = servers.enter_context(server("--ratio", fastest, *common))
        low, high = args.low * capacity, HIGH * capacity
        rows = [
            Row("low", low, "auto", auto),
            Row("high", high, "1", plain),
            Row("high", high, "auto", auto),
            Row("high", high, f"{fastest}", fast),
        ]
        for i in range(args.rounds):
            for row in rows:
                row.run(requests, args.seconds, args.seed + i)
    skipped = () if labelled else ("accuracy %",)
    report.begin_table({name: how for name, how in COLUMNS.items() if name not in skipped})
    for row in rows:
        report.add_row(*row.cells(target, labelled))
    report.say(
        "\nkept: p95 within the target. starved: time in which a server could have run but other "
        "processes had\nthe processor; a few percent at most on a machine that is free."
    )
    report.write(args.out, args.csv)


def main():
    parser = Parser(__doc__, SIZES, TINY, ("--out", "--csv"))
    parser.add_argument("--path", help="plugin files instead of random ones")
    parser.add_argument("--texts", type=Path, help="with --path: requests, one a line")
    parser.add_argument("--labels", type=Path, help="with --texts: their right classes")
    parser.add_argument("--ratios", type=int, nargs="+", default=[2, 4, 8], help="in --path too")
    parser.add_argument("--lengths", type=int, nargs=2, default=[200, 400], help="of random texts")
    parser.add_argument("--low", type=float, default=0.3, help="load over ratio 1's capacity")
    parser.add_argument("--target-ms", type=float, help="default: the time of four batches")
    args, options = parser.parse_known_args()
    if args.path is not None:
        compare(args, args.path, read_requests(args.texts, args.labels), options)
        return
    with tempfile.TemporaryDirectory() as folder:
        shape = Shape(*(getattr(args, name) for name in Shape._fields if name != "site"))
        path = make_files(Path(folder), shape)
        requests = [Request({"text": text}) for text in random_texts(args.lengths)]
        compare(args, path, requests, options)


if __name__ == "__main__":
    main()
