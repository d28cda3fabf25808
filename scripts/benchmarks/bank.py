#!/usr/bin/env python3
"""How long a search in a bank of demonstrations takes: random vectors, on disk, memory-mapped.

The search is the processor's work, wherever the model runs.

OMP_NUM_THREADS=2 python scripts/benchmarks/bank.py [--demonstrations 100000 --widths 256 512]
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import Lines, add_out_option

from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.selfcp.bank.bank import Bank, Writer, create, locked
from pet_fairseq.selfcp.manifest import Source

BLOCK = 5000


def build(folder, number, width, draw):
    """A bank of random memory tokens, two for each demonstration."""
    with locked(folder):
        create(folder, width, 12.0, {})
        writer = Writer(folder)
        writer.begin(Source("random", "train", "0", number, 0))
        for start in range(0, number, BLOCK):
            size = min(BLOCK, number - start)
            memories = draw.standard_normal((size, 2, width), dtype=np.float32)
            writer.append(list(memories), range(start, start + size))


def milliseconds(work):
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def measure(folder, queries, args, draw):
    """Milliseconds of each repeat: of the search, and of reading the memory of its results."""
    bank = Bank(folder)
    searches, reads = [], []
    for i in range(args.repeats + 3):  # the first three warm up
        keys = draw.standard_normal((queries, bank.manifest.width), dtype=np.float32)
        results = []
        taken = milliseconds(
            lambda keys=keys, results=results: results.extend(
                bank.search(keys, args.shots, [1 << 63] * len(keys))
            )
        )
        read = milliseconds(
            lambda results=results: [bank.memory(hit.number) for hits in results for hit in hits]
        )
        if i >= 3:
            searches.append(taken)
            reads.append(read)
    return searches, reads


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--demonstrations", type=int, default=100_000)
    parser.add_argument("--widths", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--shots", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=50)
    add_out_option(parser)
    args = parser.parse_args()
    say = Lines(args.out)
    draw = np.random.default_rng(1)
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    say(f"{args.demonstrations:,} demonstrations, {args.shots} shots, {threads} threads\n")
    columns = ["search, median ms", "p95 ms", "reading memory ms", "opening ms"]
    say(table_head(["width", "queries", *columns], text=()))
    for width in args.widths:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            build(folder, args.demonstrations, width, draw)
            opening = milliseconds(lambda folder=folder: Bank(folder))
            for queries in args.queries:
                searches, reads = measure(folder, queries, args, draw)
                p95 = statistics.quantiles(searches, n=20)[-1]
                numbers = (statistics.median(searches), p95, statistics.median(reads), opening)
                say(table_row([str(width), str(queries), *(f"{x:.1f}" for x in numbers)]))
    say.write()


if __name__ == "__main__":
    main()
