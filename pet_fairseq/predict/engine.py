"""What translates: the interface of all engines, and fairseq's models in that form."""

import sys
from typing import Optional, Protocol

import torch

from pet_fairseq.predict.batches import BatchLimit
from pet_fairseq.predict.text import Text, languages_of
from pet_fairseq.predict.translator import Translator


class Engine(Protocol):
    """What translates: fairseq's models, or those of CTranslate2, ONNX Runtime or Bergamot.

    Attributes:
        room: the most pieces of a source, without its end.
        longest: the most pieces of a translation, without its end.
        languages: as `text.languages_of`; may be empty.
        text: what divides text into pieces.
    """

    room: int
    longest: int
    languages: dict[str, str]
    text: Text

    def tokenise(self, text: str) -> list[str]:
        """The pieces of a text: words of the source dictionary, or unknown ones."""

    def translate(self, sources: list[list[str]], limit: BatchLimit) -> list[list[str]]:
        """The translations of each source, the best first, each a line of pieces."""

    def detokenise(self, pieces: str) -> str:
        """The text of a translation."""

    def seed(self, number: int) -> None:
        """Let translations that are drawn depend on this number and what is drawn after it."""


class FairseqTranslator:
    """A translator of fairseq as an `Engine`.

    Args:
        ratio: of a model with plugins; None: its own.
    """

    def __init__(self, translator: Translator, ratio: Optional[int]):
        self.translator = translator
        self.text = translator.text
        self.ratio = ratio
        self.room = int(min(translator.max_tokens, sys.maxsize)) - 1
        self.longest = translator.longest
        self.languages = languages_of(translator.task)

    def tokenise(self, text: str) -> list[str]:
        return self.text.encode(text).split()

    def translate(self, sources: list[list[str]], limit: BatchLimit) -> list[list[str]]:
        translations: list[list[str]] = [[]] * len(sources)
        for batch in limit.batches([len(source) + 1 for source in sources]):
            words = (self.translator.numbers(" ".join(sources[i])) for i in batch)
            texts = [self.translator.join([some]) for some in words]
            for i, found in zip(batch, self.translator.find_pieces(texts, self.ratio)):
                translations[i] = found
        return translations

    def detokenise(self, pieces: str) -> str:
        return self.text.decode(pieces)

    def seed(self, number: int) -> None:
        torch.manual_seed(number)
