"""Files that are there whole or not at all."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

from pet_fairseq.errors import UserError

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

    from matplotlib.figure import Figure


HASHED_AT_ONCE = 1 << 20  # bytes


def unfinished(path: Path) -> Path:
    """The name beside `path` under which it is written; no user's file is called so."""
    return path.with_name(f".{path.name}.unfinished")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill an unfinished file, which then gets its name; after an error it is gone.

    Raises:
        OSError: names `path`, as for a full disk.
    """
    temporary = unfinished(path)
    try:
        with naming(path):
            write(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder that gets its name when all is in it; nothing is left of it after an error.

    Raises:
        OSError: names `folder`, if it is about what is in it.
    """
    temporary = unfinished(folder)
    try:
        with naming(folder):
            shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed
            temporary.mkdir()
            yield temporary
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have the system's errors name `path` if they name its unfinished form or nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not _is_about(error.filename, unfinished(path)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _is_about(filename: Optional[Union[str, bytes, int]], temporary: Path) -> bool:
    return not isinstance(filename, str) or temporary in (Path(filename), *Path(filename).parents)


def check_folder(folder: Path, option: str) -> None:
    """Make the folder if need be, and see that a file can be written into it.

    Raises:
        UserError: it cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = "is a file" if folder.is_file() else error.strerror
        raise UserError(
            f"{option} {folder}: {reason}; give a folder that can be written"
        ) from error


def read_text(path: Path, option: str) -> str:
    """The text of a file; `option` says in the error message what the file is.

    Raises:
        UserError: not UTF-8, as a file that was cut inside a character.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{option} {path}: not UTF-8 at byte {error.start}, cut short or in another encoding; "
            "make it again"
        ) from error


def read_lines(path: Path, option: str) -> list[str]:
    """The lines of a file, of which the last may be empty; errors are those of `read_text`."""
    return read_text(path, option).removesuffix("\n").split("\n")


def hash_file(path: Union[str, Path], content: "Hash") -> "Hash":
    """Let a hash take in what is in a file, a block at a time; returns the hash.

    Python has hashlib.file_digest for it, but not before 3.11.
    """
    with open(path, "rb") as file:
        while block := file.read(HASHED_AT_ONCE):
            content.update(block)
    return content


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))


def write_json(path: Path, content: object) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_figure(path: Path, figure: "Figure") -> None:
    """Write a figure of matplotlib as PNG."""
    write_whole(path, lambda file: figure.savefig(file, dpi=150, format="png"))
