"""Queries, prompts and responses as JSON lines: read one at a time and checked."""

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from tqdm import tqdm

from pet_fairseq.errors import UserError

BLOCK = 1 << 20  # bytes of an overlong line that are in memory at a time


class Record(NamedTuple):
    query: str
    prompt: str
    response: str


def read_records(path: Path, max_bytes: int, action: str) -> Iterator[tuple[str, Record]]:
    """Read the records of a file of JSON lines, each with its place; empty lines are left out.

    Args:
        max_bytes: the longest line, its end included. action: word for the progress bar.
    Raises:
        UserError: names file and line.
    """
    empty = True
    for where, line in _text_lines(path, max_bytes, action):
        empty = False
        yield where, _parse(line, where)
    if empty:
        raise UserError(f"{path}: no records; give a JSON object in each line")


def read_paragraphs(path: Path, max_bytes: int, action: str) -> Iterator[tuple[str, str]]:
    """Read the lines of a text that are not empty, each with its place, as `read_records` does."""
    for where, line in _text_lines(path, max_bytes, action):
        yield where, line.strip()


def cut(text: str, length: int) -> Iterator[str]:
    """Cut a text into parts of at most `length` characters, before a space where there is one."""
    start = 0
    while len(text) - start > length:
        blank = text.rfind(" ", start + 1, start + length + 1)
        end = blank if blank > start else start + length
        yield text[start:end]
        start = end
    yield text[start:]


# --- lines ----------------------------------------------------------------------------------------


def _text_lines(path: Path, max_bytes: int, action: str) -> Iterator[tuple[str, str]]:
    for where, line in _lines(path, max_bytes, action):
        try:
            text = line.decode("utf-8").removeprefix("\ufeff")  # some editors begin a file so
        except UnicodeDecodeError as error:
            raise UserError(
                f"{where}: not UTF-8 (0x{line[error.start]:02x} at byte {error.start} of the "
                "line); convert the file"
            ) from error
        if text and not text.isspace():
            yield where, text


def _lines(path: Path, max_bytes: int, action: str) -> Iterator[tuple[str, bytes]]:
    """Read the lines of a file, gzipped or not; a bar on stderr counts bytes of the file."""
    bar = tqdm(
        **{"desc": f"{action} {path.name}", "total": path.stat().st_size, "file": sys.stderr},
        **{"unit": "B", "unit_scale": True, "mininterval": 2},
    )
    with bar, path.open("rb") as file:
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
        number = 1
        try:
            while line := stream.readline(max_bytes + 1):
                where = f"{path}: line {number}"
                if len(line) > max_bytes:
                    raise UserError(_too_large(where, line, stream, max_bytes))
                yield where, line
                bar.update(file.tell() - bar.n)
                number += 1
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(
                f"{path}: line {number}: not gzip, or cut short ({error}); give the whole file"
            ) from error


def _too_large(where: str, start: bytes, stream: BinaryIO, max_bytes: int) -> str:
    """The error for a line that is too long, with its full size; reads the line to its end."""
    size, block = len(start), start
    while block and not block.endswith(b"\n"):
        block = stream.readline(BLOCK)
        size += len(block)
    return (
        f"{where}: {size / 1e6:,.1f} MB, more than --max-record-mb {max_bytes / 1e6:g}; cut it, or "
        "give a larger value if there is memory for it"
    )


def _parse(line: str, where: str) -> Record:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error}); give one object a line") from error
    except MemoryError as error:
        raise UserError(
            f"{where}: {len(line) / 1e6:,.1f} million characters do not fit into memory; cut it"
        ) from error
    if not isinstance(fields, dict):
        raise UserError(f"{where}: not a JSON object; give one with {', '.join(Record._fields)}")
    for name in Record._fields:
        _check_field(fields, name, where)
    if not fields["response"].strip():
        raise UserError(f"{where}: 'response' is empty; give one or leave the record out")
    return Record(*(fields[name] for name in Record._fields))


def _check_field(fields: dict, name: str, where: str) -> None:
    if name not in fields:
        raise UserError(f"{where}: no field '{name}'; give {', '.join(Record._fields)}")
    if not isinstance(fields[name], str):
        raise UserError(f"{where}: '{name}' is not a string; write it in quotation marks")
    try:
        fields[name].encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(fields[name][error.start])
        raise UserError(
            f"{where}: '{name}' has half a character, \\u{code:04x}, that UTF-8 cannot hold; mend "
            "the line"
        ) from error
