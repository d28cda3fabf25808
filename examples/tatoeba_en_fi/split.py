"""Divides Tatoeba's English-Finnish pairs into train, valid and test, by English sentence.

    python split.py PAIRS OUT [--at-least 50000]

PAIRS is manythings.org's fin-eng.zip, or its fin.txt, which may be gzipped: lines of English TAB
Finnish [TAB attribution], several Finnish ones for many English ones. Writes {train,valid,test}.en
and .fi to the folder OUT.

Where a sentence goes is a hash of its English letters and digits in lower case, so neither it nor
its twin with another full stop is in two sets, and a longer version of the list moves nothing.
About 1 in 45 English sentences is in valid and as many are in test; those keep their first
translation only.
"""

import argparse
import gzip
import hashlib
import sys
import zipfile
from pathlib import Path

BUCKETS = 45
MEASURED = "cc00216f54c0562a11d4692a2fb901c45da4ff11bfa4f18e4b07d6f52af69165"  # 59,490 pairs


def read(path: Path) -> str:
    """The text of fin.txt, wherever it is."""
    if path.suffix == ".zip":
        return zipfile.ZipFile(path).read("fin.txt").decode()
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def split_of(english: str) -> str:
    key = "".join(filter(str.isalnum, english.lower()))
    bucket = int(hashlib.sha1(key.encode()).hexdigest(), 16) % BUCKETS
    return {0: "valid", 1: "test"}.get(bucket, "train")


def divide(pairs: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """The pairs of each set, in their order."""
    sets = {"train": [], "valid": [], "test": []}
    seen = set()
    for english, finnish in pairs:
        split = split_of(english)
        if split == "train" or english not in seen:
            sets[split].append((english, finnish))
        seen.add(english)
    return sets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--at-least", type=int, default=50000, help="fewer pairs are an error")
    args = parser.parse_args()

    try:
        lines = read(args.pairs).replace("\r", "").removesuffix("\n").split("\n")
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(f"split.py: {args.pairs}: cannot be read ({error}); fetch it again")
    if not all("\t" in line for line in lines):
        sys.exit(f"split.py: {args.pairs}: lines without a tab; give English TAB Finnish")
    if len(lines) < args.at_least:
        sys.exit(f"split.py: {args.pairs}: {len(lines)} pairs, expected {args.at_least} or more")
    pairs = [tuple(line.split("\t")[:2]) for line in lines]
    text = "".join(f"{english}\t{finnish}\n" for english, finnish in pairs)
    version = hashlib.sha256(text.encode()).hexdigest()
    print(f"{len(pairs)} pairs, sha256 {version}")
    if version != MEASURED:
        print("note: not the version that the project's results were measured on; yours may differ")
    args.out.mkdir(parents=True, exist_ok=True)
    for split, chosen in divide(pairs).items():
        for side, lang in enumerate(("en", "fi")):
            path = args.out / f"{split}.{lang}"
            path.write_text("".join(pair[side] + "\n" for pair in chosen), encoding="utf-8")
        print(f"{split}: {len(chosen)} pairs, {len({en for en, _ in chosen})} English sentences")


if __name__ == "__main__":
    main()
