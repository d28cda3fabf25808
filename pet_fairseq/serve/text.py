"""Raw text as the model's dictionaries know it: fairseq-interactive's --tokenizer and --bpe."""

import argparse
import math

from fairseq.data import encoders
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.registry import REGISTRIES

from pet_fairseq.serve.request import RequestError
from pet_fairseq.serve.word_cache import bound_cache

STEPS = ("tokenizer", "bpe")


class Text:
    """A tokenizer and a BPE of fairseq, each of which may be None.

    Args:
        max_chars: characters of a text. max_word_chars: between two blanks of it; the time that
            some BPEs take grows with the square of this.
    """

    def __init__(
        self,
        tokenizer=None,
        bpe=None,
        max_chars: float = math.inf,
        max_word_chars: float = math.inf,
    ):
        self.steps = [step for step in (tokenizer, bpe) if step is not None]
        self.max_chars = max_chars
        self.max_word_chars = max_word_chars
        for step in self.steps:
            bound_cache(step)

    def check(self, text: str) -> None:
        """Raises RequestError if the text or a word in it is too long."""
        if len(text) > self.max_chars:
            raise RequestError(
                413, f"text: {len(text)} characters, at most {self.max_chars} are taken"
            )
        longest = max(map(len, text.split(" ")))  # subword_nmt knows no other blanks
        if longest > self.max_word_chars:
            raise RequestError(
                413,
                f"text: a word of {longest} characters, at most {self.max_word_chars} are taken "
                "without a blank",
            )

    def encode(self, text: str) -> str:
        """Words of the source dictionary, separated by blanks.

        Raises:
            RequestError: the text or a word in it is too long.
        """
        self.check(text)
        for step in self.steps:
            text = step.encode(text)
        return text

    def decode(self, text: str) -> str:
        """The text behind words of the target dictionary."""
        for step in reversed(self.steps):
            text = step.decode(text)
        return text


def parse_text_options(words: list[str], **defaults) -> argparse.Namespace:
    """The options that fairseq has for the chosen tokenizer and BPE.

    Args:
        words: from the command line. defaults: that depend on the task, such as its languages.
    Raises:
        SystemExit: an unknown or missing option, after telling so.
    """
    parser = argparse.ArgumentParser(
        prog="pet-fairseq serve", usage="see --help", add_help=False, allow_abbrev=False
    )
    for step in STEPS:
        parser.add_argument(f"--{step}", choices=list(REGISTRIES[step]["registry"]))
    chosen, _ = parser.parse_known_args(words)
    for step in STEPS:
        dataclass = REGISTRIES[step]["dataclass_registry"].get(getattr(chosen, step))
        if dataclass is not None:
            gen_parser_from_dataclass(parser, dataclass())
    parser.set_defaults(**{k: v for k, v in defaults.items() if v is not None})
    args = parser.parse_args(words)
    for name, value in vars(args).items():
        if value == "???":  # how fairseq's dataclasses say that there is no default
            parser.error(f"--{name.replace('_', '-')} is missing")
    return args


def build_text(args: argparse.Namespace, **limits) -> Text:
    """Build the tokenizer and the BPE that were chosen.

    Args:
        args: of parse_text_options. limits: as for Text.
    Raises:
        OSError: code files that are not there.
    """
    return Text(encoders.build_tokenizer(args), encoders.build_bpe(args), **limits)
