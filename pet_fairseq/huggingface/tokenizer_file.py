"""A tokenizer of the library `tokenizers`, from tokenizer.json or from older files."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from pet_fairseq.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER, OPTIONS = "tokenizer.json", "tokenizer_config.json"
# options of fairseq that turn text into the words of a TOKENIZER in the folder `{}`
TEXT_OPTIONS = ["--bpe", "tokenizer_json", "--tokenizer-file", f"{{}}/{TOKENIZER}"]
WORDPIECES = "vocab.txt"  # BERT's
BYTE_PIECES, MERGES = "vocab.json", "merges.txt"  # GPT-2's
ADDED, CONFIG = "added_tokens.json", "config.json"
# the tokenizer classes that read these files as is done here, and the models that have them
CLASSES = {
    WORDPIECES: ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
    BYTE_PIECES: ("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer"),
}
MODEL_TYPES = {
    WORDPIECES: ("bert", "distilbert", "electra"),
    BYTE_PIECES: ("gpt2", "roberta", "bart"),
}
SPECIAL = ("<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>")  # of the latter
# classes of transformers 4 and 5 that read TOKENIZER and nothing else
JSON_TOKENIZERS = ("PreTrainedTokenizerFast", "TokenizersBackend")
# before a word that no text becomes: no character of any text, and left out of translations
MARK = "\uffff"
EXTRA = "pip install 'pet-fairseq[hf]'"


@dataclass
class TokenizerFile:
    """A tokenizer.

    Attributes:
        path: the file that it came from. options: those in tokenizer_config.json.
    """

    tokenizer: "Tokenizer"
    path: Path
    options: dict

    def pieces(self) -> list[Optional[str]]:
        """As `pieces_in_order`."""
        return pieces_in_order(self.tokenizer.get_vocab(), self.path)

    def number(self, piece: str) -> Optional[int]:
        """The number of a piece, None if there is no such piece."""
        return self.tokenizer.token_to_id(piece)

    def special_number(self, name: str) -> Optional[int]:
        """The number of the piece that the options name, such as `unk_token`; None if none is."""
        piece = content(self.options.get(name))
        return self.number(piece) if piece is not None else None

    def write(self, folder: Path) -> None:
        """Write the tokenizer into a folder, as tokenizer.json."""
        if self.path.name == TOKENIZER:
            shutil.copyfile(self.path, folder / TOKENIZER)
        else:
            self.tokenizer.save(str(folder / TOKENIZER))


def pieces_in_order(numbers: Mapping[str, int], path: Path) -> list[Optional[str]]:
    """The pieces in the order of their numbers; None for a number without a piece.

    Args:
        path: of the tokenizer, for errors.
    Raises:
        UserError: there are too many such numbers.
    """
    last = max(numbers.values(), default=-1)
    if last >= 2 * len(numbers) + 1000:
        raise UserError(f"{path}: its numbers have gaps; download it again")
    pieces: list[Optional[str]] = [None] * (last + 1)
    for piece, number in numbers.items():
        pieces[number] = piece
    return pieces


def content(piece: object) -> Optional[str]:
    """The piece that the options name, as a text or as an AddedToken with options of its own."""
    piece = piece.get("content") if isinstance(piece, dict) else piece
    return piece if isinstance(piece, str) else None


def escape_spaces(piece: str) -> str:
    """A piece as a word without spaces, which separate words in fairseq's text."""
    if not any(map(str.isspace, piece)):
        return piece
    return "".join(f"\\u{ord(char):04x}" if char.isspace() else char for char in piece)


def unescape_spaces(word: str) -> str:
    """The piece of which `escape_spaces` made a word."""
    return re.sub(r"\\u([0-9a-f]{4})", _space, word)


def _space(escaped: re.Match) -> str:
    char = chr(int(escaped[1], 16))
    return char if char.isspace() else escaped[0]


def load_tokenizer(path: Path) -> "Tokenizer":
    """Open a tokenizer.json; or make a tokenizer from vocab.txt, or vocab.json and merges.txt.

    Raises:
        UserError: there is no such file, it is not readable, it is of a class that segments text in
            another way, or the package tokenizers is missing.
    """
    library()
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise UserError(f"{path}: {what}; give the {TOKENIZER} of the model")
    read = {WORDPIECES: _read_wordpieces, BYTE_PIECES: _read_byte_pieces}.get(path.name, _read)
    try:
        return read(path)
    except UserError:
        raise
    except Exception as error:  # tokenizers raises plain Exception
        raise UserError(f"{path}: not readable ({error}); download it again") from error


