"""Prompts and text as fairseq's binary data, in the pieces of a SentencePiece model.

One record is in memory at a time; of an item that is written only its length is kept.
"""

import io
import shutil
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional, Sequence

import numpy as np
import sentencepiece
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder, best_fitting_int_dtype

from pet_fairseq.errors import UserError
from pet_fairseq.files import check_folder
from pet_fairseq.selfcp.prompts import Record, cut, read_paragraphs, read_records

PROMPT_SYMBOL = "<prompt>"  # between query and prompt, for fairseq-interactive
VOCAB_SIZE = 8000
SAMPLE = 200_000  # lines that SentencePiece learns from, drawn at random
SAMPLE_LINE = 300  # characters; SentencePiece leaves out lines of more than 4,192 bytes
ALWAYS = "".join(map(chr, range(33, 127)))  # ASCII's characters are pieces, met or not
PART = 1_000_000  # characters of a text that are encoded at once
VALID_EVERY = 100  # which lines of a text are for validation


class Vocabulary:
    """A SentencePiece model with fairseq's numbers for its pieces, and how often each was met."""

    def __init__(self, model: bytes, name: str):
        """Raises UserError if it is no such model; `name` says which."""
        try:  # nothing at all would be taken for a model that is to come later
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=model or b"?")
        except RuntimeError as error:
            raise UserError(
                f"{name}: not a SentencePiece model with an <unk> piece; give the .model file"
            ) from error
        self.dictionary = Dictionary()
        for piece in self._words(name):
            self.dictionary.add_symbol(piece, n=0)
        numbers = range(self.processor.get_piece_size())
        self.ids = np.array([self.dictionary.index(self._piece(i)) for i in numbers])
        self.counts = np.zeros(len(self.dictionary), dtype=np.int64)

    def _piece(self, number: int) -> str:
        return self.processor.id_to_piece(number)

    def _words(self, name: str) -> Iterator[str]:
        """The pieces that are no special symbols of fairseq, in the model's order."""
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

    def _special_numbers(self) -> List[int]:
        model = self.processor
        return [model.unk_id(), model.bos_id(), model.eos_id(), model.pad_id()]

    def encode(self, text: str, part: int = PART) -> np.ndarray:
        """The text's pieces as fairseq's numbers, int64, without </s>."""
        encode = self.processor.encode
        return np.concatenate(
            [self.ids[np.array(encode(piece), dtype=np.int64)] for piece in cut(text, part)]
        )

    def count(self, tokens: np.ndarray) -> None:
        np.add.at(self.counts, tokens, 1)

    def save(self, path: Path) -> None:
        """dict.txt, without fairseq's special symbols."""
        self.dictionary.count = self.counts.tolist()
        self.dictionary.save(str(path))


class Items:
    """Writes PREFIX.bin and PREFIX.idx; nothing if there is no item."""

    def __init__(self, prefix: Path, vocabulary: Vocabulary):
        self.files = [Path(f"{prefix}.{kind}") for kind in ("bin", "idx")]
        dtype = best_fitting_int_dtype(len(vocabulary.dictionary))
        self.builder = MMapIndexedDatasetBuilder(self.files[0], dtype)
        self.unk = vocabulary.dictionary.unk()
        self.items = self.tokens = self.longest = self.unknown = 0

    def add(self, tokens: np.ndarray) -> None:
        self.builder.add_item(torch.from_numpy(tokens))
        self.items += 1
        self.tokens += len(tokens)
        self.longest = max(self.longest, len(tokens))
        self.unknown += int((tokens == self.unk).sum())

    def __enter__(self) -> "Items":
        return self

    def __exit__(self, *_) -> None:
        self.builder.finalize(self.files[1])
        if not self.items:
            for file in self.files:
                file.unlink()
        elif not self.tokens:
            self.files[0].write_bytes(bytes(8))  # an empty file cannot be mapped to memory


class LanguageModelItems(Items):
    """Texts of at most `most` tokens, which end in </s>."""

    def __init__(self, prefix: Path, vocabulary: Vocabulary, most: int):
        super().__init__(prefix, vocabulary)
        self.end, self.most = vocabulary.dictionary.eos(), most
        self.cut = self.left_out = 0

    def add_text(self, tokens: np.ndarray) -> None:
        """A longer text becomes several; only the last ends in </s>."""
        tokens = np.append(tokens, self.end)
        for start in range(0, len(tokens), self.most):
            self.add(tokens[start : start + self.most])

    def add_record(self, query: np.ndarray, prompt: np.ndarray, response: np.ndarray) -> None:
        """Cut the prompt at its front if need be; leave the record out if that is not enough."""
        room = self.most - 1 - len(query) - len(response)
        if room < 0:
            self.left_out += 1
            return
        self.cut += len(prompt) > room
        kept = prompt[max(0, len(prompt) - room) :]
        self.add_text(np.concatenate([query, kept, response]))


# --- SentencePiece --------------------------------------------------------------------------------


def train_model(lines: Iterable[str], vocab_size: int) -> bytes:
    """A SentencePiece model with at most so many pieces, learnt from a sample of the lines.

    Raises:
        UserError: what `lines` raises, too few pieces, or nothing to learn from.
    """
    failed: List[UserError] = []
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


def _keep_error(lines: Iterable[str], failed: List[UserError]) -> Iterator[str]:
    """The lines; SentencePiece turns an error on the way into one of its own."""
    try:
        for line in lines:
            yield from cut(line, SAMPLE_LINE)
    except UserError as error:
        failed.append(error)
        raise
    print("training the SentencePiece model", file=sys.stderr)


# --- all of it ------------------------------------------------------------------------------------


