"""Files that are there whole or not at all."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator

from pet_fairseq.errors import UserError


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, which then takes that name."""
    temporary = path.with_name(path.name + ".tmp")
    write(temporary)
    os.replace(temporary, path)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder that gets its name when all is in it; nothing is left of it after an error."""
    temporary = folder.with_name(folder.name + ".tmp")
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
