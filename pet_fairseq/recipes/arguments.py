"""Arguments of the command line that several kinds of recipes take."""

from argparse import ArgumentParser
from collections.abc import Iterable

from pet_fairseq.errors import UserError, did_you_mean


def add_seeds_option(parser: ArgumentParser, what: str) -> None:
    """Declare the seeds; `what`: the models that are trained once for each."""
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        default=[1],
        metavar="N",
        help=f"the random seeds of {what} (default: 1)",
    )


def unknown_row(name: str, known: Iterable[str], choices: str = "") -> UserError:
    """The error for a row that does not exist.

    Args:
        known: the names that it may resemble. choices: in place of them, what the user is offered.
    """
    known = list(known)
    return UserError(
        f"--rows {name}: there is no such row{did_you_mean(name, known)}; give some of "
        f"{choices or ', '.join(known)}"
    )
