"""The lines of several files, plain or compressed, one after the other, in constant memory."""

import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import check_utf_16
from pet_fairseq.predict.lines import Line, decode, make_line

OPTION = "--text"
LONGEST = 1 << 17  # bytes that are kept of a line; the rest is passed over
BUFFER = 1 << 20  # bytes of text, and
BLOCK = 1 << 16  # of a compressed file, that are read at once
BEGINNING = 1 << 16  # bytes in which text of another encoding shows itself, by
MANY_ZEROS = 0.002  # this share of zero bytes, which UTF-16 and compressed files have, or
FEW = 10  # more broken lines than this, if they are most of those that are not ASCII


def start_gz() -> tuple[Callable[[], Any], type[Exception]]:
    """What begins to unpack a member of a .gz file, and the error that it raises."""
    return lambda: zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), zlib.error


def start_zst() -> tuple[Callable[[], Any], type[Exception]]:
    """What begins to unpack a frame of a .zst file, and its error; UserError without zstandard."""
    try:
        import zstandard
    except ModuleNotFoundError as error:
        raise UserError(
            f"{OPTION}: .zst files need zstandard; pip install 'pet-fairseq[zst]'"
        ) from error
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


UNPACKERS = {".gz": start_gz, ".zst": start_zst}  # by the end of a file's name


def unpack(name: str, raw: IO[bytes]) -> Iterator[bytes]:
    """What a compressed file holds, in blocks.

    Raises:
        UserError: it is cut short or damaged.
    """
    start, damage = UNPACKERS[Path(name).suffix]()
    unpacker = start()
    try:
        while block := raw.read(BLOCK):
            while block:
                if unpacker.eof:  # a file may have several members, and zeros at its end
                    block = block.lstrip(b"\0")
                    if not block:
                        break
                    unpacker = start()
                yield unpacker.decompress(block)
                block = unpacker.unused_data
    except damage as error:
        raise UserError(f"{OPTION} {name}: damaged, or not compressed so: {error}") from error
    if not unpacker.eof:
        raise UserError(f"{OPTION} {name}: ends too early; copy or fetch the file again")


class Blocks(io.RawIOBase):
    """Blocks of bytes as a file."""

    def __init__(self, blocks: Iterator[bytes]):
        self.blocks = blocks
        self.rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self.rest:
            block = next(self.blocks, None)
            if block is None:
                return 0
            self.rest = memoryview(block)
        size = min(len(buffer), len(self.rest))
        buffer[:size] = self.rest[:size]
        self.rest = self.rest[size:]
        return size


class TextReader:
    """Reads or skips the lines of several files.

    Attributes:
        number: how many lines have been read or skipped.
    """

    def __init__(self, files: Sequence[str]):
        self.number = 0
        self._names = iter(files)
        self._name = ""
        self._raw: Optional[IO[bytes]] = None
        self._text: Optional[io.BufferedReader] = None
        self._in_file = 0  # lines of this file
        self._bytes = sum(map(os.path.getsize, files))
        self._passed = 0  # bytes of the files before this one

    def close(self) -> None:
        if self._raw is not None:
            self._passed += self._raw.tell()
            self._raw.close()
        self._raw = self._text = None

    @property
    def part_read(self) -> float:
        """Which part of the files' bytes has been read, from 0 to 1."""
        passed = self._passed + (self._raw.tell() if self._raw else 0)
        return passed / self._bytes if self._bytes else 1.0

    @property
    def ended(self) -> bool:
        """Whether there are no more lines."""
        return self._more() is None

    def skip(self, count: int) -> None:
        """Pass over lines, as far as there are any, without looking at each."""
        last = self.number + count
        while self.number < last and (text := self._more()) is not None:
            ahead = text.peek()
            lines = ahead.count(b"\n")
            if 0 < lines <= last - self.number:
                text.read(ahead.rindex(b"\n") + 1)
                self._count(lines)
            else:
                self._read_line(text)

    def __iter__(self) -> Iterator[Line]:
        while (text := self._more()) is not None:
            line = self._read_line(text)
            yield make_line(self._name, self._in_file, line, OPTION)

    def _more(self) -> Optional[io.BufferedReader]:
        """The file that has the next line, None at the end of the text."""
        while self._text is None or not self._text.peek(1):
            self.close()
            name = next(self._names, None)
            if name is None:
                return None
            self._open(name)
        return self._text

    def _open(self, name: str) -> None:
        self._name, self._in_file = name, 0
        raw = self._raw = open(name, "rb", buffering=0)  # noqa: SIM115  closed by `close`
        is_packed = Path(name).suffix in UNPACKERS
        self._text = io.BufferedReader(Blocks(unpack(name, raw)) if is_packed else raw, BUFFER)

    def _read_line(self, text: io.BufferedReader) -> bytes:
        line = part = text.readline(LONGEST)
        while len(part) == LONGEST and not part.endswith(b"\n"):
            part = text.readline(LONGEST)
        self._count(1)
        return line

    def _count(self, lines: int) -> None:
        self.number += lines
        self._in_file += lines


def check_text(files: Sequence[str]) -> None:
    """Check that there are words, and that every file looks like UTF-8.

    Raises:
        UserError: a file is missing, damaged, or of another encoding, or none has words.
    """
    for file in files:
        if not Path(file).is_file():
            raise UserError(f"{OPTION} {file}: no such file")
        check_encoding(file)
    reader = TextReader(files)
    has_words = any(line.text.strip() for line in reader)
    reader.close()
    if not has_words:
        raise UserError(f"{OPTION} {', '.join(files)}: no line has words; give a text")


def check_encoding(file: str, option: str = OPTION) -> None:
    """Raise UserError if a file is of another encoding than UTF-8, or no text at all.

    Args:
        option: names the file in the error.
    """
    reader = TextReader([file])
    text = reader._more()
    beginning = b"" if text is None else text.peek()[:BEGINNING]
    reader.close()
    check_utf_16(beginning, f"{option} {file}")
    if beginning.count(b"\0") > len(beginning) * MANY_ZEROS:
        raise UserError(
            f"{option} {file}: UTF-16, or no text; give UTF-8 (iconv -f UTF-16 -t UTF-8), or text "
            f"that is compressed under a name ending in {' or '.join(UNPACKERS)}"
        )
    others = [line for line in beginning.split(b"\n")[:-1] if not line.isascii()]
    broken = sum(decode(line)[1] is not None for line in others)
    if broken > max(FEW, len(others) / 2):
        raise UserError(
            f"{option} {file}: not UTF-8: of the first {len(others)} lines that are not ASCII "
            f"{broken} have broken bytes; convert it (iconv -t UTF-8)"
        )
