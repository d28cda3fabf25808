"""The options of commands that answer texts with a model."""

import argparse
import math
from collections.abc import Sequence
from typing import NamedTuple

from pet_fairseq.cli_command import OneLineParser, add_device_option
from pet_fairseq.errors import UserError, check_positive, option_of

MODEL = (
    "a checkpoint, a folder of pet-fairseq import-hf or export --to fairseq, or plugin files "
    "A.pt:B.pt for one backbone"
)


class Search(NamedTuple):
    """How translations are found: by beam search, or drawn word by word.

    Attributes:
        beam, lenpen: as for fairseq-generate. nbest: how many translations a source has.
        sampling: whether they are drawn. sampling_topk: from how many words; 0: from all.
        sampling_topp: from the fewest words that together have this probability; 0: from all.
        temperature: by which logits are divided before a word is drawn.
    """

    beam: int = 5
    lenpen: float = 1.0
    nbest: int = 1
    sampling: bool = False
    sampling_topk: int = 0
    sampling_topp: float = 0.0
    temperature: float = 1.0

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Search":
        """What a command line says; options that the command lacks have their defaults."""
        return cls(**{name: value for name, value in vars(args).items() if name in cls._fields})

    def within(self, words: int) -> "Search":
        """This search in a model of so many words, which can draw from no more of them."""
        return self._replace(sampling_topk=min(self.sampling_topk, words))

    @property
    def width(self) -> int:
        """How many translations of a source are followed at once."""
        return self.nbest if self.sampling else self.beam

    def check(self) -> None:
        """Raise UserError if the options do not go together."""
        check_positive(beam=self.beam, nbest=self.nbest)
        if not self.sampling:
            if self.nbest > self.beam:
                raise UserError(
                    f"--nbest {self.nbest}: above --beam {self.beam}; give a larger --beam"
                )
            for name in ("sampling_topk", "sampling_topp", "temperature"):
                if getattr(self, name) != self._field_defaults[name]:
                    raise UserError(
                        f"{option_of(name)}: is for --sampling; give that too, or leave it out"
                    )
        if self.sampling_topk < 0:
            raise UserError(f"--sampling-topk {self.sampling_topk}: give 0 for all words, or more")
        if not 0 <= self.sampling_topp < 1:
            raise UserError(
                f"--sampling-topp {self.sampling_topp:g}: give a probability below 1, or 0 for all "
                "words"
            )
        if self.sampling_topk and self.sampling_topp:
            raise UserError(
                "--sampling-topk and --sampling-topp: both say which words are drawn from; give "
                "one of them"
            )
        if self.temperature <= 0:
            raise UserError(f"--temperature {self.temperature:g}: give a number above 0")


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
    add_beam_options(group)
    add_device_option(group)
    group.add_argument(
        "--precision",
        default="auto",
        choices=("auto", "fp32", "bf16", "fp16", "int8"),
        help="in what the model computes: auto is what its file has; bf16 is faster on a CPU that "
        "has instructions for it; fp16 needs a GPU; int8 is for CPUs, and rounds the linear maps "
        "of a model that classifies, or CTranslate2's weights (default: %(default)s)",
    )


def add_beam_options(group: argparse._ActionsContainer) -> None:
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


def add_sampling_options(group: argparse._ActionsContainer) -> None:
    """Declare how many translations a line has, and how they are drawn."""
    group.add_argument(
        "--nbest",
        type=int,
        default=1,
        metavar="N",
        help="pairs for each line: its N best translations (default: %(default)s)",
    )
    group.add_argument(
        "--sampling",
        action="store_true",
        help="draw translations word by word in place of beam search; --beam has no effect then",
    )
    group.add_argument(
        "--sampling-topk",
        type=int,
        default=0,
        metavar="K",
        help="draw from the K likeliest words (default: from all)",
    )
    group.add_argument(
        "--sampling-topp",
        type=finite,
        default=0.0,
        metavar="P",
        help="draw from the likeliest words that together have the probability P (default: from "
        "all)",
    )
    group.add_argument(
        "--temperature",
        type=finite,
        default=1.0,
        metavar="T",
        help="divide the logits by T before a word is drawn: below 1 likely words become likelier "
        "(default: %(default)s)",
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


def refuse_options(args: argparse.Namespace, names: Sequence[str], reason: str) -> None:
    """Raise UserError if one of the options is given."""
    for name in names:
        if getattr(args, name) is not None:
            raise UserError(f"{option_of(name)}: {reason}; leave it out")


def refuse_gpu_and_precision(args: argparse.Namespace, engine: str) -> None:
    """Raise UserError if an engine for CPUs is to run elsewhere, or a model in it otherwise."""
    if args.device == "cuda":
        raise UserError(f"--device cuda: {engine} runs on the CPU here; leave it out")
    if args.precision != "auto":
        raise UserError(
            f"--precision {args.precision}: a model in {engine} has the precision that "
            "pet-fairseq export gave it; leave it out"
        )


def finite(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{word}: give a finite number")
    return number


def positive(word: str) -> int:
    number = int(word) if word.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{word}: give a whole number of 1 or more")
    return number
