"""The options of commands that answer texts with a model."""

import argparse
import math
from collections.abc import Sequence
from typing import NamedTuple

from pet_fairseq.cli_command import OneLineParser, add_device_option

MODEL = (
    "a checkpoint, a folder of pet-fairseq import-hf or export --to fairseq, or plugin files "
    "A.pt:B.pt for one backbone"
)


class Search(NamedTuple):
    """How translations are found: by beam search, or drawn word by word.

    Attributes:
        beam, lenpen: as for fairseq-generate. nbest: how many translations a source has.
        sampling: whether they are drawn. sampling_topk: from how many words; 0: from all.
    """

    beam: int = 5
    lenpen: float = 1.0
    nbest: int = 1
    sampling: bool = False
    sampling_topk: int = 0

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Search":
        """What a command line says; options that the command lacks have their defaults."""
        return cls(**{name: value for name, value in vars(args).items() if name in cls._fields})

    @property
    def width(self) -> int:
        """How many translations of a source are followed at once."""
        return self.nbest if self.sampling else self.beam


BEAM_SEARCH = Search()


def add_model_options(group: argparse._ActionsContainer) -> None:
    """Declare the options about the model, except its path and ratio: commands name these apart."""
    group.add_argument(
        "--data",
        metavar="BIN",
        help="the folder with the dictionaries (default: the one that the checkpoint names)",
    )
    group.add_argument(
        "--backbone-path",
        metavar="FILE",
        help="the checkpoint of the frozen model, if it is no longer where it was",
    )
    group.add_argument(
        "--beam", type=positive, default=5, metavar="N", help="the beam size (default: %(default)s)"
    )
    group.add_argument(
        "--lenpen",
        type=finite,
        default=1.0,
        metavar="X",
        help="the length penalty (default: %(default)s)",
    )
    add_device_option(group)
    group.add_argument(
        "--precision",
        default="auto",
        choices=("auto", "fp32", "bf16", "fp16", "int8"),
        help="in what the model computes: auto is what its file has; bf16 is faster on a CPU that "
        "has instructions for it; fp16 needs a GPU; int8 is for CPUs, and rounds the linear maps "
        "of a model that classifies, or CTranslate2's weights (default: %(default)s)",
    )


def rename_precisions(parser: OneLineParser) -> None:
    """Let the flags that --precision replaced go on working."""
    for name in ("fp16", "bf16", "int8"):
        parser.rename(f"--{name}", f"--precision {name}")


def add_long_texts_option(
    group: argparse._ActionsContainer, choices: Sequence[str], what: str
) -> None:
    """Declare what is done with long texts; what: says it, for the help."""
    group.add_argument(
        "--long-texts",
        choices=choices,
        default="cut",
        help="what to do with texts of more tokens than the model has positions: "
        f"{what} (default: %(default)s)",
    )


def finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{word}: give a number that is finite")
    return number


def positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{word}: give 1 or more")
    return number
