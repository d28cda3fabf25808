"""Files that are there whole or not at all."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pet_fairseq.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def temporary_path(path: Path) -> Path:
    """The name under which a file or folder is made: one that nobody else gives to a file."""
    return path.with_name(f".{path.name}.pet_fairseq.tmp")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, which then takes that name."""
    temporary = temporary_path(path)
    write(temporary)
    os.replace(temporary, path)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder that gets its name when all is in it; nothing is left of it after an error."""
    temporary = temporary_path(folder)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))


def write_json(path: Path, content: object) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_figure(path: Path, figure: "Figure") -> None:
    """Write a figure of matplotlib as PNG."""
    write_whole(path, lambda file: figure.savefig(file, dpi=150, format="png"))
