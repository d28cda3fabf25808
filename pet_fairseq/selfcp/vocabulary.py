"""SentencePiece models and tokenizers, and fairseq's numbers for their pieces."""

import io
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import sentencepiece
from fairseq.data import Dictionary

from pet_fairseq.byte_pieces import SPACE
from pet_fairseq.checkpoints.dictionaries import load_dictionary
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.tokenizer_file import (
    TOKENIZER,
    escape_spaces,
    load_segmenter,
    pieces_in_order,
)
from pet_fairseq.selfcp.prompts import cut

SENTENCEPIECE, DICTIONARY, UNKNOWN = "spm.model", "dict.txt", "<unk>"
PROMPT_SYMBOL = "<prompt>"  # between query and prompt, for fairseq-interactive
CUE = "cue.txt"  # the pieces that are read between prompt and response
VOCAB_SIZE = 8000
SAMPLE = 200_000  # lines that SentencePiece learns from, drawn at random
SAMPLE_LINE = 300  # characters; SentencePiece leaves out lines of more than 4,192 bytes
ALWAYS = "".join(map(chr, range(33, 127)))  # ASCII's characters are pieces, met or not
NEXT_LINE = "\x85"  # white space to Python and so to fairseq, but a character to SentencePiece
ENCODED_AT_ONCE = 1_000_000  # characters of a text


class Vocabulary(ABC):
    """A tokenizer, with fairseq's numbers for its pieces, and how often each was met."""

    kind: str  # what errors call it

    def __init__(self, dictionary: Dictionary, ids: np.ndarray):
        """Initialise; `ids` are fairseq's numbers of all pieces, in their order."""
        self.dictionary = dictionary
        self.ids = ids
        self.counts = np.zeros(len(dictionary), dtype=np.int64)
        first = self.ids[self.tokenize("a")[:1]]
        self.starts_with_space = any(dictionary[i].startswith(SPACE) for i in first)

    @abstractmethod
    def tokenize(self, text: str) -> list[int]:
        """The tokenizer's own numbers of a text's pieces."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write it and dict.txt into a folder."""

    def encode(self, text: str, part: int = ENCODED_AT_ONCE) -> np.ndarray:
        """Encode a text to fairseq's numbers of its pieces: int64, without </s>.

        A tokenizer that puts a space before every text gets none with it: there would be two.

        Args:
            part: the number of characters that are encoded at a time.
        """
        if self.starts_with_space:
            text = text.removeprefix(" ")
        return np.concatenate(
            [self.ids[np.array(self.tokenize(piece), dtype=np.int64)] for piece in cut(text, part)]
        )

    def count(self, tokens: np.ndarray) -> None:
        np.add.at(self.counts, tokens, 1)


class SentencePieces(Vocabulary):
    """A SentencePiece model; the dictionary has its pieces in its order."""

    kind = "the SentencePiece model"

    def __init__(self, model: bytes, name: str):
        """Load a serialised model; `name` is what errors call it.

        Raises:
            UserError: not a SentencePiece model, or one with white space in a piece.
        """
        try:  # an empty model would count as one that is to be loaded later
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=model or b"?")
        except RuntimeError as error:
            raise UserError(
                f"{name}: not a SentencePiece model with an <unk> piece; give the .model file"
            ) from error
        self.model = model
        dictionary = Dictionary()
        for piece in self._words(name):
            dictionary.add_symbol(piece, n=0)
        numbers = range(self.processor.get_piece_size())
        super().__init__(dictionary, np.array([dictionary.index(self._piece(i)) for i in numbers]))

    def tokenize(self, text: str) -> list[int]:
        return self.processor.encode(text)

    def write(self, folder: Path) -> None:
        """Write spm.model, and dict.txt without fairseq's special symbols."""
        (folder / SENTENCEPIECE).write_bytes(self.model)
        self.dictionary.count = self.counts.tolist()
        self.dictionary.save(str(folder / DICTIONARY))

    def _piece(self, number: int) -> str:
        return self.processor.id_to_piece(number)

    def _words(self, name: str) -> Iterator[str]:
        """The pieces that are not special symbols of fairseq, in the model's order."""
        special = {"<unk>", "<s>", "</s>", "<pad>"}
        special |= {self._piece(i) for i in self._special_numbers() if i >= 0}
        for i in range(self.processor.get_piece_size()):
            piece = self._piece(i)
            if piece.split() != [piece]:
                raise UserError(
                    f"{name}: piece {i} is or has white space ({piece!r}), which fairseq's "
                    "dictionaries cannot hold; give another model"
                )
            if piece not in special:
                yield piece

    def _special_numbers(self) -> list[int]:
        model = self.processor
        return [model.unk_id(), model.bos_id(), model.eos_id(), model.pad_id()]


