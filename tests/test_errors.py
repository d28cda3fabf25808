"""How errors reach the user: in one line that names the option or the file."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

from pet_fairseq.errors import (
    UNREADABLE,
    UnavailableCheckpointError,
    UnsafeCheckpointError,
    UserError,
    checkpoint_being_read,
    one_line,
    user_message,
)
from tests.checkpoints.written import Malicious, cut, write_checkpoint

REPO = Path(__file__).parents[1]
REGISTERED = "from pet_fairseq import errors, register; register()"


def test_errors_of_fairseqs_own_loading(tmp_path):
    """fairseq-generate --path reads without our function: the hook finds the file's name."""
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path)
    cut(path)
    with pytest.raises((RuntimeError, OSError)) as error:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    line = one_line(error.value, error.value.__traceback__)
    assert line.startswith(f"{path}: not a readable checkpoint")
    assert "\n" not in line
    assert one_line(KeyboardInterrupt(), error.value.__traceback__) is None

    torch.save({"model": Malicious(tmp_path / "marker")}, path)
    with pytest.raises(pickle.UnpicklingError) as error:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    line = one_line(error.value, error.value.__traceback__)
    assert line.startswith(f"{path}: refused")
    assert "\n" not in line
    assert "weights_only" not in line
    assert not (tmp_path / "marker").exists()


def test_a_packed_file_given_to_fairseq():
    """fairseq looks for the best loss in what it takes for an old checkpoint."""
    line = user_message(KeyError("best_loss"))
    assert line is not None and line.endswith("or unpack one that pet-fairseq pack wrote")


def open_missing(name: str, path: Path) -> tuple[BaseException, object]:
    """The error and its traceback of a module of this name that opens a file."""
    try:
        exec("open(path)", {"__name__": name, "path": path})
    except OSError as error:
        return error, error.__traceback__


def test_a_file_that_a_command_of_fairseq_could_not_open(tmp_path):
    missing = tmp_path / "none"
    command, own = (open_missing(name, missing) for name in ("fairseq_cli.train", "mine"))
    assert one_line(*command) == f"{missing}: No such file or directory"
    assert one_line(*own) is None


def map_empty(name: str, path: Path) -> tuple[BaseException, object]:
    """The error and its traceback of a module of this name that reads an empty set."""
    try:
        exec("np.memmap(path, mode='r')", {"__name__": name, "np": np, "path": path})
    except ValueError as error:
        return error, error.__traceback__


def test_an_empty_set_that_a_command_of_fairseq_reads(tmp_path):
    """fairseq-preprocess writes an empty file for a text without lines."""
    path = tmp_path / "test.de-en.de.bin"
    path.touch()
    assert one_line(*map_empty("fairseq_cli.train", path)).startswith("the data: a set is empty")
    assert one_line(*map_empty("mine", path)) is None


def fail(_rank: int, kind: type) -> None:
    raise kind("--teacher-path x: no such file")


KINDS = [UserError, UnsafeCheckpointError, UnavailableCheckpointError, ValueError]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_in_the_process_of_another_gpu(kind):
    """fairseq-train starts one for each GPU; only what a user can mend is shown in one line."""
    with pytest.raises(torch.multiprocessing.ProcessRaisedException) as error:
        torch.multiprocessing.start_processes(fail, args=(kind,), nprocs=1, start_method="fork")
    line = one_line(error.value, error.value.__traceback__)
    assert line == (None if kind is ValueError else "--teacher-path x: no such file")


def test_the_file_is_known_however_fairseq_passes_it(tmp_path):
    """As an open file or as a path, by position or by name."""
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"PK and no more")
    calls = [
        "with open(path, 'rb') as file: torch.load(file)",
        "with open(path, 'rb') as any_name: torch.load(f=any_name, map_location='cpu')",
        "torch.load(path)",
        "torch.load(str(path))",
    ]
    for call in calls:
        fairseq = {"__name__": "fairseq.checkpoint_utils", "torch": torch, "path": path}
        with pytest.raises(UNREADABLE) as error:
            exec(call, fairseq)
        assert checkpoint_being_read(error.value.__traceback__) == str(path)
        with pytest.raises(UNREADABLE) as error:
            exec(call, {**fairseq, "__name__": "a_script_of_the_user"})
        assert checkpoint_being_read(error.value.__traceback__) is None


def test_one_line():
    assert one_line(UserError("--x 3: wrong"), None) == "--x 3: wrong"
    for other in (ValueError("x"), RuntimeError("x"), KeyError("x"), KeyboardInterrupt()):
        assert one_line(other, None) is None


def test_a_mistake_that_fairseqs_trainer_hides():
    """It raises a bare Exception for whatever went wrong while a checkpoint was loaded."""

    def load():
        try:
            raise UserError("--x 3: wrong")
        except Exception:
            raise Exception("Cannot load model parameters; ensure that the architectures match.")  # noqa: B904

    with pytest.raises(Exception, match="architectures") as error:
        load()
    assert one_line(error.value, None) == "--x 3: wrong"
    assert one_line(Exception("another"), None) is None


def python(code):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=REPO, capture_output=True, text=True
    )


def test_hook_shows_user_errors_in_one_line():
    result = python(f"{REGISTERED}; raise errors.UserError('--x 3: wrong')")
    assert result.returncode == 1
    lines = [line for line in result.stderr.splitlines() if not line.startswith("INFO:")]
    assert lines == ["pet_fairseq: error: --x 3: wrong"]
    assert result.stdout == ""


def test_hook_leaves_other_errors():
    result = python(
        "from pet_fairseq import register; register(); raise ValueError('a mistake of ours')"
    )
    assert result.returncode == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.endswith("ValueError: a mistake of ours\n")
