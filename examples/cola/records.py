"""CoLA as prompts of solved examples (in-context learning).

    python records.py OUT FILE... --shots N

FILE... is GLUE's CoLA.zip, or its train.tsv and dev.tsv, or the authors' cola_public_1.1.zip, whose
two dev sets, in domain and out of domain, are GLUE's one. Their tables have no header: source,
label (1 acceptable, 0 not), the author's mark, sentence. The labels of the test sets are not
public, so dev is test; every 20th different sentence of train is valid. Writes
{train,valid,test}.jsonl to the new folder OUT.

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
GLUE = {"train": ("train.tsv",), "dev": ("dev.tsv",)}
AUTHORS = {
    "train": ("in_domain_train.tsv",),
    "dev": ("in_domain_dev.tsv", "out_of_domain_dev.tsv"),
}
Contents = dict[str, bytes]  # of tables, by their names
Examples = dict[str, str]  # from a sentence to its label


class BadInputError(Exception):
    """A file that cannot be used; the message says which."""


def read(paths: list[Path]) -> Contents:
    """The content of each file; of an archive, those in any folder of it but `tokenized`."""
    contents: Contents = {}
    for path in paths:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    # the sentences in tokens have the same file names as the sentences themselves
                    if Path(name).parent.name != "tokenized":
                        contents[Path(name).name] = archive.read(name)
        else:
            contents[path.name] = path.read_bytes()
    return contents


def sets(contents: Contents) -> dict[str, Examples]:
    """The examples of train and of dev; from GLUE's tables where the authors' are there, too."""
    names = AUTHORS if "train.tsv" not in contents and AUTHORS["dev"][0] in contents else GLUE
    missing = [name for some in names.values() for name in some if name not in contents]
    if missing:
        raise BadInputError(f"there is no {missing[0]}")
    return {split: examples({n: contents[n] for n in some}) for split, some in names.items()}


def examples(tables: Contents) -> Examples:
    """The sentences of tables with their labels; one that is there twice has its first label."""
    labels: Examples = {}
    for name, data in tables.items():
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
        found = sets(read(args.files))
        train, valid = hold_out(found["train"])
        if not valid:
            raise BadInputError(f"fewer than {HELD_OUT} sentences to train on")
        if not 0 <= args.shots < len(train):
            raise BadInputError(
                f"--shots {args.shots}: there are {len(train)} sentences to train on"
            )
    except (OSError, BadInputError, zipfile.BadZipFile) as error:
        sys.exit(f"records.py: {', '.join(map(str, args.files))}: {error}; give others")
    args.out.mkdir(parents=True)
    pool, draw = list(train.items()), random.Random(1)
    for split, chosen in (("train", train), ("valid", valid), ("test", found["dev"])):
        with (args.out / f"{split}.jsonl").open("w") as file:
            for sentence, label in chosen.items():
                print(json.dumps(record(sentence, label, pool, draw, args.shots)), file=file)
        print(f"{split}: {len(chosen)} sentences, each with {args.shots} others")


if __name__ == "__main__":
    main()
