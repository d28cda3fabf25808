"""A tokenizer's pieces as the words of fairseq's dictionary."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.tokenizer_file import escape_spaces
from pet_fairseq.nn.output_bias import ABSENT, REPEATED

FIRST = ("<s>", "<pad>", "</s>", "<unk>")  # of every dictionary of fairseq
END = "</s>"
# an embedding matrix has fewer rows than these, or this share of the pieces, beyond the pieces
ROUNDED_UP, SPARE_SHARE = 512, 0.05
UNNAMED = re.compile(r"madeupword\d{4,}")


@dataclass(frozen=True)
class Vocabulary:
    """fairseq's words for the rows of an embedding matrix.

    Args:
        words: as dict.txt lists them, without fairseq's first four.
        rows: the row in the matrix of each word of the dictionary, -1 if it has none.
        bias: what is added to the logit of each word, so that a word without a row has no
            probability, and one that repeats another's row takes no probability from it.
        size: rows of the matrix, as config.json has it.
    """

    words: tuple[str, ...]
    rows: Tensor
    bias: Tensor
    size: int

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, matrix: Tensor) -> Tensor:
        """The rows of a matrix (rows x C) or vector in the dictionary's order; 0 for missing ones.

        Raises:
            UserError: it has another number of rows.
        """
        if len(matrix) != self.size:
            raise UserError(
                f"config.json: vocab_size is {self.size:,}, but the tensors have {len(matrix):,} "
                "rows; give files that belong together"
            )
        if torch.equal(self.rows, torch.arange(self.size)):
            return matrix  # which may be most of the model: no copy of it
        taken = matrix[self.rows.clamp(min=0)]
        taken[self.rows < 0] = 0
        return taken

    def dictionary(self) -> Dictionary:
        dictionary = Dictionary()
        for word in self.words:
            dictionary.add_symbol(word)
        return dictionary

    def text(self) -> str:
        """The content of dict.txt."""
        return "".join(f"{word} 1\n" for word in self.words)


def check_sizes(pieces: Sequence, rows: int, path: Path) -> None:
    """Raises UserError if a tokenizer does not fit an embedding matrix with `rows` rows."""
    if not len(pieces) <= rows < len(pieces) + max(ROUNDED_UP, SPARE_SHARE * len(pieces)):
        raise UserError(
            f"{path}: has {len(pieces):,} pieces, but the embedding matrix has {rows:,} rows; give "
            "the model's own tokenizer"
        )


def make_vocabulary(
    pieces: Sequence[Optional[str]],
    rows: int,
    special: Mapping[str, Optional[int]],
    path: Path,
    renamed: Optional[Mapping[str, str]] = None,
) -> Vocabulary:
    """The dictionary of a tokenizer.

    Every piece is a word under its own name, so that text can contain it. fairseq's first four
    words stand for the rows that `special` gives them; such a row then belongs to two words. Of
    these, `</s>` keeps the probability, because it ends a text; otherwise the piece keeps it. Those
    without such a row stand for the pieces of the same name. A piece whose name stands for another
    row is a word without a name, as rows without a piece are.

    Args:
        pieces: in the order of their rows, None for a row without a piece.
        rows: of the embedding matrix.
        special: the rows of fairseq's words, None for a word without a row.
        path: of the tokenizer, for errors.
        renamed: pieces that the dictionary has only under another name: at its end or, if that is
            one of fairseq's four, at its beginning.
    Raises:
        UserError: the sizes differ, or two pieces have the same name.
    """
    check_sizes(pieces, rows, path)
    renamed = renamed or {}
    names = [
        escape_spaces(piece) if piece is not None else unnamed(row)
        for row, piece in enumerate(pieces)
    ]
    names += [unnamed(row) for row in range(len(pieces), rows)]
    row_of = {name: row for row, name in enumerate(names)}
    if len(row_of) < len(names):
        raise UserError(f"{path}: two of its pieces have the same name; download it again")
    given = {word: row for word, row in special.items() if row is not None}
    firsts = [given.get(word, row_of.get(word)) for word in FIRST]
    last = [(new, row_of[old]) for old, new in renamed.items() if new not in FIRST]
    for word, row in (*zip(FIRST, firsts), *last):
        if row_of.get(word, row) != row:
            names[row_of[word]] = unnamed(row_of[word])
    others = [row for row, name in enumerate(names) if name not in (*FIRST, *renamed)]
    words = (*(names[row] for row in others), *(new for new, _ in last))
    order = [-1 if row is None else row for row in firsts] + others + [row for _, row in last]
    return Vocabulary(words, torch.tensor(order), torch.tensor(_bias(firsts, order)), rows)


def unnamed(row: int) -> str:
    """The word of a row without a name of its own."""
    return f"madeupword{row:04d}"


def is_unnamed(word: str) -> bool:
    return UNNAMED.fullmatch(word) is not None


def _bias(firsts: Sequence[Optional[int]], order: Sequence[int]) -> list[float]:
    """What is added to each logit.

    Args:
        firsts: the rows of fairseq's first four words, None for none.
        order: the rows of all words, -1 for none.
    """
    end = firsts[FIRST.index(END)]
    bias = [ABSENT if row < 0 else 0.0 for row in order]
    others = set(order[len(FIRST) :])
    for i, row in enumerate(order):
        if row < 0 or i == FIRST.index(END):
            continue
        if row == end or (i < len(FIRST) and (row in others or row in order[:i])):
            bias[i] = REPEATED
    return bias
