"""Errors a user can cause, and how they are shown: one line, no traceback."""

import pickle
import sys
from types import TracebackType
from typing import Optional


class UserError(ValueError):
    """A wrong input: its message names the option or file, what is wrong and what to do."""


def one_line(error: BaseException, traceback: Optional[TracebackType]) -> Optional[str]:
    """The line to show for an error that the user can mend, or None for every other error."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, pickle.UnpicklingError):
        return f"{_file_being_loaded(traceback)}: {refusal(error)}"
    if isinstance(error, RuntimeError) and "PytorchStreamReader" in str(error):
        return (
            f"{_file_being_loaded(traceback)}: not a readable checkpoint (cut short or damaged); "
            "give another one, or repair the folder with `pet-fairseq repair FOLDER`"
        )
    return None


def refusal(error: pickle.UnpicklingError) -> str:
    """Why torch's safe loading refused a file, without its advice to switch the safety off."""
    reason = str(error).partition("WeightsUnpickler error: ")[2].split("Please use")[0]
    reason = " ".join(reason.split()).rstrip(".") or "not a pickle that torch can read"
    return (
        f"refused: the checkpoint holds more than tensors and options ({reason}), which could run "
        "code while loading; use a checkpoint from a source you trust"
    )


def _file_being_loaded(traceback: Optional[TracebackType]) -> str:
    """The name of the file given to torch.load, found in the frame that called it."""
    name = "checkpoint"
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "load_checkpoint_to_cpu":
            name = traceback.tb_frame.f_locals.get("local_path", name)
        traceback = traceback.tb_next
    return str(name)


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
