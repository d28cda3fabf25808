"""Repair of a folder of checkpoints after a crash."""

import shutil
from functools import partial
from pathlib import Path
from typing import NamedTuple, Optional

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UnavailableCheckpointError, UnsafeCheckpointError, UserError
from pet_fairseq.files import atomic_write


class Repair(NamedTuple):
    """`damaged` was replaced by a copy of `source`; both None if nothing was wrong."""

    damaged: Optional[Path]
    source: Optional[Path]


def is_intact(path: Path) -> bool:
    """Whether a checkpoint can be read to its end.

    Raises:
        UnsafeCheckpointError: it is complete, but holds more than a checkpoint should.
        UnavailableCheckpointError: that cannot be told now.
    """
    try:
        load_checkpoint(str(path), "checkpoint")
    except (UnsafeCheckpointError, UnavailableCheckpointError):
        raise
    except UserError:
        return False
    return True


def repair_folder(folder: Path) -> Repair:
    """Put the newest readable checkpoint in the place of a damaged checkpoint_last.pt.

    fairseq writes a checkpoint to a temporary file and renames it, but then *copies* it to
    checkpoint_last.pt; a crash or a full disk during the copy leaves that name unreadable.

    Raises:
        UserError: no such folder, or no readable checkpoint in it.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    last = folder / "checkpoint_last.pt"
    if last.exists() and is_intact(last):
        return Repair(None, None)
    others = [p for p in folder.glob("checkpoint*.pt") if p != last]
    if not last.exists() and not others:
        return Repair(None, None)
    for candidate in _newest_first(others):
        if is_intact(candidate):
            atomic_write(last, partial(shutil.copyfile, candidate))
            return Repair(last, candidate)
    raise UserError(
        f"{last}: damaged, and no other readable checkpoint in {folder}; delete it to start anew"
    )


def _newest_first(paths: list[Path]) -> list[Path]:
    def key(path: Path) -> tuple[float, str]:
        return (path.stat().st_mtime, path.name)

    return sorted(paths, key=key, reverse=True)
