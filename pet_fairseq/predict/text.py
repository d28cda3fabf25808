"""Raw text as the model's dictionaries know it: fairseq-interactive's --tokenizer and --bpe."""

import argparse
import logging
import math
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Optional

from fairseq.data import Dictionary, encoders
from fairseq.data.data_utils import post_process
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.registry import REGISTRIES
from fairseq.tasks import FairseqTask
from omegaconf import OmegaConf

from pet_fairseq.byte_pieces import join_bytes
from pet_fairseq.checkpoints.text_files import (
    SIDES,
    find_segmentation,
    find_subword_model,
    is_byte_level,
)
from pet_fairseq.cli_command import OneLineParser
from pet_fairseq.errors import UserError, option_of, user_message
from pet_fairseq.predict.sentences import TextTooLongError

logger = logging.getLogger(__name__)

STEPS = ("tokenizer", "bpe")
WORDS = 20_000  # that a BPE remembers


class WordCache(OrderedDict):
    """Pieces by word; when it is full, the word that was not used for longest is forgotten.

    Args:
        max_words: how many words are kept.
    """

    def __init__(self, max_words: int):
        super().__init__()
        self.max_words = max_words

    def __getitem__(self, word: str):
        pieces = super().__getitem__(word)
        self.move_to_end(word)
        return pieces

    def __setitem__(self, word: str, pieces) -> None:
        super().__setitem__(word, pieces)
        if len(self) > self.max_words:
            del self[next(iter(self))]  # Python 3.10's popitem asks __getitem__ for it on the way


def bound_cache(step) -> None:
    """Let a tokenizer or BPE of fairseq forget words; subword_nmt and gpt2 keep each in a dict."""
    segmenter = getattr(step, "bpe", None)
    if segmenter is not None and isinstance(getattr(segmenter, "cache", None), dict):
        segmenter.cache = WordCache(WORDS)


class BytesJoined(SentencepieceBPE):
    """fairseq's SentencePiece, which leaves pieces of bytes as they are; here it joins them."""

    def __init__(self, bpe: SentencepieceBPE):
        self.sp, self.enable_sampling, self.alpha = bpe.sp, bpe.enable_sampling, bpe.alpha

    def decode(self, x: str) -> str:
        return super().decode(join_bytes(x))


def join_bytes_of(bpe):
    """A BPE that joins pieces of bytes, too, if it is fairseq's SentencePiece and has them."""
    if type(bpe) is not SentencepieceBPE:  # Marian's does it itself
        return bpe
    has_bytes = any(map(bpe.sp.is_byte, range(bpe.sp.get_piece_size())))
    return BytesJoined(bpe) if has_bytes else bpe


def join_pieces(pieces: str, kind: Optional[str]) -> str:
    """A line of pieces as text where there is no subword model; kind: the value of --remove-bpe."""
    return post_process(join_bytes(pieces) if kind == "sentencepiece" else pieces, kind)


class Text:
    """A tokenizer and a BPE of fairseq, each of which may be None.

    Args:
        max_chars: characters of a text. max_word_chars: between two spaces of it; the time that
            some BPEs take grows with the square of this.
        files: of which the BPE was made.
        no_capitals: whether the model knows no word with one; the first text that has some is
            warned of, since the tokenizers of fairseq leave them in.
    """

    def __init__(
        self,
        tokenizer=None,
        bpe=None,
        max_chars: float = math.inf,
        max_word_chars: float = math.inf,
        files: Sequence[Path] = (),
        no_capitals: bool = False,
    ):
        self.steps = [step for step in (tokenizer, bpe) if step is not None]
        self.max_chars = max_chars
        self.max_word_chars = max_word_chars
        self.files = files
        self.warns_of_capitals = no_capitals
        for step in self.steps:
            bound_cache(step)

    def check(self, text: str) -> None:
        """Raise TextTooLongError if the text or a word in it is too long."""
        if len(text) > self.max_chars:
            raise TextTooLongError(
                f"text: {len(text)} characters, at most {self.max_chars} are taken"
            )
        longest = max(map(len, text.split(" ")))  # subword_nmt knows no other spaces
        if longest > self.max_word_chars:
            raise TextTooLongError(
                f"text: a word of {longest} characters, at most {self.max_word_chars} are taken "
                "without a space",
            )

    def encode(self, text: str) -> str:
        """The text as words of the source dictionary, separated by spaces.

        Raises:
            TextTooLongError: the text or a word in it is too long.
        """
        self.check(text)
        for step in self.steps:
            text = step.encode(text)
        if self.warns_of_capitals and text != text.lower():
            self.warns_of_capitals = False
            logger.warning(
                "the text has capital letters and the model's dictionary has none, so that it "
                "takes such words for unknown ones; give the text in lower case"
            )
        return text

    def decode(self, text: str) -> str:
        """The text that words of the target dictionary stand for."""
        for step in reversed(self.steps):
            text = step.decode(text)
        return text


def parse_text_options(words: list[str], prog: str, **defaults) -> argparse.Namespace:
    """The options that fairseq has for the chosen tokenizer and BPE.

    Args:
        words: from the command line. prog: the command, for errors.
        defaults: that depend on the task, such as its languages.
    Raises:
        SystemExit: an unknown or missing option, after a message.
    """
    parser = OneLineParser(prog=prog, add_help=False, allow_abbrev=False)
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
            parser.error(f"{option_of(name)} is missing")
    return args


