"""Errors a user can cause, and how they are shown: one line, no traceback."""

import pickle
import re
import sys
from types import TracebackType
from typing import Optional


class UserError(ValueError):
    """A wrong input: its message names the option or file, what is wrong and what to do."""


class UnsafeCheckpointError(UserError):
    """A checkpoint that safe loading refuses."""


def one_line(error: BaseException, traceback: Optional[TracebackType]) -> Optional[str]:
    """The line to show for an error that the user can mend, or None for every other error."""
    if isinstance(error, UserError):
        return str(error)
    path = _checkpoint_being_read(traceback)
    return None if path is None else f"{path}: {why_unreadable(error, path)}"


def why_unreadable(error: BaseException, path: str) -> str:
    """Why torch's safe loading failed on a file, without its advice to switch the safety off."""
    if is_refusal(error, path):
        named = re.search(r"(?:GLOBAL|class|global) `?([\w.]+\.[\w.]+)", str(error))
        what = f"such as {named[1]}" if named else "or an old pickle format"
        return (
            f"refused: the file holds more than tensors and options ({what}), which could run code "
            "while loading; use a checkpoint from a source you trust"
        )
    return (
        "not a readable checkpoint (cut short, damaged or something else); give another one, or "
        "mend a training folder with `pet-fairseq repair FOLDER`"
    )


def is_refusal(error: BaseException, path: str) -> bool:
    """Whether the file is a real pickle that safe loading would not take, no broken file."""
    if not isinstance(error, pickle.UnpicklingError):
        return False
    with open(path, "rb") as file:
        start = file.read(2)
    return start == b"PK" or start[:1] == b"\x80"  # a zip archive, or a bare pickle


def _checkpoint_being_read(traceback: Optional[TracebackType]) -> Optional[str]:
    """The file that fairseq was reading through torch.load, None if it was not doing that."""
    path = None
    while traceback is not None:
        code, variables = traceback.tb_frame.f_code, traceback.tb_frame.f_locals
        if code.co_name == "load_checkpoint_to_cpu":
            path = str(variables.get("local_path"))
        elif path is not None and code.co_filename.endswith("torch/serialization.py"):
            return path
        traceback = traceback.tb_next
    return None


def install_excepthook() -> None:
    """Show errors that the user can mend in one line; all others as before."""
    previous = sys.excepthook

    def show(kind, error, traceback):
        line = one_line(error, traceback)
        if line is None:
            previous(kind, error, traceback)
        else:
            print(f"pet_fairseq: error: {line}", file=sys.stderr)

    sys.excepthook = show
