"""What a multilingual model reads around a sentence: language tokens, as its training put them."""

import json
from argparse import Namespace
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Optional, Union

import torch
from fairseq.data import Dictionary
from torch import Tensor

from pet_fairseq.errors import UserError, option_of
from pet_fairseq.files import read_text, write_json

END = "</s>"
FILE = "language_tokens.json"  # in a folder of pet-fairseq export --to ctranslate2


@dataclass(frozen=True)
class LanguageTokens:
    """The words around a sentence; the sentence itself has none of them.

    Attributes:
        source_prefix: in front of the source sentence.
        source_end: behind it, in place of `</s>`.
        decoder_start: what the decoder reads first, in place of `</s>`.
    """

    source_prefix: tuple[str, ...] = ()
    source_end: tuple[str, ...] = (END,)
    decoder_start: tuple[str, ...] = (END,)

    @property
    def around(self) -> int:
        """How many words stand around a source sentence, its end among them."""
        return len(self.source_prefix) + len(self.source_end)

    @classmethod
    def of_options(cls, args: Any) -> "LanguageTokens":
        """Those in a model's options, as `add_language_options` declares them."""
        given = {field.name: getattr(args, field.name, None) for field in fields(cls)}
        return cls(**{name: split(words) for name, words in given.items() if words is not None})

    @classmethod
    def of_folder(cls, folder: Path) -> Optional["LanguageTokens"]:
        """Those of a model that was exported with them, None if it has none.

        Raises:
            UserError: their file cannot be read.
        """
        file = folder / FILE
        if not file.is_file():
            return None
        try:
            return cls.of_options(Namespace(**json.loads(read_text(file, "CHECKPOINT"))))
        except (ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{file}: cannot be read; export the model again") from error

    def write(self, folder: Path) -> None:
        """Write the file that `of_folder` reads."""
        write_json(folder / FILE, self.options())

    def options(self) -> dict[str, str]:
        """The options of a model that reads them."""
        return {field.name: " ".join(getattr(self, field.name)) for field in fields(self)}

    def command_words(self) -> list[str]:
        """These options as words of a command, without those that have their default."""
        given = {n: w for n, w in vars(self).items() if w != getattr(LanguageTokens(), n)}
        return [word for name, words in given.items() for word in (option_of(name), *words)]


def split(words: Union[str, Sequence[str]]) -> tuple[str, ...]:
    """The words in one text or in several."""
    return tuple(" ".join([words] if isinstance(words, str) else words).split())


def add_language_options(parser) -> None:
    """Declare the options that `LanguageTokens.of_options` reads."""
    default = LanguageTokens()
    about = {
        "source_prefix": "words in front of every source sentence, such as __de__",
        "source_end": "words behind every source sentence, in place of </s>",
        "decoder_start": "words that the decoder starts from, such as </s> __en__",
    }
    for name, text in about.items():
        words = " ".join(getattr(default, name))
        text = f"{text} (default: {words or 'none'})"
        parser.add_argument(option_of(name), nargs="+", metavar="WORD", help=text)


def find_words(words: Sequence[str], dictionary: Dictionary, option: str) -> Tensor:
    """The words' indices, long.

    Raises:
        UserError: the dictionary lacks one.
    """
    unknown = next((word for word in words if word not in dictionary), None)
    if unknown is not None:
        raise UserError(
            f"{option} {unknown}: no word of the dictionary; give a data folder with the "
            "multilingual model's own dictionary"
        )
    return torch.tensor([dictionary.index(word) for word in words], dtype=torch.long)


def wrap_source(tokens: Tensor, prefix: Tensor, end: Tensor, padding_idx: int) -> Tensor:
    """Source sentences with other words in front and, in place of their last one, behind.

    Args:
        tokens: B x T, padded on either side; every row ends in `</s>`. prefix, end: indices.
    Returns:
        B x (len(prefix) + T - 1 + len(end)); each row is padded on the side on which it was
    """
    real = tokens.ne(padding_idx)
    is_last = real & real.flip(1).cumsum(1).flip(1).eq(1)
    rows = len(tokens)
    within = tokens.masked_fill(is_last, padding_idx)
    joined = torch.cat([prefix.expand(rows, -1), within, end.expand(rows, -1)], dim=1)
    starts_at_edge = real[:, :1]
    in_order = (joined.ne(padding_idx) ^ starts_at_edge).byte().argsort(dim=1, stable=True)
    # every row has a hole where its last word stood
    in_order = torch.where(starts_at_edge, in_order[:, :-1], in_order[:, 1:])
    return joined.gather(1, in_order)


def replace_first_token(prev_output_tokens: Tensor, start: Tensor) -> Tensor:
    """The decoder's input, B x T, with other words in place of the first one of each row."""
    first = start.expand(len(prev_output_tokens), -1)
    return torch.cat([first, prev_output_tokens[:, 1:]], dim=1)


def check_language(option: str, language: str, known: Collection[str], path: object) -> None:
    """Raise UserError for a language that a model does not know; the message lists the known."""
    if language not in known:
        raise UserError(
            f"{option} {language}: {path} does not know it; its languages are {', '.join(known)}"
        )


def trained_tokens(task: Namespace, source_lang: str, target_lang: str) -> LanguageTokens:
    """What a model read around sentences of a pair when one of fairseq's tasks trained it.

    Args:
        task: the options of `translation_multi_simple_epoch` or
            `translation_from_pretrained_bart`.
    """
    if task._name == "translation_from_pretrained_bart":
        source, target = f"[{source_lang}]", f"[{target_lang}]"
        return LanguageTokens(source_end=(END, source), decoder_start=(target,))
    style = "[{}]" if getattr(task, "lang_tok_style", None) == "mbart" else "__{}__"
    in_source = {"src": (style.format(source_lang),), "tgt": (style.format(target_lang),)}
    source_words = in_source.get(task.encoder_langtok, ())
    target_words = (style.format(target_lang),) if task.decoder_langtok else ()
    if getattr(task, "lang_tok_replacing_bos_eos", False):
        return LanguageTokens((), source_words or (END,), target_words or (END,))
    return LanguageTokens(source_words, (END,), (END, *target_words))
