"""A translation model with some words of its dictionaries: what it says of these stays the same.

Restricted to the words that are kept, its logits are those of the whole model; so its distributions
are the whole model's, renormalised.
"""

from argparse import Namespace
from collections import Counter
from collections.abc import Collection
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor

from pet_fairseq.byte_pieces import SPACE
from pet_fairseq.errors import UserError
from pet_fairseq.multilingual.language_tokens import LanguageTokens
from pet_fairseq.nn.architectures import architecture_name, model_class

# tensors of a Transformer with a row for each word, by the side whose words these are
ROWS = {
    "encoder.embed_tokens.weight": "source",
    "decoder.embed_tokens.weight": "target",
    "decoder.output_projection.weight": "target",
    "decoder.output_projection.bias": "target",
}


def kept_rows(dictionary: Dictionary, words: Collection[str]) -> Tensor:
    """The indices of some words in a dictionary, in its order, after fairseq's special words."""
    first = range(dictionary.nspecial)
    others = range(dictionary.nspecial, len(dictionary))
    return torch.tensor([*first, *(i for i in others if dictionary[i] in words)])


def restricted(dictionary: Dictionary, rows: Tensor) -> Dictionary:
    """The dictionary of some rows of another one, with its counts."""
    made = Dictionary()
    for i in rows.tolist()[made.nspecial :]:
        made.add_symbol(dictionary[i], dictionary.count[i])
    return made


def needed_words(options: Any) -> set[str]:
    """The words that a model needs beside those of its texts: its language tokens."""
    tokens = LanguageTokens.of_options(options)
    return {*tokens.source_prefix, *tokens.source_end, *tokens.decoder_start}


def check_trimmable(options: Namespace, path: str) -> None:
    """Raise UserError for a model whose rows of words are not known here."""
    if not issubclass(model_class(options), TransformerModelBase):
        raise UserError(
            f"--vocabulary trim: TEACHER {path} is a {architecture_name(options)}, whose "
            "dictionary cannot be trimmed; give --vocabulary keep"
        )
    if getattr(options, "adaptive_softmax_cutoff", None):
        raise UserError(
            f"--vocabulary trim: TEACHER {path} has an adaptive softmax, which groups the words of "
            "its dictionary; give --vocabulary keep"
        )


def trimmed_model(model: dict[str, Tensor], source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """The state of a Transformer with some rows of its words.

    Args:
        source, target: the rows that are kept of each side.
    """
    rows = {"source": source, "target": target}
    return {
        name: tensor[rows[ROWS[name]]] if name in ROWS else tensor for name, tensor in model.items()
    }


def choose_words(
    counts: Counter, dictionary: Collection[str], most: Optional[int] = None
) -> set[str]:
    """The words to keep of a dictionary.

    These are the words of a text and the single characters in them, which restricted segmentation
    falls back on; or of them the characters and the most frequent words.

    Args:
        counts: how often each word is in the text. most: how many are kept at most; None: all.
    Raises:
        UserError: `most` has no room for the characters, or there are fewer words.
    """
    used = {word for word in counts if word in dictionary}
    characters = {c for word in used for c in word if c in dictionary} | (used & {SPACE})
    if most is None:
        return used | characters
    check_number(most, len(characters), len(used | characters))
    others = sorted(used - characters, key=lambda word: (-counts[word], word))
    return characters | set(others[: most - len(characters)])


def check_number(most: int, characters: int, pieces: int) -> None:
    """Raise UserError if a vocabulary has no room for the characters, or more than all pieces."""
    if not characters < most <= pieces:
        raise UserError(
            f"--vocabulary {most}: the text has {pieces:,} different pieces, {characters:,} of "
            "them single characters; give a number between these, or trim"
        )
