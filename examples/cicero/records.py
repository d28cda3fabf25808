"""CICERO's questions about dialogues as prompts.

    python records.py OUT FILE...

FILE... is the release's data.zip, or val and test and maybe train as .json or .jsonl, gzipped or
not: an object a line with Dialogue, Target, Question, Choices and Correct Answers. Writes
{train,valid,test}.jsonl to the new folder OUT. Without train, every 10th dialogue of val is for
validation and the others are for training.

The query is the question and the utterance it is about, the prompt the dialogue, the response the
first correct choice; "references" holds all correct ones.
"""

import argparse
import gzip
import json
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

QUERY = "{Question} Target: {Target}"
HELD_OUT = 10
SPLITS = ("train", "val", "test")
T = TypeVar("T")


class BadInputError(Exception):
    """A file that cannot be used; the message says which."""


def one_line(text: str) -> str:
    return " ".join(text.split())


def read(paths: list[Path]) -> dict[str, bytes]:
    """The content of train, val and test, as far as they are there."""
    contents: dict[str, bytes] = {}
    for path in paths:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                contents |= {n: archive.read(n) for n in archive.namelist() if n.endswith("json")}
        else:
            data = path.read_bytes()
            contents[path.name] = gzip.decompress(data) if path.suffix == ".gz" else data
    by_split = {Path(name).name.split(".")[0]: data for name, data in contents.items()}
    return {split: by_split[split] for split in SPLITS if split in by_split}


def as_record(question: dict) -> dict:
    """A question of CICERO as a record of a prompt."""
    answers = [one_line(question["Choices"][i]) for i in question["Correct Answers"]]
    return {
        "query": one_line(QUERY.format(**question)),
        "prompt": one_line(" ".join(question["Dialogue"])),
        "response": answers[0],
        "references": answers,
    }


def convert(split: str, data: bytes, form: Callable[[dict], T]) -> list[tuple[str, T]]:
    """Each question in another form, with the name of its dialogue.

    Raises:
        BadInputError: a line that is no question.
    """
    questions = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            question = json.loads(line)
            questions.append((question["ID"], form(question)))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise BadInputError(f"{split}: line {number}: not as CICERO is ({error!r})") from error
    return questions


def divide(data: dict[str, bytes], form: Callable[[dict], T]) -> dict[str, list[T]]:
    """The questions of train, valid and test, each in that form.

    Raises:
        BadInputError: val or test is missing, a line is no question, or a set has none.
    """
    if not {"val", "test"} <= data.keys():
        raise BadInputError("val or test is missing")
    sets = {split: convert(split, lines, form) for split, lines in data.items()}
    if "train" in sets:
        chosen = {"train": sets["train"], "valid": sets["val"]}
    else:
        dialogues = list(dict.fromkeys(name for name, _ in sets["val"]))
        held_out = set(dialogues[HELD_OUT - 1 :: HELD_OUT])
        chosen = {
            "train": [item for item in sets["val"] if item[0] not in held_out],
            "valid": [item for item in sets["val"] if item[0] in held_out],
        }
    chosen["test"] = sets["test"]
    empty = [split for split, items in chosen.items() if not items]
    if empty:
        raise BadInputError(f"no questions for {empty[0]}")
    return {split: [question for _, question in items] for split, items in chosen.items()}


def read_arguments(about: str, form: Callable[[dict], T]) -> tuple[Path, dict[str, list[T]]]:
    """The command line: OUT, made as a new folder, and the divided questions of FILE...

    A file that cannot be used ends the script in one line.
    """
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()

    try:
        sets = divide(read(args.files), form)
    except (OSError, EOFError, zlib.error, BadInputError, zipfile.BadZipFile) as error:
        files = ", ".join(map(str, args.files))
        sys.exit(f"{parser.prog}: {files}: {error}; give other files")
    args.out.mkdir(parents=True)
    return args.out, sets


def main() -> None:
    out, sets = read_arguments(__doc__, as_record)
    for split, records in sets.items():
        text = "".join(json.dumps(record) + "\n" for record in records)
        (out / f"{split}.jsonl").write_text(text)
        print(f"{split}: {len(records)} questions")


if __name__ == "__main__":
    main()
