"""The options of commands that answer texts with a model."""

import argparse
import math
from collections.abc import Sequence

from pet_fairseq.cli_command import add_device_option


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
    precision = group.add_mutually_exclusive_group()
    precision.add_argument(
        "--fp16", action="store_true", help="compute in float16, with --device cuda only"
    )
    precision.add_argument(
        "--bf16",
        action="store_true",
        help="compute in bfloat16; on a CPU this is faster where it has instructions for it",
    )
    precision.add_argument(
        "--int8",
        action="store_true",
        help="compute the linear maps of a model that classifies in 8 bits, with --device cpu only",
    )


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
