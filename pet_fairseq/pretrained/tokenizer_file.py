"""A tokenizer of the library `tokenizers`, from tokenizer.json or from older files."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from pet_fairseq.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER, OPTIONS = "tokenizer.json", "tokenizer_config.json"
WORDPIECES = "vocab.txt"  # BERT's
BYTE_PIECES, MERGES = "vocab.json", "merges.txt"  # GPT-2's
EXTRA = "pip install 'pet-fairseq[hf]'"


@dataclass
class TokenizerFile:
    """A tokenizer. path: the file that it came from; options: those of tokenizer_config.json."""

    tokenizer: "Tokenizer"
    path: Path
    options: dict

    def pieces(self) -> list[Optional[str]]:
        """The pieces in the order of their numbers, None for a number that none has.

        Raises:
            UserError: there are many such numbers.
        """
        vocabulary = self.tokenizer.get_vocab()
        last = max(vocabulary.values(), default=-1)
        if last >= 2 * len(vocabulary) + 1000:
            raise UserError(f"{self.path}: its numbers have gaps; download it again")
        pieces: list[Optional[str]] = [None] * (last + 1)
        for piece, number in vocabulary.items():
            pieces[number] = piece
        return pieces

    def number(self, piece: Optional[str]) -> Optional[int]:
        """The number of a piece, None if there is no such piece."""
        return None if piece is None else self.tokenizer.token_to_id(piece)

    def write(self, folder: Path) -> None:
        """Put it into a folder as tokenizer.json."""
        if self.path.name == TOKENIZER:
            shutil.copyfile(self.path, folder / TOKENIZER)
        else:
            self.tokenizer.save(str(folder / TOKENIZER))


def load_tokenizer(path: Path) -> "Tokenizer":
    """Open a tokenizer.json.

    Raises:
        UserError: there is no such file, or the package tokenizers is missing.
    """
    library()
    if not path.is_file():
        raise UserError(f"{path}: no such file; give the {TOKENIZER} of the model")
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # it has no class of its own
        raise UserError(f"{path}: not readable ({error}); download it again") from error


def library():
    """The package tokenizers. Raises UserError if it is missing."""
    try:
        import tokenizers
    except ImportError as error:
        raise UserError(f"{TOKENIZER}: needs the package tokenizers; run {EXTRA}") from error
    return tokenizers


def read_tokenizer(folder: Path) -> TokenizerFile:
    """The tokenizer of a folder: tokenizer.json, or made from vocab.txt or vocab.json, merges.txt.

    Raises:
        UserError: none of these is there, or it is not readable.
    """
    options = read_options(folder / OPTIONS)
    if (folder / TOKENIZER).is_file():
        return TokenizerFile(load_tokenizer(folder / TOKENIZER), folder / TOKENIZER, options)
    implementations = library().implementations
    try:
        if (folder / WORDPIECES).is_file():
            path = folder / WORDPIECES
            lower_case = options.get("do_lower_case", True)
            made = implementations.BertWordPieceTokenizer(str(path), lowercase=lower_case)
            return TokenizerFile(made._tokenizer, path, options)
        if (folder / BYTE_PIECES).is_file() and (folder / MERGES).is_file():
            path = folder / BYTE_PIECES
            spaced = options.get("add_prefix_space", False)
            made = implementations.ByteLevelBPETokenizer(
                str(path), str(folder / MERGES), add_prefix_space=spaced
            )
            return TokenizerFile(made._tokenizer, path, options)
    except Exception as error:  # tokenizers has no class of its own
        raise UserError(f"{path}: not readable ({error}); download it again") from error
    raise UserError(
        f"{folder / TOKENIZER}: no such file, nor {WORDPIECES}, nor {BYTE_PIECES} with {MERGES}; "
        "download one of these too"
    )


def read_options(path: Path) -> dict:
    """What tokenizer_config.json says; nothing if there is none.

    Raises:
        UserError: it is not readable.
    """
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: not readable ({error}); download it again") from error
