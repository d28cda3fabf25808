"""Errors a user can cause, and how they are shown: one line, no traceback."""

import difflib
import inspect
import os
import pickle
import re
import struct
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Optional

# what torch and fairseq raise for a file that is no checkpoint, or only a part of one
UNREADABLE = (
    pickle.UnpicklingError,
    struct.error,
    RuntimeError,
    OSError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
)

# What fairseq says of wrong inputs, with a traceback, and what the user is told in its place.
NO_SENTENCES = "cannot mmap an empty file"  # Python's words, where a set has none
NO_GPU = "torch finds no GPU here; give --cpu, and leave out --fp16 and --amp"
WHOLE = "give one that fairseq-train wrote"
FAIRSEQ_ERRORS = {
    r"--path required": "--path: missing; give the checkpoint",
    r"(--\w.*)": r"\1",
    r"Must specify batch size": "--max-tokens: missing; give it or --batch-size",
    r"optimizer is required!": "--optimizer: missing; give one, such as adam",
    r"Model file not found: (.*)": r"--path \1: no such file",
    r"Dataset not found: (\S+) \((.*)\)": r"\2: has no set \1; give another folder from "
    "fairseq-preprocess, or another set with --train-subset, --valid-subset or --gen-subset",
    NO_SENTENCES: "the data: a set is empty; binarise a text that has lines, or give another set "
    "with --train-subset, --valid-subset or --gen-subset",
    r"Could not infer language pair": "--source-lang and --target-lang: missing, and the data "
    "folder does not tell; give them, or the folder that fairseq-preprocess wrote",
    r"Torch not compiled with CUDA|Found no NVIDIA driver|No CUDA GPUs": NO_GPU,
    r"Could not infer model type|Replacement index \d+ out of range": "the checkpoint's "
    "architecture is another plugin's; write `import pet_fairseq` into that plugin's __init__.py "
    "and give its folder to --user-dir",
    r"Neither args nor cfg exist": f"the checkpoint has no `cfg` or `args`; {WHOLE}",
    r"'best_loss'$": f"the checkpoint has no `optimizer_history`; {WHOLE}, or unpack one that "
    "pet-fairseq pack wrote",
    r"'(model|extra_state)'$": rf"the checkpoint has no `\1`; {WHOLE}",
    r"file (.*) not found$": r"\1: no such file",
    r"INTERNAL: could not parse ModelProto from (.*)": r"\1: no SentencePiece model; give the "
    "subword model of the training text",
    r'FAILED_PRECONDITION: "(.*)": Is a directory': r"\1: is a folder; give the SentencePiece "
    "model in it",
    r"Missing mandatory value: sentencepiece_model": "--sentencepiece-model: missing; give the "
    "subword model of the training text",
    r"Missing mandatory value: bpe_codes": "--bpe-codes: missing; give the subword model of the "
    "training text",
    r"(?:Criterion|Optimizer) does not match.*\. (\w+) vs (\w+)": "--save-dir: its checkpoint was "
    r"trained with \1, not \2; give another --save-dir, or --reset-optimizer",
    r"Unknown post_process option: (.*)": r"--remove-bpe \1: give subword_nmt or sentencepiece",
    r"(?s)Error\(s\) in loading state_dict .*size mismatch for \w+\.embed_tokens\.weight: "
    r"\D*(\d+)\D.*? current model is \D*(\d+)": r"the checkpoint was trained with another "
    r"dictionary (\1 words) than the data's (\2); give the folder that it was trained on, and its "
    "--source-lang and --target-lang, not exchanged",
    r"Error\(s\) in loading state_dict": "the checkpoint is of another model than these options "
    "say; give another --save-dir, or the options that it was trained with, which "
    "`pet-fairseq model-options` prints",
}


class UserError(ValueError):
    """A wrong input: its message names the option or file, what is wrong and what to do.

    The message is one line, also where it quotes an input that has several.
    """

    def __init__(self, message: str):
        super().__init__(" ".join(message.splitlines()))


class UnsafeCheckpointError(UserError):
    """A checkpoint that safe loading refuses."""


class UnavailableCheckpointError(UserError):
    """A checkpoint that may be whole, but cannot be read now: of memory or of permission."""


class TooLongError(UserError):
    """A text that a model has too few positions for, if it is read as the options say."""


# what fairseq's trainer replaces by a general error while it loads a checkpoint
HIDDEN = (UserError, RuntimeError, KeyError)


def check_at_least(least: int, **options: int) -> None:
    """Check the numbers that the user gave for some options.

    Args:
        options: the numbers under the names that argparse derives from the options.
    Raises:
        UserError: one is below the least.
    """
    for name, number in options.items():
        if number < least:
            raise UserError(f"{option_of(name)} {number}: give {least} or more")


def check_positive(**options: int) -> None:
    """As `check_at_least`, of 1."""
    check_at_least(1, **options)


def option_of(name: str) -> str:
    """The option that argparse or fairseq keeps under a name."""
    return f"--{name.replace('_', '-')}"


