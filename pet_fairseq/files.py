"""Files that are there whole or not at all."""

import os
import tempfile
from pathlib import Path
from typing import Callable

from pet_fairseq.errors import UserError


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, which then takes that name."""
    temporary = path.with_name(path.name + ".tmp")
    write(temporary)
    os.replace(temporary, path)


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
