#!/usr/bin/env python3
"""How long a search in a bank of demonstrations takes: random vectors, on disk, memory-mapped.

The search is the processor's work, wherever the model runs.

OMP_NUM_THREADS=2 python scripts/benchmarks/bank.py [--demonstrations 100000 --widths 256 512]
"""

import statistics
import tempfile
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from harness import Parser, report, seconds, take_turns, timed

from pet_fairseq.selfcp.bank.bank import Bank, Writer, create, locked
from pet_fairseq.selfcp.bank.manifest import Source

BLOCK = 5000
WARM_UP = 3
SIZES = {
    **{"--demonstrations": 100_000, "--widths": [256, 512], "--queries": [1, 32]},
    **{"--shots": 4, "--repeats": 50},
}
TINY = {"--demonstrations": 300, "--widths": [8, 16], "--queries": [1, 2], "--repeats": 3}
COLUMNS = {
    "width": "d",
    "queries": "d",
    **dict.fromkeys(("search, median ms", "p95 ms", "reading memory ms", "opening ms"), ".1f"),
}


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


def search_and_read(bank, queries, shots, draw):
    """Seconds of a search, and of reading the memory of its results."""
    keys = draw.standard_normal((queries, bank.manifest.width), dtype=np.float32)
    searching, results = timed("cpu", bank.search, keys, shots, [1 << 63] * queries)
    hits = list(chain(*results))
    return searching, seconds("cpu", lambda: [bank.memory(hit.number) for hit in hits])


def measure(bank, queries, args, draw):
    """Milliseconds: of a search, its median and 95th percentile, and of reading."""
    ways = {"both": partial(search_and_read, bank, queries, args.shots, draw)}
    searches, reads = zip(*take_turns(ways, args.repeats, WARM_UP)["both"])
    p95 = statistics.quantiles(searches, n=20)[-1]
    return (1000 * x for x in (statistics.median(searches), p95, statistics.median(reads)))


def main():
    args = Parser(__doc__, SIZES, TINY, ("--out", "--csv")).parse_args()
    draw = np.random.default_rng(1)
    about = f"{args.demonstrations:,} demonstrations, {args.shots} shots"
    with report(args, about, COLUMNS) as result:
        for width in args.widths:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                build(folder, args.demonstrations, width, draw)
                opening, bank = timed("cpu", Bank, folder)
                for queries in args.queries:
                    times = measure(bank, queries, args, draw)
                    result.add_row(width, queries, *times, 1000 * opening)


if __name__ == "__main__":
    main()
