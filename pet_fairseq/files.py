"""Files that are there whole or not at all."""

import os
from pathlib import Path
from typing import Callable


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, which then takes that name."""
    temporary = path.with_name(path.name + ".tmp")
    write(temporary)
    os.replace(temporary, path)
