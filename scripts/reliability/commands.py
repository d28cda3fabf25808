"""Imported by the others: runs commands in forks of a process that has everything loaded.

A command is what a user types: `fairseq-train`, `pet-fairseq repair`. A fork saves the seconds that
loading torch and fairseq takes; in all else the command does what it does for a user, in a process
group of its own.
"""

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import torch
from fairseq_cli.generate import cli_main as fairseq_generate
from fairseq_cli.preprocess import cli_main as fairseq_preprocess
from fairseq_cli.train import cli_main as fairseq_train

from pet_fairseq import cli, register

USER_DIR = str(Path(cli.__file__).parent)
PROGRAMS = {
    "fairseq-train": fairseq_train,
    "fairseq-generate": fairseq_generate,
    "fairseq-preprocess": fairseq_preprocess,
    "pet-fairseq": lambda: sys.exit(cli.main()),
}


class Result(NamedTuple):
    status: int
    output: str


class Running:
    """A command that was started; its output goes to a file."""

    def __init__(self, words: Sequence[object], log: Path):
        self.log = log
        log.write_bytes(b"")
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become([str(word) for word in words], log)
        os.setpgid(self.pid, self.pid)  # the child does so, too: whichever comes first counts

    def wait(self) -> Result:
        _, status = os.waitpid(self.pid, 0)
        output = self.log.read_text(encoding="utf-8", errors="replace")
        return Result(os.waitstatus_to_exitcode(status), output)

    def kill(self) -> Result:
        """Send SIGKILL to the command and all that it started."""
        os.killpg(self.pid, signal.SIGKILL)
        return self.wait()


def prepare() -> None:
    """Load and register what the commands use; call it once, before the first of them."""
    register()
    torch.set_num_threads(1)


def run(words: Sequence[object], log: Path) -> Result:
    return Running(words, log).wait()


def must(words: Sequence[object], log: Path) -> str:
    """Run a command that is expected to work, and return its output."""
    result = run(words, log)
    if result.status != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{result.output[-3000:]}")
    return result.output


def _become(words: list[str], log: Path) -> NoReturn:
    """Be the command, in this process, which ends with it."""
    status = 1
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(log, os.O_WRONLY | os.O_APPEND)
        for number, stream in enumerate((nothing, output, output)):
            os.dup2(stream, number)
        sys.argv[:] = words
        PROGRAMS[words[0]]()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        _show_error()
    finally:
        _end(status)


def _show_error() -> None:
    """Print the error as Python does if nobody catches it."""
    try:
        sys.excepthook(*sys.exc_info())
    except Exception:
        traceback.print_exc()


def _end(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 1
    os._exit(status)
