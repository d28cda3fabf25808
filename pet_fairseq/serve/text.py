"""Raw text as the model's dictionaries know it: fairseq-interactive's --tokenizer and --bpe."""

import argparse

from fairseq.data import encoders
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.registry import REGISTRIES

STEPS = ("tokenizer", "bpe")


class Text:
    """A tokenizer and a BPE of fairseq, each of which may be None."""

    def __init__(self, tokenizer=None, bpe=None):
        self.steps = [step for step in (tokenizer, bpe) if step is not None]

    def encode(self, text: str) -> str:
        """Words of the source dictionary, separated by blanks."""
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


def build_text(args: argparse.Namespace) -> Text:
    """Raises OSError for code files that are not there."""
    return Text(encoders.build_tokenizer(args), encoders.build_bpe(args))
