"""CoLA as prompts of solved examples (in-context learning).

    python records.py OUT FILE... --shots N

FILE... is GLUE's CoLA.zip, or its train.tsv and dev.tsv: no header; source, label (1 acceptable,
0 not), the author's mark, sentence. GLUE keeps the labels of its test set, so dev is test; every
20th different sentence of train is valid. Writes {train,valid,test}.jsonl to the new folder OUT.

The prompt of each record is N sentences of train with their labels, drawn for it at random (seed
1) and never the sentence that is asked about.
"""

import argparse
import json
import random
import sys
import zipfile
from pathlib import Path

QUERY = "is this sentence acceptable or unacceptable? {}"
SHOT = "Sentence: {} Answer: {}"
LABELS = {"1": "acceptable", "0": "unacceptable"}
HELD_OUT = 20
FILES = ("train.tsv", "dev.tsv")
Examples = dict[str, str]  # from a sentence to its label


class BadInputError(Exception):
    """A file that cannot be used; the message says which."""


def read(paths: list[Path]) -> dict[str, bytes]:
    """The content of train.tsv and dev.tsv, wherever they are."""
    contents: dict[str, bytes] = {}
    for path in paths:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                contents |= {Path(n).name: archive.read(n) for n in archive.namelist()}
        else:
            contents[path.name] = path.read_bytes()
    missing = [name for name in FILES if name not in contents]
    if missing:
        raise BadInputError(f"there is no {missing[0]}")
    return contents


def examples(name: str, data: bytes) -> Examples:
    """The sentences of a table with their labels; one that is there twice has its first label."""
    labels: Examples = {}
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{name}: not UTF-8 at byte {error.start}") from error
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        fields = line.rstrip("\r").split("\t")
        if len(fields) != 4 or fields[1] not in LABELS:
            raise BadInputError(f"{name}: line {number}: not source, 0 or 1, mark, sentence")
        labels.setdefault(" ".join(fields[3].split()), LABELS[fields[1]])
    return labels


def hold_out(train: Examples) -> tuple[Examples, Examples]:
    """The sentences of train and of valid; every 20th is for valid."""
    parts: tuple[Examples, Examples] = ({}, {})
    for number, (sentence, label) in enumerate(train.items(), 1):
        parts[number % HELD_OUT == 0][sentence] = label
    return parts


def record(sentence: str, label: str, pool: list[tuple[str, str]], draw: random.Random, shots: int):
    """The record of a sentence; the pool has more than `shots` examples."""
    drawn = draw.sample(pool, shots + 1)
    others = [example for example in drawn if example[0] != sentence][:shots]
    return {
        "query": QUERY.format(sentence),
        "prompt": " ".join(SHOT.format(*example) for example in others),
        "response": label,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--shots", type=int, default=64)
    args = parser.parse_args()

    try:
        tables = {
            name: examples(name, data) for name, data in read(args.files).items() if name in FILES
        }
        train, valid = hold_out(tables["train.tsv"])
        if not valid:
            raise BadInputError(f"train.tsv: fewer than {HELD_OUT} sentences")
        if not 0 <= args.shots < len(train):
            raise BadInputError(
                f"--shots {args.shots}: there are {len(train)} sentences to train on"
            )
    except (OSError, BadInputError, zipfile.BadZipFile) as error:
        sys.exit(f"records.py: {', '.join(map(str, args.files))}: {error}; give others")
    args.out.mkdir(parents=True)
    pool, draw = list(train.items()), random.Random(1)
    for split, chosen in (("train", train), ("valid", valid), ("test", tables["dev.tsv"])):
        with (args.out / f"{split}.jsonl").open("w") as file:
            for sentence, label in chosen.items():
                print(json.dumps(record(sentence, label, pool, draw, args.shots)), file=file)
        print(f"{split}: {len(chosen)} sentences, each with {args.shots} others")


if __name__ == "__main__":
    main()
