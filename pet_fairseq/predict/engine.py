"""What translates: the base of all engines, and the one for fairseq's models."""

import sys
from abc import ABC, abstractmethod
from typing import Optional

import torch

from pet_fairseq.predict.batches import BatchLimit
from pet_fairseq.predict.text import Text, languages_of
from pet_fairseq.predict.translator import Translator


class Engine(ABC):
    """What translates: fairseq's models, or those of CTranslate2, ONNX Runtime or Bergamot.

    Attributes:
        room: the most pieces of a source, without its end.
        longest: the most pieces of a translation, without its end.
        languages: as `text.languages_of`; may be empty.
        text: what divides text into pieces.
    """

    room: int
    longest: int

    def __init__(self, text: Text, languages: dict[str, str]):
        self.text = text
        self.languages = languages

    def tokenise(self, text: str) -> list[str]:
        """The pieces of a text: words of the source dictionary, or unknown ones."""
        return self.text.encode(text).split()

    @abstractmethod
    def translate(self, sources: list[list[str]], limit: BatchLimit) -> list[list[str]]:
        """The translations of each source, the best first, each a line of pieces."""

    def detokenise(self, pieces: str) -> str:
        """The text of a translation."""
        return self.text.decode(pieces)

    def seed(self, number: int) -> None:
        """Let translations that are drawn depend on this number and what is drawn after it."""
        return  # most engines draw nothing


class BatchEngine(Engine):
    """An engine that translates one batch at a time."""

    def translate(self, sources: list[list[str]], limit: BatchLimit) -> list[list[str]]:
        translations: list[list[str]] = [[]] * len(sources)
        for batch in limit.batches([len(source) + 1 for source in sources]):
            for i, found in zip(batch, self.translate_batch([sources[i] for i in batch])):
                translations[i] = found
        return translations

    @abstractmethod
    def translate_batch(self, sources: list[list[str]]) -> list[list[str]]:
        """As `translate`, all sources at once."""


class FairseqEngine(BatchEngine):
    """A translator of fairseq.

    Args:
        ratio: of a model with plugins; None: its own.
    """

    def __init__(self, translator: Translator, ratio: Optional[int]):
        super().__init__(translator.text, languages_of(translator.task))
        self.translator = translator
        self.ratio = ratio
        self.room = int(min(translator.max_tokens, sys.maxsize)) - 1
        self.longest = translator.longest

    def translate_batch(self, sources: list[list[str]]) -> list[list[str]]:
        words = (self.translator.numbers(" ".join(source)) for source in sources)
        texts = [self.translator.join([some]) for some in words]
        return self.translator.find_pieces(texts, self.ratio)

    def seed(self, number: int) -> None:
        torch.manual_seed(number)
