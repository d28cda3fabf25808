"""What a command of `pet-fairseq` is, and the options that several commands have.

Each folder's commands.py lists its commands in a tuple COMMANDS. These modules import neither torch
nor fairseq, so that help is printed at once: `Command.run` imports what it needs.
"""

from argparse import ArgumentParser, Namespace, _ActionsContainer
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NoReturn, Optional


class Group(Enum):
    """The headings of `pet-fairseq --help`, in its order."""

    RECIPES = "Recipes"
    PET = "PET"
    VARIATOR = "Variator"
    SELFCP = "SelfCP"
    DEPLOYMENT = "Deployment"
    REPORTS = "Scores and reports"
    CHECKPOINTS = "Checkpoints"
    SETUP = "Setup and data"


@dataclass(frozen=True)
class Command:
    """One command of `pet-fairseq`.

    Args:
        name: one word, or two for one of a family of commands, such as "bank build".
        group: the heading that it stands under in `pet-fairseq --help`; None for what stages of a
            recipe run, which is listed nowhere.
        help: what it does, in one line.
        add_arguments: declares its arguments on an argparse parser; None for a command that reads
            its words itself, --help too: `run` is given all of them as the list `args.rest`.
        run: does it with the parsed arguments. It raises UserError for what the user can mend, and
            may return an exit status other than 0.
        description: what `pet-fairseq NAME --help` says in place of `help`; usage, epilog: as for
            argparse.
        needs_models: whether fairseq and the models of this package must be registered first, which
            takes seconds; commands that read only text set it to False.
        keeps_rest: whether words that the parser does not know are no error but are given to `run`
            as the list `args.rest`.
    """

    name: str
    group: Optional[Group]
    help: str
    add_arguments: Optional[Callable[[ArgumentParser], None]]
    run: Callable[[Namespace], Optional[int]]
    description: Optional[str] = None
    usage: Optional[str] = None
    epilog: Optional[str] = None
    needs_models: bool = True
    keeps_rest: bool = False

    def parser(self) -> ArgumentParser:
        """A parser of the words that follow the command's name."""
        parser = OneLineParser(
            prog=f"pet-fairseq {self.name}",
            description=self.description or f"{self.help[0].upper()}{self.help[1:]}.",
            usage=self.usage,
            epilog=self.epilog,
            allow_abbrev=not self.keeps_rest,
        )
        if self.add_arguments is not None:
            self.add_arguments(parser)
        return parser

    def parse(self, words: list[str]) -> Namespace:
        """The command's arguments; a wrong one ends the program with one line on stderr."""
        if self.add_arguments is None:
            return Namespace(rest=words)
        if not self.keeps_rest:
            return self.parser().parse_args(words)
        args, rest = self.parser().parse_known_args(words)
        args.rest = rest
        return args


class OneLineParser(ArgumentParser):
    """A parser that reports a wrong argument in one line instead of printing the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}; see {self.prog} --help\n")


# --- options that several commands have -----------------------------------------------------------


def add_data_option(parser: ArgumentParser, made_by: str = "fairseq-preprocess") -> None:
    parser.add_argument(
        "--data", required=True, metavar="BIN", help=f"the folder that {made_by} wrote"
    )


def add_subset_option(parser: ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--subset", default=default, help="the part of the data to read (default: %(default)s)"
    )


def add_device_option(parser: _ActionsContainer) -> None:
    parser.add_argument(
        "--device",
        default="cpu",
        choices=("cpu", "cuda"),
        help="where the model runs (default: %(default)s)",
    )


def add_auto_device_option(parser: ArgumentParser, what: str = "the model runs") -> None:
    parser.add_argument(
        "--device",
        default="auto",
        choices=("auto", "cpu", "cuda"),
        help=f"where {what}; auto uses CUDA if torch finds a GPU, else the CPU "
        "(default: %(default)s)",
    )


def add_backbone_run_option(parser: ArgumentParser) -> None:
    """Declare which run of a folder the others are compared with."""
    parser.add_argument(
        "--backbone",
        default="backbone",
        metavar="RUN",
        help="the run that the others started from (default: %(default)s)",
    )


def add_new_folder_option(parser: ArgumentParser, metavar: str = "FOLDER") -> None:
    parser.add_argument(
        "--out", type=Path, required=True, metavar=metavar, help="the new folder to write"
    )


def add_scores_file_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="also write the scores to this file, as JSON"
    )


def add_batch_option(parser: ArgumentParser, max_tokens: int) -> None:
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=max_tokens,
        metavar="N",
        help="the largest number of tokens in a batch (default: %(default)s)",
    )


def add_sample_options(parser: ArgumentParser, model: str, subset: str, sentences: int) -> None:
    """Declare the options of commands that look at how a model treats some sentences."""
    parser.add_argument("--checkpoint", required=True, metavar="FILE", help=model)
    add_data_option(parser)
    add_subset_option(parser, subset)
    parser.add_argument(
        "--sentences",
        type=int,
        default=sentences,
        metavar="N",
        help="read at most this many sentences of the subset (default: %(default)s)",
    )
    add_batch_option(parser, max_tokens=4000)
    add_device_option(parser)