def make_prompts(
    splits: Dict[str, Path],
    text: Sequence[Path],
    out: Path,
    spm: Optional[Path] = None,
    vocab_size: int = VOCAB_SIZE,
    lm_tokens: int = 512,
    most: int = 64_000_000,
) -> str:
    """Write the folder `out` and say what is in it; docs/selfcp_data.md has its format.

    Args:
        splits: JSON lines of train, valid or test. text: for a language model, a paragraph a line.
        spm: a model to use; None: one of vocab_size pieces is trained on train and text.
        lm_tokens: of a text for a language model, at most; most: bytes of a line.
    Raises:
        UserError: a wrong file or record; nothing is left of `out` then.
    """
    check_out(out, spm)
    with whole_folder(out) as folder:
        if spm is not None:
            model = spm.read_bytes()
        else:
            model = train_model(training_lines(splits.get("train"), text, most), vocab_size)
        vocabulary = Vocabulary(model, f"--spm {spm}")
        (folder / "spm.model").write_bytes(model)
        (folder / "lm").mkdir()
        said = write_all(folder, splits, text, vocabulary, lm_tokens, most)
        vocabulary.save(folder / "dict.txt")
        shutil.copy(folder / "dict.txt", folder / "lm" / "dict.txt")
    words = vocabulary.counts[vocabulary.dictionary.nspecial :]
    said.append(f"dict.txt: {len(words):,} pieces, {(words == 0).sum():,} of them not met in train")
    return "\n".join([f"wrote {out}", *said])


def check_out(out: Path, spm: Optional[Path]) -> None:
    """Raises UserError if the folder is there or cannot be made."""
    if out.exists():
        model = out / "spm.model"
        other = spm is not None and model.is_file() and model.read_bytes() != spm.read_bytes()
        made = f", made with another SentencePiece model than --spm {spm}" if other else ""
        raise UserError(f"--out {out}: is there already{made}; give another folder or remove it")
    check_folder(out.parent, "--out")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder that gets its name when all is in it; nothing is left of it after an error."""
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def training_lines(train: Optional[Path], text: Sequence[Path], most: int) -> Iterator[str]:
    """All that a SentencePiece model is to be learnt from."""
    if train is not None:
        for _, record in read_records(train, most, "reading"):
            yield from record
    for path in text:
        for _, line in read_paragraphs(path, most, "reading"):
            yield line


def write_all(
    folder: Path,
    splits: Dict[str, Path],
    text: Sequence[Path],
    vocabulary: Vocabulary,
    lm_tokens: int,
    most: int,
) -> List[str]:
    """All items; returns a line about each data set."""
    said = []
    with ExitStack() as stack:
        lm = {
            split: LanguageModelItems(folder / "lm" / split, vocabulary, lm_tokens)
            for split in ("train", "valid")
        }
        for items in lm.values():
            stack.enter_context(items)
        for split, path in splits.items():
            records = encoded(path, vocabulary, most, counted=split == "train")
            said.append(write_split(folder / split, records, vocabulary, lm.get(split)))
        write_text(text, vocabulary, lm, most)
    return said + [describe_lm(split, items) for split, items in lm.items()]


def encoded(
    path: Path, vocabulary: Vocabulary, most: int, counted: bool
) -> Iterator[List[np.ndarray]]:
    """Tokens of query, prompt and response; `counted` for dict.txt."""
    for where, record in read_records(path, most, "encoding"):
        parts = [vocabulary.encode(text) for text in record]
        if not len(parts[-1]):
            raise UserError(
                f"{where}: the SentencePiece model finds nothing in 'response'; give text"
            )
        if counted:
            vocabulary.count(np.concatenate(parts))
        yield parts


def write_split(
    prefix: Path,
    records: Iterable[List[np.ndarray]],
    vocabulary: Vocabulary,
    lm: Optional[LanguageModelItems],
) -> str:
    """PREFIX.query and the others, and the same records for a language model."""
    with ExitStack() as stack:
        parts = [Items(Path(f"{prefix}.{name}"), vocabulary) for name in Record._fields]
        for items in parts:
            stack.enter_context(items)
        for tokens in records:
            for items, part in zip(parts, tokens):
                items.add(part)
            if lm is not None:
                lm.add_record(*tokens)
    lengths = ", ".join(
        f"{name} {items.tokens / items.items:,.1f} ({items.longest:,})"
        for name, items in zip(Record._fields, parts)
    )
    unknown = sum(items.unknown for items in parts)
    return f"{prefix.name}: {parts[0].items:,} records, mean (most) tokens: {lengths}" + (
        f"; {unknown:,} tokens <unk>" if unknown else ""
    )


def write_text(
    text: Sequence[Path], vocabulary: Vocabulary, lm: Dict[str, LanguageModelItems], most: int
) -> None:
    """Paragraphs for a language model, every VALID_EVERY-th of all files for validation."""
    lines = (line for path in text for _, line in read_paragraphs(path, most, "encoding"))
    for number, line in enumerate(lines, 1):
        tokens = vocabulary.encode(line)
        split = "train" if number % VALID_EVERY else "valid"
        if split == "train":
            vocabulary.count(tokens)
        lm[split].add_text(tokens)


def describe_lm(split: str, items: LanguageModelItems) -> str:
    if not items.items:
        return f"lm/{split}: nothing, not written"
    said = f"lm/{split}: {items.items:,} texts, {items.tokens:,} tokens"
    if items.cut:
        said += f", {items.cut:,} with a prompt cut at its front"
    if items.left_out:
        said += f"; {items.left_out:,} records left out: query and response over {items.most}"
    return said