def build_text(args: argparse.Namespace, **limits) -> Text:
    """Build the tokenizer and the BPE that a command line chose.

    Args:
        args: of parse_text_options. limits: as for Text.
    Raises:
        UserError: the BPE's file is not there, or is another kind of file.
    """
    others = (*STEPS, *SIDES)
    files = files_among(value for name, value in vars(args).items() if name not in others)
    return Text(encoders.build_tokenizer(args), _build_bpe(args), files=files, **limits)


def build_text_of(tokenizer: Optional[dict], bpe: Optional[dict], **limits) -> Text:
    """Build a tokenizer and a BPE from their options, None for none; otherwise as build_text."""
    return Text(
        encoders.build_tokenizer(tokenizer and OmegaConf.create(tokenizer)),
        _build_bpe(bpe and OmegaConf.create(bpe)),
        files=files_among(value for name, value in (bpe or {}).items() if name != "_name"),
        **limits,
    )


def files_among(values: Iterable[object]) -> list[Path]:
    """The files that options name, and the merges beside a vocabulary."""
    paths = [Path(value) for value in values if isinstance(value, str) and value]
    paths += [path.with_name("merges.txt") for path in paths if path.name == "vocab.json"]
    return [path for path in paths if path.is_file()]


def _build_bpe(options):
    """fairseq's BPE with these options; raises UserError if its file cannot be used."""
    try:
        with redirect_stderr(StringIO()):  # where subword-nmt says why it ends the program
            return join_bytes_of(encoders.build_bpe(options))
    except (UnicodeDecodeError, SystemExit) as error:
        file = getattr(options, "bpe_codes", None) or "the file of --bpe"
        line = f"{file}: holds no BPE codes; give the subword model of the training text"
        raise UserError(line) from error
    except (RuntimeError, OSError) as error:
        known = user_message(error)
        if known is None:
            raise
        raise UserError(known) from error


def bpe_options(file: str) -> dict[str, str]:
    """fairseq's options for a subword model.

    It is a tokenizer.json, a SentencePiece model (`*.model`; Marian's `*.spm`) or codes of
    subword-nmt.
    """
    if file.endswith(".json"):
        return {"_name": "tokenizer_json", "tokenizer_file": file}
    if file.endswith((".model", ".spm")):
        name = "marian" if file.endswith(".spm") else "sentencepiece"
        return {"_name": name, "sentencepiece_model": file}
    return {"_name": "subword_nmt", "bpe_codes": file, "bpe_separator": "@@"}


def has_no_capitals(words: Dictionary) -> bool:
    """Whether a dictionary has letters in lower case only, as that of fairseq's IWSLT recipe."""
    own = [word for word in words.symbols[words.nspecial :] if not word.startswith("<")]
    return all(word == word.lower() for word in own) and any(word != word.upper() for word in own)


def has_pieces(words: Dictionary) -> bool:
    """Whether a dictionary holds pieces of words; WordPiece marks its own by ##."""
    wordpiece = re.compile(r"##\w+")
    marked = find_segmentation(words) is not None or is_byte_level(words)
    return marked or any(map(wordpiece.fullmatch, words.symbols))


def find_subword_file(words: Dictionary, folders: list[Path], missing: str, remedy: str) -> str:
    """The first file in these folders that the words can come from, "" if there is none.

    Args:
        words: the model's. missing: the option that was not given. remedy: what the user is to do
            if there is no file and the words are pieces.
    Raises:
        UserError: so it is; the model would take nearly every word for an unknown one.
    """
    file = find_subword_model(words, folders)
    if not file and has_pieces(words):
        raise UserError(
            f"{missing}: the model's words are pieces, and there is no bpe.codes or spm.model in "
            f"{', '.join(dict.fromkeys(map(str, folders)))}; {remedy}"
        )
    return file


def languages_of(task: FairseqTask) -> dict[str, str]:
    """The languages of a task, as options of fairseq."""
    return {side: getattr(task.cfg, side) for side in SIDES if hasattr(task.cfg, side)}


def options_of_text(
    languages: dict[str, str], file: str, tokenizer: Optional[str] = None
) -> tuple[Optional[dict], Optional[dict]]:
    """fairseq's options for the tokenizer and the BPE that turn text into tokens and back.

    Args:
        languages: as `languages_of`. file: the subword model, "" for none.
        tokenizer: its name; by default that of Moses with BPE codes, else none.
    Raises:
        UserError: no such tokenizer.
    """
    bpe = bpe_options(file) if file else None
    if tokenizer is None and bpe and bpe["_name"] == "subword_nmt":
        tokenizer = "moses"
    if tokenizer is None:
        return None, bpe
    known = REGISTRIES["tokenizer"]["registry"]
    if tokenizer not in known:
        raise UserError(f"tokenizer {tokenizer!r}: not known; give one of {', '.join(known)}")
    return {"_name": tokenizer, **(languages if tokenizer == "moses" else {})}, bpe