class TokenizerPieces(Vocabulary):
    """A tokenizer.json with the dictionary of the model that it belongs to, as it is.

    Its special pieces, such as <|im_end|>, are found in text, too.
    """

    kind = "the tokenizer"

    def __init__(self, path: Path):
        """Load a tokenizer.json and the dict.txt beside it, both from pet-fairseq import-hf.

        Raises:
            UserError: a file is missing or not readable, or the dictionary lacks a piece.
        """
        self.path = path
        self.tokenizer = load_segmenter(path)
        dictionary = words_beside(path)
        pieces = pieces_in_order(self.tokenizer.get_vocab(), path)
        words = [UNKNOWN if piece is None else escape_spaces(piece) for piece in pieces]
        absent = [word for word in words if word not in dictionary]
        if absent:
            raise UserError(
                f"--tokenizer {path}: the {DICTIONARY} beside it lacks {absent[0]!r}; give a "
                "folder of pet-fairseq import-hf"
            )
        super().__init__(dictionary, np.array([dictionary.index(word) for word in words]))

    def tokenize(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def write(self, folder: Path) -> None:
        """Copy tokenizer.json and dict.txt: the model knows words by their places there."""
        for name in (TOKENIZER, DICTIONARY):
            shutil.copyfile(self.path.with_name(name), folder / name)


def words_beside(tokenizer: Path) -> Dictionary:
    """The dictionary that pet-fairseq import-hf wrote beside a tokenizer.json.

    Raises:
        UserError: it is missing or not readable.
    """
    path = tokenizer.with_name(DICTIONARY)
    if not path.is_file():
        raise UserError(
            f"--tokenizer {tokenizer}: has no {DICTIONARY} beside it; give the {TOKENIZER} in a "
            "folder of pet-fairseq import-hf"
        )
    return load_dictionary(path, "--tokenizer")


def open_vocabulary(folder: Path) -> Vocabulary:
    """The tokenizer of a folder of data.

    Raises:
        UserError: it has neither a SentencePiece model nor a tokenizer.
    """
    model, tokenizer = folder / SENTENCEPIECE, folder / TOKENIZER
    if model.is_file():
        return SentencePieces(model.read_bytes(), str(model))
    if tokenizer.is_file():
        return TokenizerPieces(tokenizer)
    raise UserError(f"{model}: no such file; give a folder made by pet-fairseq prompts")


def train_model(lines: Iterable[str], vocab_size: int) -> bytes:
    """Train a SentencePiece model on a sample of the lines.

    Raises:
        UserError: what `lines` raises, too few pieces, or nothing to learn from.
    """
    failed: list[UserError] = []
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_keep_error(lines, failed),
            model_writer=model,
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            input_sentence_size=SAMPLE,
            shuffle_input_sentence=True,
            user_defined_symbols=[PROMPT_SYMBOL],
            required_chars=ALWAYS,
            minloglevel=2,
        )
    except RuntimeError as error:
        if failed:
            raise failed[0] from None
        reason = str(error).split("] ")[-1].split(" Increase vocab_size")[0]
        reason = reason or "the text has nothing to learn from"
        raise UserError(f"--vocab-size {vocab_size}: SentencePiece says: {reason}") from error
    return model.getvalue()


def _keep_error(lines: Iterable[str], failed: list[UserError]) -> Iterator[str]:
    """Pass on the lines and keep an error, which SentencePiece would turn into one of its own."""
    try:
        for line in lines:
            yield from cut(line.replace(NEXT_LINE, " "), SAMPLE_LINE)
    except UserError as error:
        failed.append(error)
        raise
    print("training the SentencePiece model", file=sys.stderr)
