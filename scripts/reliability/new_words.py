#!/usr/bin/env python3
"""`pet-fairseq serve` and words that nobody has sent before: does its memory stay flat?

    python scripts/reliability/new_words.py [--requests 100000]
    python scripts/reliability/new_words.py --path FOLDER [OPTIONS OF pet-fairseq serve]

Every request has words of random letters that are in no other request. Tokenizers and BPEs remember
words to save time; what they remember has to be bounded. By default the server has a small RoBERTa
of random weights with plugins, Moses and subword-nmt. The exit status is 1 if memory grew, if a
request was refused, or if the server did not end as it was told.
"""

import argparse
import asyncio
import random
import string
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from http_bodies import CODES
from http_load import Request, full_load
from served import Server, make_files, server
from server_load import SHAPE, compare_fifths, memory_megabytes

from pet_fairseq.markdown import table

WORDS = (8, 16)  # of a request
LETTERS = (6, 14)  # of a word
UNDER_WAY = 64  # requests at a time
LOOKS = 50  # how often the server's memory is looked at


class Look(NamedTuple):
    """What was seen after some requests: new words so far, seconds, and the server's memory."""

    requests: int
    words: int
    seconds: float
    megabytes: float


def new_words(draw: random.Random, sent: set[int]) -> str:
    """A text whose words nobody has sent; sent: the hashes of those that were."""
    text = []
    while len(text) < draw.randint(*WORDS):
        word = "".join(draw.choices(string.ascii_lowercase, k=draw.randint(*LETTERS)))
        if hash(word) not in sent:
            sent.add(hash(word))
            text.append(word)
    return " ".join(text)


def watched_requests(
    number: int, seed: int, served: Server, looks: list[Look]
) -> Iterator[Request]:
    """So many requests; at equal intervals the server's memory is added to `looks`."""
    draw, sent, start = random.Random(seed), set(), time.perf_counter()
    for i in range(number):
        if i % max(1, number // LOOKS) == 0:
            seconds = time.perf_counter() - start
            looks.append(Look(i, len(sent), seconds, memory_megabytes(served.pids)))
            print(f"{i:,} requests, {looks[-1].megabytes:.0f} MB", file=sys.stderr, flush=True)
        yield Request({"text": new_words(draw, sent)})
    looks.append(
        Look(number, len(sent), time.perf_counter() - start, memory_megabytes(served.pids))
    )


def report(looks: list[Look]) -> str:
    """A row for every tenth of the requests."""
    header = ["requests", "new words", "seconds", "requests/s", "memory MB"]
    rows = []
    for look in looks[:: max(1, len(looks) // 10)]:
        rate = f"{look.requests / look.seconds:.0f}" if look.requests else "-"
        numbers = (f"{look.requests:,}", f"{look.words:,}", f"{look.seconds:.0f}", rate)
        rows.append([*numbers, f"{look.megabytes:.0f}"])
    return table(header, rows, text=())


def run(args: argparse.Namespace, folder: Path, options: list[str]) -> int:
    if args.path is None:
        (folder / "codes").write_text(CODES)
        options += ["--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes"]
        options.append(str(folder / "codes"))
    path, looks, faults = args.path or make_files(folder, SHAPE), [], []
    with server(path, *options) as served:
        requests = watched_requests(args.requests, args.seed, served, looks)
        answers = asyncio.run(full_load(served.address, requests, UNDER_WAY))
    if served.process.returncode != 0:
        faults.append(f"the server ended with status {served.process.returncode}")
    early, late, grown = compare_fifths([look.megabytes for look in looks])
    faults += grown
    print(report(looks))
    print(
        f"{len(answers):,} answers to {looks[-1].words:,} new words. Memory: {early:.0f} MB in the"
    )
    print(f"second fifth, {late:.0f} MB in the last. Faults: {len(faults)}.")
    for fault in faults:
        print(f"* {fault}")
    return int(bool(faults))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--path", help="a checkpoint or plugin files instead of random ones")
    parser.add_argument("--seed", type=int, default=1)
    args, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        return run(args, Path(folder), options)


if __name__ == "__main__":
    sys.exit(main())
