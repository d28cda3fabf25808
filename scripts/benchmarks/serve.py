#!/usr/bin/env python3
"""Load test of `pet-fairseq serve` on the loopback: does the scheduler keep a target for latency?

    python scripts/benchmarks/serve.py         # a RoBERTa with random weights and plugins
    python scripts/benchmarks/serve.py --path A.pt:B.pt --texts FILE [OPTIONS OF pet-fairseq serve]

First the requests a second that ratio 1 can answer are measured, with full batches. Then requests
come at a low load and at one above that, at random times (Poisson, seeded) whether or not the
earlier ones are answered, to servers with fixed ratios and with --ratio auto. Latency is counted
from the time at which a request is due. The clients are this process, each server is its own.
"""

import argparse
import asyncio
import contextlib
import math
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import ClientSession, TCPConnector
from served import Server, Shape, make_files, random_texts, server

from pet_fairseq.markdown import table

# --- servers and clients --------------------------------------------------------------------------


def starved_seconds(pid):
    """How long a process's threads could have run but got no processor; 0 without Linux' /proc."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[1]) for file in files) / 1e9


@contextlib.asynccontextmanager
async def clients(address):
    async with ClientSession(address, connector=TCPConnector(limit=0)) as session:
        yield session


async def ask(session, text, due):
    """Status and seconds since the request was due."""
    async with session.post("/predict", json={"text": text}) as response:
        await response.read()
        return response.status, time.perf_counter() - due


async def measure_capacity(address, texts, concurrency, seconds):
    """Requests a second while there are always so many under way; the first third warms up."""
    done, refused = [], []
    start = time.perf_counter()

    async def client(number, session):
        draw = random.Random(number)
        while time.perf_counter() < start + seconds and not refused:
            status, _ = await ask(session, draw.choice(texts), time.perf_counter())
            (done if status == 200 else refused).append(time.perf_counter())

    async with clients(address) as session:
        await asyncio.gather(*(client(i, session) for i in range(concurrency)))
    if refused:
        raise ValueError("some texts were refused; give others with --texts")
    counted = [t for t in done if start + seconds / 3 < t <= start + seconds]
    if not counted:
        raise ValueError(f"no text was answered within {seconds:g} s; give more with --seconds")
    return len(counted) / (seconds * 2 / 3)


async def batches_by_ratio(session):
    async with session.get("/metrics") as response:
        page = await response.text()
    counts = re.findall(r'^pet_fairseq_batches_total\{ratio="(\d+)"\} (\d+)', page, re.MULTILINE)
    return Counter({int(ratio): int(count) for ratio, count in counts})


async def load(address, texts, rate, seconds, seed):
    """Poisson arrivals; returns answers as (status, seconds) and batches by ratio."""
    draw = random.Random(seed)
    tasks = []
    async with clients(address) as session:
        before = await batches_by_ratio(session)
        due = start = time.perf_counter()
        while (due := due + draw.expovariate(rate)) < start + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(ask(session, draw.choice(texts), due)))
        answers = await asyncio.gather(*tasks)
        after = await batches_by_ratio(session)
    return answers, after - before


# --- the table ------------------------------------------------------------------------------------


def percentile(values, share):
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else math.nan


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

    def run(self, texts, seconds, seed):
        start, starved = time.perf_counter(), starved_seconds(self.server.pid)
        answers, batches = asyncio.run(load(self.server.address, texts, self.rate, seconds, seed))
        self.answers += answers
        self.batches += batches
        self.starved += starved_seconds(self.server.pid) - starved
        self.seconds += time.perf_counter() - start

    def cells(self, target):
        taken = [1000 * seconds for status, seconds in self.answers if status == 200]
        p50, p95, p99 = (percentile(taken, share) for share in (0.5, 0.95, 0.99))
        total = self.batches.total()
        shares = [f"{k}: {100 * n / total:.0f}%" for k, n in sorted(self.batches.items())]
        full = sum(status == 503 for status, _ in self.answers)
        return [
            *(f"{self.name}, {self.rate:.2f}/s", self.mode, str(len(self.answers))),
            *(f"{p50:.0f}", f"{p95:.0f}", f"{p99:.0f}", "yes" if p95 <= target else "no"),
            *(", ".join(shares), str(full), f"{100 * self.starved / self.seconds:.0f}"),
        ]


def compare(args, path, texts, options):
    """Run everything and print the table."""
    mean_tokens = statistics.mean(len(text.split()) + 2 for text in texts)
    common = ("--path", path, "--max-batch-tokens", args.batch_tokens, *options)
    in_batch = max(1, round(args.batch_tokens / mean_tokens))
    with contextlib.ExitStack() as servers:
        plain = servers.enter_context(server("--ratio", 1, *common))
        starved = starved_seconds(plain.pid)
        under_way = min(3 * in_batch, 100)
        capacity = asyncio.run(measure_capacity(plain.address, texts, under_way, args.seconds))
        starved = starved_seconds(plain.pid) - starved
        batch_ms = 1000 * in_batch / capacity
        target = args.target_ms or args.target_batches * batch_ms
        print(
            f"Ratio 1 answers {capacity:.2f} requests of {mean_tokens:.0f} tokens a second, a "
            f"batch of {in_batch} in {batch_ms:.0f} ms (starved {100 * starved / args.seconds:.0f}"
            f"% of the time); target {target:.0f} ms for p95.\n",
            flush=True,
        )
        auto = servers.enter_context(server("--target-ms", target, *common))
        fastest = max(args.ratios)
        fast = servers.enter_context(server("--ratio", fastest, *common))
        low, high = args.low * capacity, args.high * capacity
        rows = [
            Row("low", low, "auto", auto),
            Row("high", high, "1", plain),
            Row("high", high, "auto", auto),
            Row("high", high, f"{fastest}", fast),
        ]
        for i in range(args.rounds):
            for row in rows:
                row.run(texts, args.seconds, args.seed + i)
    header = ["load", "ratio", "requests", "p50 ms", "p95 ms", "p99 ms", "kept", "batches", "503"]
    lines = [row.cells(target) for row in rows]
    print(table([*header, "starved %"], lines, text=(0, 1, 6, 7)), end="")
    print("\nkept: p95 within the target. starved: time in which a server could have run but")
    print("other processes had the processor; a few percent at most on a machine that is free.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--path", help="plugin files instead of random ones")
    parser.add_argument("--texts", type=Path, help="with --path: requests, one a line")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--ffn", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--bottleneck-dim", type=int, default=64)
    parser.add_argument("--site", default="ffn")
    parser.add_argument("--ratios", type=int, nargs="+", default=[2, 4, 8], help="in --path too")
    parser.add_argument("--lengths", type=int, nargs=2, default=[200, 400], help="of random texts")
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--low", type=float, default=0.3, help="load over ratio 1's capacity")
    parser.add_argument("--high", type=float, default=1.3, help="the same")
    parser.add_argument("--target-batches", type=float, default=4, help="target over batch time")
    parser.add_argument("--target-ms", type=float, help="instead of --target-batches")
    parser.add_argument("--seconds", type=float, default=15, help="of a round of a row")
    parser.add_argument("--rounds", type=int, default=2, help="the rows take turns")
    parser.add_argument("--seed", type=int, default=1)
    args, options = parser.parse_known_args()
    if args.path is not None:
        compare(args, args.path, args.texts.read_text().splitlines(), options)
        return
    with tempfile.TemporaryDirectory() as folder:
        shape = Shape(*(getattr(args, name) for name in Shape._fields))
        path = make_files(Path(folder), shape)
        compare(args, path, random_texts(args.lengths), options)


if __name__ == "__main__":
    main()
