"""Models that answer texts: sentences to tokens, tokens to a batch, a batch to answers."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Optional

import torch
from fairseq.utils import resolve_max_positions
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.nn.to_device import move_batch
from pet_fairseq.predict.batches import batches_by_length
from pet_fairseq.predict.sentences import (
    FIELDS,
    EmptyTextError,
    Sentences,
    TextError,
    TextTooLongError,
    read_sentences,
)
from pet_fairseq.predict.text import Text

MAX_TOKENS = 4096  # of a batch, padding included


def has_ratios(kind: type) -> bool:
    """Whether models of a class work at several ratios: they have `compression_ratio`, `ratios`."""
    return hasattr(kind, "compression_ratio")


class Encoded(NamedTuple):
    """A text as the model reads it; tokens: T, truncated: whether words were cut off."""

    tokens: Tensor
    truncated: bool = False

    def mark(self, answer: dict) -> dict:
        """The answer, marked if it is that of a text that was cut."""
        return {**answer, "truncated": True} if self.truncated else answer


class Predictor:
    """A model, its task and its tokenisation.

    `encode` and `answer` may run in two threads at once, but each in one thread only.

    Args:
        max_tokens: the longest text; the model's positions may allow less.
        cut: whether texts with more tokens than the model has positions are cut, as in training,
            instead of refused.
        cut_all: whether they are cut also where training left them out.
    """

    def __init__(
        self,
        model: nn.Module,
        task,
        text: Text,
        max_tokens: float = math.inf,
        cut: bool = True,
        cut_all: bool = False,
    ):
        model.eval()  # returns nothing once fairseq has prepared the model for inference
        self.model = model
        self.task = task
        self.text = text
        positions = resolve_max_positions(task.max_positions(), model.max_positions())
        positions = positions[0] if isinstance(positions, tuple) else positions
        self.max_tokens = min(max_tokens, positions)
        may_cut = self.was_cut_in_training or cut_all
        self.cuts = cut and may_cut and self.max_tokens == positions

    def predict(
        self, texts: list, compression_ratio: Optional[int] = None, max_tokens: int = MAX_TOKENS
    ) -> list[dict]:
        """The answers to texts, in their order.

        Args:
            texts: each a string, or for a pair a tuple of two.
            compression_ratio: of a model with plugins; by default its own.
            max_tokens: of a batch, padding included.
        Raises:
            UserError: a text that cannot be answered, or a ratio that the model lacks.
        """
        if not isinstance(texts, (list, tuple)):
            raise UserError("texts: give a list of texts")
        encoded = [self.encode_named(text, f"texts[{i}]") for i, text in enumerate(texts)]
        return self.answer_all(encoded, compression_ratio, max_tokens)

    @property
    def no_answer(self) -> dict:
        """What stands in the place of an answer to a text that has none."""
        raise NotImplementedError

    def to(self, *args, **options) -> "Predictor":
        """Move the model to a device or a precision, as torch's modules."""
        self.model.to(*args, **options)
        return self

    def to_int8(self) -> None:
        """Compute linear maps in 8 bits from now on.

        Raises:
            UserError: models of this kind cannot; the error says what to do instead.
        """
        raise NotImplementedError

    # --- ratios -----------------------------------------------------------------------------------

    @property
    def ratios(self) -> list[int]:
        """The ratios at which the model can work."""
        return self.model.ratios if has_ratios(type(self.model)) else [1]

    def check_ratio(self, ratio: Optional[int], option: str) -> None:
        """Raise UserError if the model cannot work at this ratio; option: names it in errors."""
        if ratio is not None and ratio not in self.ratios:
            raise UserError(
                f"{option} {ratio}: the model works at {self.ratios}; give one of these"
            )

    def at(self, ratio: Optional[int]) -> AbstractContextManager:
        """Inside the block the model works at this ratio; None: at its own."""
        if ratio is not None and has_ratios(type(self.model)):
            return self.model.compression_ratio(ratio)
        return nullcontext()

    # --- from text to tokens ----------------------------------------------------------------------

    @property
    def dictionary(self):
        return self.task.source_dictionary

    def encode(self, sentences: Sentences) -> Encoded:
        """A text as the model reads it.

        Raises:
            TextError: no token is left of a sentence, or the text or a word in it is too long.
        """
        words = [self.words(field, sentence) for field, sentence in zip(FIELDS, sentences)]
        tokens = self.join(words)
        if len(tokens) <= self.max_tokens:
            return Encoded(tokens)
        if not self.cuts:
            raise TextTooLongError(
                f"text: {len(tokens)} tokens, at most {self.max_tokens} are taken"
            )
        return Encoded(self.shorten(words), truncated=True)

    def encode_named(self, text: Any, name: str) -> Encoded:
        """A text as the model reads it; name: where it stands, for errors.

        Raises:
            UserError: it cannot be read, or is too long.
        """
        try:
            return self.encode(read_sentences(text))
        except TextError as error:
            raise UserError(f"{name}: {error}") from None

    def words(self, field: str, sentence: str) -> Tensor:
        """The tokens of a sentence, without special symbols: T; field: names it in errors."""
        words = self.numbers(self.text.encode(sentence))
        if not len(words):
            raise EmptyTextError(f"{field}: nothing is left after tokenisation")
        return words

    def numbers(self, line: str) -> Tensor:
        """The numbers of the dictionary's words in a line: T."""
        words = self.dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).long()
        # a text may hold the word "<pad>"
        return words.where(words != self.dictionary.pad(), self.dictionary.unk())

    @property
    def was_cut_in_training(self) -> bool:
        """Whether training cut texts that are too long; else it left them out."""
        raise NotImplementedError

    def join(self, words: list[Tensor]) -> Tensor:
        """The tokens of the sentences with the special symbols that training added: T."""
        raise NotImplementedError

    def shorten(self, words: list[Tensor]) -> Tensor:
        """As much of the sentences as training would keep, with special symbols: `max_tokens`."""
        marks = len(self.join(words)) - sum(map(len, words))
        lengths = cut_longest([len(some) for some in words], self.max_tokens - marks)
        return self.join([some[:length] for some, length in zip(words, lengths)])

    # --- from tokens to answers -------------------------------------------------------------------

    def answer_all(
        self,
        encoded: list[Encoded],
        ratio: Optional[int] = None,
        max_tokens: int = MAX_TOKENS,
    ) -> list[dict]:
        """The answers to any number of encoded texts, in batches of similar lengths.

        Raises:
            UserError: a ratio that the model lacks, or output that is not finite.
        """
        self.check_ratio(ratio, "compression_ratio")
        answers: list[dict] = [{}] * len(encoded)
        for batch in batches_by_length([len(text.tokens) for text in encoded], max_tokens):
            for i, answer in zip(batch, self.answer([encoded[i].tokens for i in batch], ratio)):
                answers[i] = encoded[i].mark(answer)
        return answers

    def answer(self, texts: list[Tensor], ratio: Optional[int]) -> list[dict]:
        """The answers to encoded texts, which run together at a ratio."""
        with torch.inference_mode(), self.at(ratio):
            return self.run(texts)

    def run(self, texts: list[Tensor]) -> list[dict]:
        raise NotImplementedError

    def on_device(self, sample: dict) -> dict:
        return move_batch(sample, next(self.model.parameters()).device)

    # --- texts that nobody sent -------------------------------------------------------------------

    def random_text(self, length: int) -> Tensor:
        """A text of a given length, the same each time: T."""
        words = self.dictionary
        draw = torch.Generator().manual_seed(1)
        tokens = torch.randint(words.nspecial, len(words), (length,), generator=draw)
        tokens[-1] = words.eos()
        return tokens

    def warm_up(self, texts: list[Tensor], ratio: int) -> None:
        """Do the work of answering texts of this size, whatever their words."""
        self.answer(texts, ratio)


def cut_longest(lengths: list[int], room: int) -> list[int]:
    """Lengths of one or two sentences that fit together: the longer one is cut first.

    This is "longest_first" of the library tokenizers, with which most classifiers were trained.

    Args:
        lengths: in tokens. room: for all of them together.
    """
    if sum(lengths) <= room:
        return lengths
    if len(lengths) == 1:
        return [room]
    first, second = lengths
    shorter = min(first, second, room // 2)
    return [room - shorter, shorter] if first > second else [shorter, room - shorter]
