"""Lets the disk become full while each command writes its files.

Usage: disk_full.py [--writers NAME ...]          needs Linux and the right to mount a tmpfs

Each command runs once with room, and then on a disk that has room for none, 30, 60 and 90% of what
it writes. It must end with an error of one line and a non-zero status, with every file there whole
or not at all and nothing beside them, and do its work when there is room again. Prints a row for
each writer and a line for each failure; the exit status is 1 if there was one.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from commands import Result, must, prepare, run
from disk_writers import WRITERS, Writer
from workspace import Workspace

SIZE = 64 << 20  # bytes of the disk
PAGE = 4096  # bytes; every file takes a multiple of them


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writers", nargs="+", choices=WRITERS, metavar="NAME")
    names = parser.parse_args().writers or list(WRITERS)
    prepare()
    failures = 0
    print(f"{'writer':20} {'bytes':>10}  {'stopped':>7}  failures", flush=True)
    with tempfile.TemporaryDirectory(prefix="disk_full_") as folder:
        workspace = Workspace(Path(folder))
        with small_disk(Path(folder, "disk")) as disk:
            for name in names:
                failures += try_writer(name, WRITERS[name], workspace, disk)
    return int(failures > 0)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of SIZE bytes that is gone afterwards."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode:
        sys.exit(f"cannot mount a disk: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def try_writer(name: str, writer: Writer, workspace: Workspace, disk: Path) -> int:
    """Run a command with and without room, print its row and return the number of failures."""
    folder, log = disk / "work", workspace.folder / "writer.log"
    start(writer, workspace, folder)
    before = sizes(folder)
    command = workspace.fill(writer.command, folder)
    must(command, log)
    complete = sizes(folder)
    needed = sum(pages(size) for path, size in complete.items() if before.get(path) != size)
    needed = needed or max(map(pages, complete.values()))  # a file replaced by one of its size
    problems, stopped = [], 0
    for share in writer.shares:
        start(writer, workspace, folder)
        fill(disk, int(share * needed))
        result = run(command, log)
        stopped += result.status != 0
        (disk / "filler").unlink()
        faults = wrong(result, writer, Sizes(before, complete, sizes(folder)))
        problems += [f"    with {share:.0%} of the room: {text}" for text in faults]
        if result.status == 0:
            continue
        if writer.mend is not None:
            must(workspace.fill(writer.mend, folder), log)
        again = run(command, log)
        if again.status != 0:
            problems.append(f"    does not go on when there is room: {last_line(again)}")
    print(f"{name:20} {needed:10,}  {stopped} of {len(writer.shares)}  {len(problems)}", flush=True)
    for line in problems:
        print(line, flush=True)
    return len(problems)


def start(writer: Writer, workspace: Workspace, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if writer.before is not None:
        writer.before(workspace, folder)


def fill(disk: Path, room: int) -> None:
    """Leave `room` bytes of the disk free."""
    used = shutil.disk_usage(disk).used
    (disk / "filler").write_bytes(bytes(SIZE - used - room // PAGE * PAGE))


def pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def sizes(folder: Path) -> dict[str, int]:
    """The size of every file, by its path in the folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}


class Sizes(NamedTuple):
    """The size of every file by its path: before a command, of its whole work, and after it."""

    before: dict[str, int]
    complete: dict[str, int]
    after: dict[str, int]


def wrong(result: Result, writer: Writer, sizes: Sizes) -> list[str]:
    """What is not as it should be after a command that found no room."""
    if result.status == 0:
        whole = sizes.after.keys() == sizes.complete.keys()
        return [] if whole else ["status 0, but files are missing"]
    if not writer.ours:
        return []
    return [*wrong_end(result), *wrong_files(sizes, writer.unfinished)]


def wrong_end(result: Result) -> list[str]:
    if "Traceback" in result.output:
        return [f"a traceback: {last_line(result)}"]
    if "error: " not in last_line(result):
        return [f"no error in the last line: {last_line(result)}"]
    return []


def wrong_files(sizes: Sizes, unfinished: tuple[str, ...]) -> list[str]:
    """Files that are gone, or neither as they were nor whole."""
    before, complete, after = sizes
    return [
        *(
            f"{path} has {size:,} of {complete.get(path, 0):,} bytes"
            for path, size in after.items()
            if size not in (before.get(path), complete.get(path))
            and Path(path).name not in unfinished
        ),
        *(f"{path} is gone" for path in before if path not in after),
    ]


def last_line(result: Result) -> str:
    return (result.output.strip().splitlines() or [""])[-1]


if __name__ == "__main__":
    sys.exit(main())
