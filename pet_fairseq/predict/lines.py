"""Reading files of texts, one a line."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from pet_fairseq.errors import UserError

STDIN = "-"
FORMATS = ("text", "jsonl")


class Line(NamedTuple):
    """A line without its end; where: the file and the number, for errors."""

    where: str
    text: str


def read_lines(file: str) -> Iterator[Line]:
    """The lines of a file, or for "-" those of standard input, without a byte-order mark.

    Raises:
        UserError: a line that is not UTF-8. OSError: a file that cannot be read.
    """
    name = "stdin" if file == STDIN else file
    with nullcontext(sys.stdin.buffer) if file == STDIN else Path(file).open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"--input {name}, line {number}"
            encoding = "utf-8-sig" if number == 1 else "utf-8"
            try:
                yield Line(where, line.decode(encoding).rstrip("\r\n"))
            except UnicodeDecodeError as error:
                raise UserError(f"{where}: not UTF-8 at byte {error.start}") from None


def format_of(file: str) -> str:
    """The format of a file by its name: "jsonl" or "text"."""
    return "jsonl" if Path(file).suffix == ".jsonl" else "text"


def read_text(line: Line, form: str) -> Any:
    """The text of a line, as `sentences.read_sentences` takes it.

    Args:
        form: "text", in which a tab separates the sentences of a pair, or "jsonl".
    Raises:
        UserError: not JSON, or more than two sentences.
    """
    if form == "text":
        sentences = line.text.split("\t")
        if len(sentences) > 2:
            raise UserError(
                f"{line.where}: {len(sentences)} fields between tabs; give a text, or the two "
                "sentences of a pair"
            )
        return sentences if len(sentences) == 2 else line.text
    try:
        return json.loads(line.text)
    except (ValueError, RecursionError):
        raise UserError(f"{line.where}: not JSON; give --format text for plain text") from None