def load_segmenter(path: Path) -> "Tokenizer":
    """Open a tokenizer as `load_tokenizer` does, without truncation and padding."""
    tokenizer = load_tokenizer(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def segment(tokenizer: "Tokenizer", texts: list[str]) -> list[str]:
    """Tokenize texts: words separated by spaces, without those that begin and end a text."""
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    return [" ".join(map(escape_spaces, pieces.tokens)) for pieces in encoded]


def _read(path: Path) -> "Tokenizer":
    return library().Tokenizer.from_file(str(path))


def _read_wordpieces(path: Path) -> "Tokenizer":
    """Make BERT's tokenizer, which turns text into lower case unless the options forbid it."""
    check_class(path)
    options = read_options(path.with_name(OPTIONS))
    kind = library().implementations.BertWordPieceTokenizer
    tokenizer = kind(
        str(path),
        lowercase=options.get("do_lower_case", True),
        strip_accents=options.get("strip_accents"),
        handle_chinese_chars=options.get("tokenize_chinese_chars", True),
    )._tokenizer
    add_tokens(tokenizer, path, options, {})
    return tokenizer


def _read_byte_pieces(path: Path) -> "Tokenizer":
    """Make GPT-2's tokenizer from vocab.json and the merges.txt beside it."""
    check_class(path)
    options = read_options(path.with_name(OPTIONS))
    kind = library().implementations.ByteLevelBPETokenizer
    spaced, merges = options.get("add_prefix_space", False), str(path.with_name(MERGES))
    tokenizer = kind(str(path), merges, add_prefix_space=spaced)._tokenizer
    numbers = {piece: tokenizer.token_to_id(piece) for piece in SPECIAL}
    add_tokens(tokenizer, path, options, {p: n for p, n in numbers.items() if n is not None})
    return tokenizer


def check_class(path: Path) -> None:
    """Raises UserError if the files beside name a tokenizer that segments text in another way.

    If they name none, it is the one that models of their type have.
    """
    named = {
        name: read_options(path.with_name(name)).get("tokenizer_class")
        for name in (OPTIONS, CONFIG)
    }
    for name, kind in named.items():
        if kind is not None and str(kind).removesuffix("Fast") not in CLASSES[path.name]:
            raise foreign_tokenizer(path, kind, name, CLASSES[path.name])
    model_type = read_options(path.with_name(CONFIG)).get("model_type")
    if not any(named.values()) and model_type not in (None, *MODEL_TYPES[path.name]):
        raise foreign_tokenizer(path, model_type, CONFIG, MODEL_TYPES[path.name])


def foreign_tokenizer(path: Path, kind: str, name: str, known: Sequence[str]) -> UserError:
    """The error for a file of a kind of tokenizer or model that the file `name` gives."""
    return UserError(
        f"{path}: belongs to a {kind}, as {name} says, and is read as that of a "
        f"{' or '.join(known)} only; give the model's {TOKENIZER}"
    )


def add_tokens(tokenizer: "Tokenizer", path: Path, options: dict, special: dict[str, int]) -> None:
    """Make a tokenizer keep pieces whole: special ones, and those that were added later.

    Args:
        path: of its file. options: in tokenizer_config.json; without added_tokens_decoder among
            them, pieces of added_tokens.json beside the file are added.
        special: numbers of pieces in the vocabulary.
    Raises:
        UserError: the numbers of new pieces do not follow those of the others.
    """
    names = {content(value) for key, value in options.items() if key.endswith("_token")}
    names |= {content(value) for value in options.get("additional_special_tokens") or []}
    new = library().AddedToken
    tokens = {
        number: new(piece, special=True, normalized=False, lstrip=piece == "<mask>")
        for piece, number in special.items()
    }
    added = options.get("added_tokens_decoder")
    for number, token in (added or {}).items():
        tokens[int(number)] = new(**token)
    for piece, number in (read_options(path.with_name(ADDED)) if added is None else {}).items():
        tokens[number] = new(piece, special=piece in names, normalized=piece not in names)
    for number, token in sorted(tokens.items()):
        tokenizer.add_tokens([token])
        if tokenizer.token_to_id(token.content) != number:
            raise UserError(
                f"{path}: the piece {token.content} that {ADDED} or {OPTIONS} adds to it is not "
                f"number {number} then; give the model's {TOKENIZER}"
            )


def library():
    """The package tokenizers. Raises UserError if it is missing."""
    try:
        import tokenizers
    except ImportError as error:
        raise UserError(f"{TOKENIZER}: needs the package tokenizers; run {EXTRA}") from error
    return tokenizers


def read_tokenizer(folder: Path) -> TokenizerFile:
    """Read a folder's tokenizer: tokenizer.json, else vocab.txt, else vocab.json and merges.txt.

    Raises:
        UserError: none of these is there, or as `load_tokenizer`.
    """
    options = read_options(folder / OPTIONS)
    for names in ((TOKENIZER,), (WORDPIECES,), (BYTE_PIECES, MERGES)):
        if all((folder / name).is_file() for name in names):
            path = folder / names[0]
            return TokenizerFile(load_tokenizer(path), path, options)
    raise UserError(
        f"{folder / TOKENIZER}: no such file, nor {WORDPIECES}, nor {BYTE_PIECES} with {MERGES}; "
        "download one of these too"
    )


def read_options(path: Path) -> dict:
    """Read the options in tokenizer_config.json; none if there is no such file.

    Raises:
        UserError: it is not readable.
    """
    return read_json(path) if path.is_file() else {}


def read_json(path: Path) -> dict:
    """Read an object from JSON. Raises UserError if there is none."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: not readable ({error}); download it again") from error
