"""Reading and writing files, such that a file under its final name is always complete."""

import codecs
import csv
import fcntl
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Optional, Union

from pet_fairseq.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HASH_BLOCK = 1 << 20  # bytes
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def temporary_path(path: Path) -> Path:
    """The temporary name beside `path` under which it is written; no user's file is called that."""
    return path.with_name(f".{path.name}.unfinished")


def check_out_file(out: Path, option: str = "--out") -> None:
    """Raise UserError if the file of an option could not be written, before the work for it."""
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"{option} {out}: give the name of a file in a folder that exists")


def atomic_write(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` write a temporary file, which is then renamed to `path`.

    After an error the temporary file is gone, and a file that was at `path` before is unchanged.

    Raises:
        OSError: names `path`, for example because the disk is full.
    """
    temporary = temporary_path(path)
    try:
        with naming(path):
            write(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_file(path: Path, busy: str) -> Iterator[IO[bytes]]:
    """Yield a temporary file to write, which is then renamed to `path`; an error removes it.

    What a process that was killed has left of it is written anew.

    Raises:
        OSError: names `path`.
        UserError: another process is writing it; `busy` is the message.
    """
    temporary = temporary_path(path)
    with naming(path), locked_file(temporary, lambda: busy) as file:
        try:
            yield file
            file.flush()
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill, which is then renamed to `folder`; an error removes it.

    Raises:
        OSError: names `folder` if the error is about something in it.
        UserError: another process is filling it.
    """
    temporary = temporary_path(folder)
    busy = f"{folder}: another command is writing it; wait for it, or give another folder"
    with naming(folder):
        if temporary.exists():
            with folder_lock(temporary, busy):
                shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
        temporary.mkdir()
    try:
        with naming(folder), folder_lock(temporary, busy):
            yield temporary
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def folder_lock(folder: Path, busy: str) -> Iterator[None]:
    """Inside the block no other process has the lock of a folder; it ends with the process.

    Raises:
        UserError: another process has it; `busy` is the message.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not _takes_lock(handle):
            raise UserError(busy)
        yield
    finally:
        os.close(handle)


@contextmanager
def locked_file(path: Path, busy: Callable[[], str]) -> Iterator[IO[bytes]]:
    """Yield an empty file to write, whose lock no other process has; it ends with the process.

    Raises:
        UserError: another process has it; `busy` gives the message.
    """
    with path.open("ab") as file:
        # one that has just ended may have renamed the file
        if not (_takes_lock(file.fileno()) and _is_at(path, file.fileno())):
            raise UserError(busy())
        file.truncate(0)
        yield file


def _is_at(path: Path, handle: int) -> bool:
    return path.exists() and os.path.samestat(path.stat(), os.fstat(handle))


def _takes_lock(handle: int) -> bool:
    """Take the lock of an open file or folder; whether no other process has it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have the system's errors name `path` where they name its temporary form or no file at all."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not _is_about(error.filename, temporary_path(path)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _is_about(filename: Optional[Union[str, bytes, int]], temporary: Path) -> bool:
    return not isinstance(filename, str) or temporary in (Path(filename), *Path(filename).parents)


def check_folder(folder: Path, option: str) -> None:
    """Create the folder if it is missing, and check that a file can be written into it.

    Args:
        option: names the folder in errors.
    Raises:
        UserError: it cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = "is a file" if folder.is_file() else error.strerror
        raise UserError(
            f"{option} {folder}: {reason}; give a folder that can be written"
        ) from error


def check_folder_of(file: Optional[Path], option: str) -> None:
    """Create the folder of a file that is to be written at the end of long work, if there is one.

    Raises:
        UserError: as `check_folder`.
    """
    if file is not None:
        check_folder(file.parent, option)


def check_new_folder(folder: Path, option: str) -> None:
    """Raise UserError if a folder exists already, or cannot be created."""
    if folder.exists():
        raise UserError(f"{option} {folder}: is there already; give a new folder")
    check_folder(folder.parent, option)


def check_utf_16(beginning: bytes, name: str) -> None:
    """Raise UserError for a text with the byte-order mark of UTF-16; `name` names it."""
    if beginning.startswith(UTF_16):
        raise UserError(f"{name}: UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)")


def read_text(path: Path, option: str, newline: Optional[str] = None) -> str:
    """The text of a file, without a byte-order mark; `option` says in errors what the file is.

    Args:
        newline: as for `open`.
    Raises:
        UserError: it is not UTF-8, for example because it was cut inside a character.
    """
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            return file.read()
    except UnicodeDecodeError as error:
        check_utf_16(error.object, f"{option} {path}")
        raise UserError(
            f"{option} {path}: not UTF-8 at byte {error.start}, cut short or in another encoding; "
            "make it again"
        ) from error


def read_lines(path: Path, option: str) -> list[str]:
    """The lines of a file; a line break at its very end starts no further line.

    They end at "\\n" or "\\r\\n"; other line breaks are in them, as `pet-fairseq translate` has it.

    Raises:
        UserError: as `read_text`.
    """
    lines = read_text(path, option, newline="\n").removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def hash_file(path: Union[str, Path], digest: Any) -> Any:
    """Update a hash object with a file's content, a block at a time, and return it.

    Python has hashlib.file_digest for that, but not before 3.11.
    """
    with open(path, "rb") as file:
        while block := file.read(HASH_BLOCK):
            digest.update(block)
    return digest


def write_text(path: Path, text: str) -> None:
    atomic_write(path, lambda file: file.write_text(text, encoding="utf-8"))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))


def write_json(path: Path, content: object) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table; None is an empty cell."""
    sheet = io.StringIO()
    csv.writer(sheet, lineterminator="\n").writerows([header, *rows])
    write_text(path, sheet.getvalue())


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a table, by the names in its first line."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_with_figure(
    folder: Path, stem: str, text: str, content: object, figure: "Figure"
) -> None:
    """Write a report as Markdown, its numbers as JSON and its figure as PNG: STEM.{md,json,png}."""
    write_text(folder / f"{stem}.md", text)
    write_json(folder / f"{stem}.json", content)
    write_figure(folder / f"{stem}.png", figure)


def write_figure(path: Path, figure: "Figure") -> None:
    """Write a matplotlib figure as PNG, with 150 dots per inch."""
    atomic_write(path, lambda file: figure.savefig(file, dpi=150, format="png"))
