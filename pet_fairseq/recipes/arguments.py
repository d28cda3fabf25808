"""Arguments of the command line that several kinds of recipes take."""

import shlex
from argparse import ArgumentParser
from collections.abc import Iterable

from pet_fairseq.errors import UserError, did_you_mean
from pet_fairseq.runner.fairseq_options import Options


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


def read_options(name: str, text: str) -> Options:
    """Options for fairseq-train that the user gave as one word, split as a shell does.

    Raises:
        UserError: a quote that is not closed, or a value before the first option.
    """
    try:
        options = tuple(shlex.split(text))
    except ValueError as error:
        raise UserError(f"{name} {text}: a quote is not closed") from error
    if options and not options[0].startswith("--"):
        raise UserError(f"{name} {text}: give options as for fairseq-train, --NAME VALUE")
    return options
