"""What a command of `pet-fairseq` is, and the options that several commands have.

Each folder's commands.py lists its commands in a tuple COMMANDS. These modules import neither torch
nor fairseq, so that help is printed at once: `Command.run` imports what it needs.
"""

import sys
from argparse import ArgumentParser, Namespace, _ActionsContainer
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import NoReturn, Optional


class Group(Enum):
    """The headings of `pet-fairseq --help`, in its order."""

    MAIN = "A small model from a trained one, and its use"
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
    add_arguments: Optional[Callable[["OneLineParser"], None]]
    run: Callable[[Namespace], Optional[int]]
    description: Optional[str] = None
    usage: Optional[str] = None
    epilog: Optional[str] = None
    needs_models: bool = True
    keeps_rest: bool = False

    def parser(self) -> "OneLineParser":
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
    """A parser that reports a wrong argument in one line instead of printing the usage.

    It knows old spellings of options, see `rename`.
    """

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.old_spellings: dict[str, str] = {}

    def rename(self, old: str, new: str) -> None:
        """Let an old option go on working: a line on stderr says how it is spelt now.

        Args:
            new: an option that takes the old one's value, such as "--precision"; an option with its
                value for what was a flag, such as "--precision fp16"; or the name of a positional
                argument, such as "CHECKPOINT", which must be the first one.
        """
        self.old_spellings[old] = new

    def parse_known_args(self, args=None, namespace=None):
        words = sys.argv[1:] if args is None else args
        return super().parse_known_args(self._respelt(words), namespace)

    def _respelt(self, words: Sequence[str]) -> list[str]:
        """The words of a command line with new spellings in place of the old ones."""
        positional: list[str] = []
        respelt: list[str] = []
        rest = iter(words)
        for word in rest:
            old, _, value = word.partition("=")
            new = self.old_spellings.get(old)
            if new is None:
                respelt.append(word)
                continue
            values = [value] if "=" in word else []
            if new.startswith("--"):
                respelt += [*new.split(), *values]
            else:
                positional = values or list(islice(rest, 1))
            print(f"{self.prog}: {old} is now {new}", file=sys.stderr)
        return positional + respelt

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


def add_device_option(parser: _ActionsContainer, what: str = "the model runs") -> None:
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


def add_comet_option(parser: _ActionsContainer) -> None:
    parser.add_argument(
        "--comet",
        metavar="MODEL",
        help="also score by COMET, times 100: the name of one of its models, such as "
        "Unbabel/wmt22-comet-da, which it downloads, or a folder with one",
    )


def add_batch_option(parser: ArgumentParser, max_tokens: int) -> None:
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=max_tokens,
        metavar="N",
        help="the largest number of tokens in a batch (default: %(default)s)",
    )


def add_checkpoint(parser: OneLineParser, what: str, old: str) -> None:
    """Declare the model of a command, which was once given by the option `old`."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=what)
    parser.rename(old, "CHECKPOINT")


def add_sample_options(parser: OneLineParser, model: str, subset: str, sentences: int) -> None:
    """Declare the options of commands that look at how a model treats some sentences."""
    add_checkpoint(parser, model, old="--checkpoint")
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
