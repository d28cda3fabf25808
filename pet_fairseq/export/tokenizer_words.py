"""The words of a tokenizer.json.

A tokenizer.json has one vocabulary, from which text gets its numbers and to which translations are
turned back; a translation model has two dictionaries, and its subword model may have pieces that
neither of them has. So the words of the target come first, then those of the source unless both
have the same, then the other pieces, which the model does not know.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from pet_fairseq.huggingface.tokenizer_file import MARK

UNMARK = {"type": "Replace", "pattern": {"String": MARK}, "content": ""}  # in a translation


class NoTokenizerError(Exception):
    """tokenizer.json cannot segment text as the model's subword model does; says why."""


@dataclass(frozen=True)
class Words:
    """The words of a tokenizer.json in the order of their numbers.

    Args:
        sources, targets: the dictionaries. texts: the words of the source that a text may become.
        others: pieces that the model does not know.
    """

    sources: Sequence[str]
    targets: Sequence[str]
    texts: frozenset[str]
    others: Sequence[str]

    @property
    def first(self) -> int:
        """The number of the first word of the source."""
        return 0 if self.sources == self.targets else len(self.targets)

    @cached_property
    def all(self) -> list[str]:
        targets = [MARK + word for word in self.targets[: self.first]]
        sources = [word if word in self.texts else MARK + word for word in self.sources]
        return [*targets, *sources, *self.others]

    def source(self, number: int) -> str:
        """The name of a word of the source."""
        return self.all[self.first + number]


class Segmentation(NamedTuple):
    """How text becomes words.

    Attributes:
        whole: words that are never split, as tokenizer.json lists them, without their numbers.
        parts: of tokenizer.json, by name.
    """

    words: Words
    whole: list[dict[str, Any]]
    parts: dict[str, Any]


def whole_token(word: str) -> dict[str, Any]:
    """A word that is never split, as tokenizer.json lists it, but for its number and `special`."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"content": word, **flags}
