"""A translator's pieces, the tokenizer, and the languages that are among them."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import sentencepiece

from pet_fairseq.errors import UserError, option_of, user_message
from pet_fairseq.huggingface.source import Config, Source
from pet_fairseq.huggingface.tokenizer_file import (
    ADDED,
    BYTE_PIECES,
    OPTIONS,
    TEXT_OPTIONS,
    TOKENIZER,
    content,
    pieces_in_order,
    read_json,
    read_options,
)
from pet_fairseq.huggingface.vocabulary import FIRST
from pet_fairseq.multilingual.language_tokens import check_language

SENTENCE_PIECES = "sentencepiece.bpe.model"  # of models with fairseq's order of words
FIRST_OF_SENTENCEPIECE = 3  # its <unk>, <s> and </s>, in place of which fairseq has its own four
SPECIAL = "special_tokens_map.json"
MASK = "<mask>"
# of M2M-100's two vocabularies, in their order; its tokenizer's files need not list them
CODES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl "
        "gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
        "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl "
        "tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}


@dataclass(frozen=True)
class TextPieces:
    """The pieces of a tokenizer.

    Args:
        numbers: of all pieces. path: the tokenizer's file, for errors.
        write: writes the tokenizer into a folder.
        options: of fairseq, that turn text into pieces; `{}` is that folder.
        languages: the language token of each language.
    """

    numbers: Mapping[str, int]
    path: Path
    write: Callable[[Path], object]
    options: list[str]
    languages: dict[str, str] = field(default_factory=dict)

    def in_order(self) -> list[Optional[str]]:
        """As `pieces_in_order`."""
        return pieces_in_order(self.numbers, self.path)


def read_text_pieces(source: Source) -> TextPieces:
    """Read a tokenizer: sentencepiece.bpe.model, if there is no tokenizer.json; else as others.

    Raises:
        UserError: no file, or one that is not readable.
    """
    model = source.folder / SENTENCE_PIECES
    if model.is_file() and not (source.folder / TOKENIZER).is_file():
        return read_sentence_pieces(source.folder)
    file = source.tokenizer
    special = [t.content for t in file.tokenizer.get_added_tokens_decoder().values() if t.special]
    numbers = file.tokenizer.get_vocab()
    return TextPieces(
        numbers,
        file.path,
        file.write,
        TEXT_OPTIONS,
        find_languages(dict.fromkeys([*special, *listed_pieces(source.folder)]), numbers),
    )


def read_sentence_pieces(folder: Path) -> TextPieces:
    """Read a SentencePiece model, and the vocab.json beside it, which M2M-100 has.

    Raises:
        UserError: a file is not readable.
    """
    model = folder / SENTENCE_PIECES
    listed = listed_pieces(folder)
    if (folder / BYTE_PIECES).is_file():
        numbers = read_json(folder / BYTE_PIECES)
        listed = dict.fromkeys(m2m_tokens(folder)) | listed
        last = []
    else:
        numbers = {piece: i for i, piece in enumerate((*FIRST, *model_pieces(model)))}
        last = [MASK]
    for piece in (*listed, *last):
        numbers.setdefault(piece, len(numbers))
    numbers |= {piece: number for piece, number in listed.items() if number is not None}
    numbers |= read_options(folder / ADDED)
    return TextPieces(
        numbers,
        model,
        lambda to: shutil.copyfile(model, to / SENTENCE_PIECES),
        ["--bpe", "sentencepiece", "--sentencepiece-model", f"{{}}/{SENTENCE_PIECES}"],
        find_languages(listed, numbers),
    )


def m2m_tokens(folder: Path) -> list[str]:
    """M2M-100's language tokens. Raises UserError if the options name an unknown set of them."""
    path = folder / OPTIONS
    options = Config({"language_codes": "m2m100"} | read_options(path), path)
    return [f"__{code}__" for code in options.choose("language_codes", CODES).split()]


def model_pieces(path: Path) -> list[str]:
    """The pieces of a SentencePiece model without its first three. Raises UserError."""
    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise UserError(user_message(error) or f"{path}: not readable ({error})") from error
    return [model.id_to_piece(i) for i in range(FIRST_OF_SENTENCEPIECE, len(model))]


def listed_pieces(folder: Path) -> dict[str, Optional[int]]:
    """The pieces that the tokenizer's options add, in their order, with their numbers, if given."""
    listed: dict[str, Optional[int]] = {}
    options = read_options(folder / OPTIONS)
    for given in (options, read_options(folder / SPECIAL)):
        for name in ("additional_special_tokens", "extra_special_tokens"):
            pieces = given.get(name) or []
            pieces = pieces.values() if isinstance(pieces, dict) else pieces
            listed |= {piece: None for piece in map(content, pieces) if piece is not None}
    for number, token in (options.get("added_tokens_decoder") or {}).items():
        if token.get("special"):
            listed[token["content"]] = int(number)
    return listed


def find_languages(special: Mapping[str, object], numbers: Mapping[str, int]) -> dict[str, str]:
    """Language tokens by their language: `eng_Latn`, `en_XX`, or `__en__` for en."""
    tokens = [piece for piece in special if piece in numbers and piece[0] != "<"]
    return {token.strip("_"): token for token in tokens}


def choose_pair(source: Source, text: TextPieces) -> tuple[str, str]:
    """The languages that the user chose.

    Raises:
        UserError: one is missing or not known to the model, or the tokenizer has no languages.
    """
    if not text.languages:
        raise UserError(
            f"{text.path.parent}: the tokenizer's files list no language tokens; download {SPECIAL}"
        )
    for name in ("source_lang", "target_lang"):
        if name not in source.languages:
            known = ", ".join(text.languages)
            raise UserError(f"{option_of(name)}: missing; the languages of {text.path} are {known}")
        check_language(option_of(name), source.languages[name], text.languages, text.path)
    return source.languages["source_lang"], source.languages["target_lang"]
