"""Processes: what the system says of them and of their groups, by /proc, and what they said."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

PROC = Path("/proc")
ENDED = ("Z", "X")  # a process's states


class Process(NamedTuple):
    """What the system says of a process; one that has ended may be there until it is waited for."""

    lives: bool
    group: int
    ticks: int


def look_up(pid: int) -> Optional[Process]:
    """A process by its number, None if there is none."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # behind the name, which may hold anything
    return Process(state not in ENDED, int(fields[1]), int(fields[18]))


def members(group: int) -> Iterator[tuple[int, Process]]:
    """Yield the processes of a process group by number, those that have ended too."""
    for path in PROC.glob("[0-9]*"):
        process = look_up(int(path.name))
        if process is not None and process.group == group:
            yield int(path.name), process


def last_line(output: str) -> str:
    """The last line of what a process that failed has printed."""
    return (output.strip().splitlines() or ["no output"])[-1]


def has_group(number: int) -> bool:
    """Whether a process of a process group lives."""
    return any(process.lives for _, process in members(number))
