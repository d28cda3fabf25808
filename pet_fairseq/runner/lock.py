"""The lock on a folder, which a run and the commands that it starts hold, and who they are.

The lock is the system's and ends with the last process that holds it. The file's text only tells
who that may be: after a crash it is out of date, and the next run writes it anew.
"""

import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional

from pet_fairseq.files import check_folder, locked_file
from pet_fairseq.runner.processes import has_group, look_up

LOCK = ".lock"
LONGEST_COMMAND = 150  # characters of it that a message shows


@dataclass(frozen=True)
class Worker:
    """A process that began to hold the lock.

    Attributes:
        since: when it was noted, in seconds since the epoch.
        ticks: when it was started, in the system's own count, by which a later process with the
            same number is told apart; None if it had ended already.
    """

    pid: int
    command: str
    since: float
    ticks: Optional[int]
    host: str

    @classmethod
    def of(cls, pid: int, words: Sequence[str]) -> "Worker":
        found = look_up(pid)
        ticks = None if found is None else found.ticks
        return cls(pid, shlex.join(words), time.time(), ticks, socket.gethostname())

    def may_work(self) -> bool:
        """Whether it is there; of a process of another machine nobody knows."""
        if self.host != socket.gethostname():
            return True
        found = look_up(self.pid)
        return found is not None and found.ticks == self.ticks and found.lives

    def may_have_left(self) -> bool:
        """Whether it has ended, but not all of the processes that it started in its group."""
        found = look_up(self.pid)
        return (found is None or not found.lives) and has_group(self.pid)

    def describe(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        where = "" if self.host == socket.gethostname() else f" on {self.host}"
        command = self.command
        if len(command) > LONGEST_COMMAND:
            command = command[:LONGEST_COMMAND] + "..."
        return f"process {self.pid}{where} since {since}: {command}"


class FolderLock:
    """A lock that is held; handle: its file descriptor, for commands to inherit."""

    def __init__(self, handle: int):
        self.handle = handle

    def note(self, pid: int, words: Sequence[str]) -> None:
        """Write down that a process with this command line holds the lock, too."""
        line = json.dumps(asdict(Worker.of(pid, words))) + "\n"
        with suppress(OSError):  # such as a full disk: the lock holds without a note
            os.write(self.handle, line.encode())


@contextmanager
def locked(folder: Path) -> Iterator[FolderLock]:
    """Lock a folder, which is made if it is missing.

    A command that inherits the lock keeps it if it outlives this process.

    Raises:
        UserError: another process has it, or nothing can be written there.
    """
    check_folder(folder, "folder")
    file_of_lock = folder / LOCK

    def busy() -> str:
        return (
            f"{folder}: another run, or a command that it started, is at work there; wait for it "
            f"or end it{who_works(file_of_lock)}"
        )

    with locked_file(file_of_lock, busy) as file:
        lock = FolderLock(file.fileno())
        lock.note(os.getpid(), [Path(sys.argv[0]).name, *sys.argv[1:]])
        yield lock


def who_works(path: Path) -> str:
    """The processes that a lock's file names, in brackets: the run, or what is left of it."""
    workers = read_workers(path)
    if not workers:
        return ""
    run, *commands = workers
    if run.may_work():
        return f" ({run.describe()})"
    left = [each.describe() for each in commands if each.may_work() or each.may_have_left()]
    return f" ({'; '.join(left) if left else f'{run.describe()}, which has ended'})"


def read_workers(path: Path) -> list[Worker]:
    """The processes that a lock's file names, the run first; none where it cannot be read."""
    workers = []
    with suppress(OSError, ValueError, TypeError):  # half a line, or a file of an older version
        for line in path.read_text(encoding="utf-8").splitlines():
            workers.append(Worker(**json.loads(line)))
    return workers
