"""The lines of texts, for the scripts beside this one: a broken byte is named by file and line."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


class BadInputError(Exception):
    """A file that cannot be used; the message names it."""


def run(main: Callable[[], None]) -> None:
    """Run a script, which a bad input ends in one line."""
    try:
        main()
    except BadInputError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")


def lines(path: Path) -> Iterator[str]:
    """The lines of a file without their ends; raises BadInputError as `decoded`."""
    with path.open("rb") as file:
        yield from decoded(file, str(path))


def decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines of a file that is open without their ends; `name` is that in errors.

    Only a line feed ends a line, as in fairseq and for the shell.

    Raises:
        BadInputError: it is not UTF-8.
    """
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            raise BadInputError(
                f"{name}, line {number}: not UTF-8 at byte {error.start}; convert it"
            ) from error