def first_given(args: object, names: Iterable[str]) -> Optional[str]:
    """The first option of these names that is set and not false; None if there is none."""
    return next((option_of(name) for name in names if getattr(args, name, None)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What to add to the refusal of a word: the known one that it resembles, if any does."""
    similar = difflib.get_close_matches(word, known, n=1, cutoff=0.85)
    return f", did you mean {similar[0]}?" if similar else ""


def one_line(error: BaseException, traceback: Optional[TracebackType]) -> Optional[str]:
    """The line to show for an error that the user can mend, or None for every other error."""
    if type(error) is Exception and isinstance(error.__context__, HIDDEN):
        error = error.__context__
    if isinstance(error, UserError):
        return str(error)
    line = line_of_process(error) or nothing_to_train(traceback)
    if line is not None:
        return line
    path = checkpoint_being_read(traceback) if isinstance(error, UNREADABLE) else None
    if path is not None:
        return f"{path}: {why_unreadable(error, path)}"
    return user_message(error) if in_command(traceback) else None


def message_of(error: Exception) -> str:
    """The text of an error; one of the system begins with the file that it is about."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def in_command(traceback: Optional[TracebackType]) -> bool:
    """Whether a command of fairseq failed; a program that uses fairseq keeps its tracebacks."""
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__", "").startswith("fairseq_cli"):
            return True
        traceback = traceback.tb_next
    return False


def user_message(error: BaseException) -> Optional[str]:
    """The line for a wrong input that fairseq refuses, or for a file that cannot be opened.

    Returns:
        None for every other error.
    """
    if isinstance(error, OSError) and error.filename is not None:
        return message_of(error)
    matches = ((re.match(pattern, str(error)), line) for pattern, line in FAIRSEQ_ERRORS.items())
    return next((match.expand(line) for match, line in matches if match), None)


def line_of_process(error: BaseException) -> Optional[str]:
    """The message of an error of this module in a process that torch.multiprocessing started.

    fairseq-train starts one for each GPU; torch passes on only the text of its traceback.

    Returns:
        None for every other error.
    """
    if type(error).__name__ != "ProcessRaisedException":
        return None
    lines = re.findall(rf"^{re.escape(__name__)}\.\w+: (.*)$", str(error), re.MULTILINE)
    return lines[-1] if lines else None


def nothing_to_train(traceback: Optional[TracebackType]) -> Optional[str]:
    """Why fairseq's trainer had no parameters to give to an optimizer; None if it had some.

    The optimizers' own messages name no option, and only the trainer's frame in the traceback
    knows the model. A model's attribute `why_untrained` says which option left nothing to train.
    """
    while traceback is not None:
        frame = traceback.tb_frame
        if (
            frame.f_globals.get("__name__") == "fairseq.trainer"
            and frame.f_locals.get("params") == []
        ):
            model = frame.f_locals["self"].get_model()
            return getattr(model, "why_untrained", "nothing is to be trained: the model is frozen")
        traceback = traceback.tb_next
    return None


def why_unreadable(error: BaseException, path: str) -> str:
    """Why torch's safe loading failed on a file, without its advice to switch the safety off."""
    if is_refusal(error, path):
        unsafe_type = re.search(r"(?:GLOBAL|class|global) `?([\w.]+\.[\w.]+)", str(error))
        what = f"such as {unsafe_type[1]}" if unsafe_type else "or an old pickle format"
        return (
            f"refused: the file holds more than tensors and options ({what}), which could run code "
            "while loading; use a checkpoint from a source you trust"
        )
    return (
        "not a readable checkpoint (cut short, damaged or something else); give another one, or "
        "mend a training folder with `pet-fairseq repair FOLDER`"
    )


def is_refusal(error: BaseException, path: str) -> bool:
    """Whether safe loading refused an intact pickle, as opposed to failing on a broken file."""
    if not isinstance(error, pickle.UnpicklingError):
        return False
    with open(path, "rb") as file:
        start = file.read(2)
    return start == b"PK" or start[:1] == b"\x80"  # a zip archive, or a bare pickle


def checkpoint_being_read(traceback: Optional[TracebackType]) -> Optional[str]:
    """The file that torch.load was reading for fairseq when it failed; None if it was not.

    fairseq opens checkpoints itself, and neither its exceptions nor torch's name the file, so the
    arguments of torch.load in the traceback are the only place that knows it. The frame is
    recognised by its code, and the file is its first argument: neither depends on a name inside
    torch or fairseq. If that changes nonetheless, tests/test_errors.py fails.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    load = inspect.unwrap(torch.load).__code__
    called_by_fairseq = False
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_globals.get("__name__") == "fairseq.checkpoint_utils":
            called_by_fairseq = True
        elif called_by_fairseq and frame.f_code is load:
            file = frame.f_locals[load.co_varnames[0]]
            return os.fspath(file if isinstance(file, (str, os.PathLike)) else file.name)
        traceback = traceback.tb_next
    return None


def install_excepthook() -> None:
    """Have Python print errors that the user can mend in one line, and all others as before."""
    previous = sys.excepthook

    def show(kind, error, traceback):
        line = one_line(error, traceback)
        if line is None:
            previous(kind, error, traceback)
        else:
            print(f"pet_fairseq: error: {line}", file=sys.stderr)

    sys.excepthook = show
