"""Reading files of texts, one a line."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from queue import Queue
from select import select
from threading import Thread
from typing import IO, Any, NamedTuple, Optional, TypeVar

from pet_fairseq.errors import UserError
from pet_fairseq.files import check_utf_16
from pet_fairseq.predict.sentences import EmptyTextError, TextError

STDIN = "-"
FORMATS = ("text", "jsonl")
BLOCK = 1 << 13  # bytes that are read at once
WINDOW = 1 << 18  # bytes, and
MOST_LINES = 4000  # the number, of the lines that are read together
PATIENCE = 0.1  # seconds in which the next line must come to be read together with the ones before

LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")  # all that str.splitlines knows

T = TypeVar("T")


class Line(NamedTuple):
    """A line without its end.

    Attributes:
        where: the file and the number, for errors.
        broken: the place of the first byte that is not UTF-8, for each run of which the text has a
            replacement character; None if there is none.
    """

    where: str
    text: str
    broken: Optional[int] = None


def check_input(file: str) -> None:
    """Check a file of texts before a model is loaded for it; of standard input nothing is known.

    Raises:
        UserError: it is missing, a folder, or UTF-16.
    """
    path = Path(file)
    if file == STDIN:
        return
    if path.is_dir() or not path.exists():
        reason = "is a folder; give a file" if path.is_dir() else "no such file"
        raise UserError(f"--input {file}: {reason}")
    if path.is_file():  # what is read of a pipe is gone
        with path.open("rb") as text:
            check_utf_16(text.read(2), f"--input {file}")


def read_lines(file: str) -> Iterator[Line]:
    """The lines of a file, or for "-" those of standard input, without a byte-order mark.

    One line at a time is in memory.

    Raises:
        OSError: a file that cannot be read.
    """
    with nullcontext(sys.stdin.buffer) if file == STDIN else Path(file).open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            yield make_line(file, number, line)


def read_windows(file: str) -> Iterator[list[Line]]:
    """The lines of a file in batches of what has arrived, so that nobody at a terminal waits."""
    number = 0
    with open(sys.stdin.fileno() if file == STDIN else file, "rb", 0, closefd=file != STDIN) as raw:
        for lines in whole_lines(raw):
            yield [make_line(file, number, line) for number, line in enumerate(lines, number + 1)]
            number += len(lines)


def read_ahead(windows: Iterator[T]) -> Iterator[T]:
    """Yield the same windows; a thread makes the next one while the caller works on this one.

    Raises:
        Exception: whatever `windows` raises, after those before it.
    """
    made: Queue[tuple[Optional[T], Optional[BaseException]]] = Queue(maxsize=1)

    def make() -> None:
        try:
            for window in windows:
                made.put((window, None))
        except BaseException as error:
            made.put((None, error))
        else:
            made.put((None, None))

    Thread(target=make, daemon=True).start()  # it may wait for a pipe for ever
    while True:
        window, error = made.get()
        if error is not None:
            raise error
        if window is None:
            return
        yield window


def whole_lines(raw: IO[bytes]) -> Iterator[list[bytes]]:
    """The lines of a file or pipe without "\\n", in lists of about WINDOW bytes or MOST_LINES.

    A list is shorter where the writer of a pipe pauses: what it has written is answered then.

    Args:
        raw: without a buffer; its `read` waits for the first byte only.
    """
    lines: list[bytes] = []
    parts: list[bytes] = []  # of a line whose end has not been read
    size = 0
    while (block := raw.read(BLOCK)) != b"":
        if block is None:  # a pipe that does not wait has nothing yet
            select([raw], [], [])
            continue
        *ends, rest = block.split(b"\n")
        for end in ends:
            lines.append(b"".join([*parts, end]))
            parts = []
        parts.append(rest)
        size += len(block)
        full = size >= WINDOW or len(lines) >= MOST_LINES
        if lines and (full or not select([raw], [], [], PATIENCE)[0]):
            yield lines
            lines, size = [], 0
    if any(parts):
        lines.append(b"".join(parts))
    if lines:
        yield lines


def make_line(file: str, number: int, line: bytes, option: str = "--input") -> Line:
    """A line of a file, or for "-" of standard input, without its end; option: names the file.

    Raises:
        UserError: the file is UTF-16.
    """
    name = "stdin" if file == STDIN else file
    if number == 1:
        check_utf_16(line, f"{option} {name}")
    text, broken = decode(line, "utf-8-sig" if number == 1 else "utf-8")
    return Line(f"{option} {name}, line {number}", text.rstrip("\r\n"), broken)


def without_line_breaks(text: str) -> str:
    """A text in one line: a space in place of each line break, which subword models can spell, too.

    A line of a file ends at "\\n", so that it may have other line breaks inside. Of these
    SentencePiece knows some as white space, and joins the words around the others.
    """
    return LINE_BREAKS.sub(" ", text)


def decode(line: bytes, encoding: str = "utf-8") -> tuple[str, Optional[int]]:
    """The text of a line, and the place of its first broken byte, None if there is none."""
    try:
        return line.decode(encoding), None
    except UnicodeDecodeError as error:
        return line.decode(encoding, errors="replace"), error.start


def check_bytes(line: Line) -> None:
    """Raise UserError if a line is not UTF-8."""
    if line.broken is not None:
        raise UserError(f"{line.where}: not UTF-8 at byte {line.broken}")


def format_of(file: str) -> str:
    """The format of a file by its name: "jsonl" or "text"."""
    return "jsonl" if Path(file).suffix == ".jsonl" else "text"


def read_text(line: Line, form: str) -> Any:
    """The text of a line, as `sentences.read_sentences` takes it.

    Args:
        form: "text", in which a tab separates the sentences of a pair, or "jsonl".
    Raises:
        TextError: not JSON, or more than two sentences. EmptyTextError: a blank line.
    """
    if not line.text.strip():
        raise EmptyTextError("text: empty")
    if form == "text":
        sentences = line.text.split("\t")
        if len(sentences) > 2:
            raise TextError(
                f"{len(sentences)} fields between tabs; give a text, or the two sentences of a pair"
            )
        return sentences if len(sentences) == 2 else line.text
    try:
        return json.loads(line.text)
    except (ValueError, RecursionError):
        raise TextError("not JSON; give --format text for plain text") from None
