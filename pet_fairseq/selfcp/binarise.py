"""Prompts and text as fairseq's binary data; one record is in memory at a time."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Optional

import numpy as np

from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_folder, check_folder, write_json, write_text
from pet_fairseq.selfcp.binary_writer import BinaryWriter, LanguageModelWriter
from pet_fairseq.selfcp.prompts import Record, read_paragraphs, read_records
from pet_fairseq.selfcp.template import BARE, TEMPLATE, Template
from pet_fairseq.selfcp.vocabulary import (
    CUE,
    DICTIONARY,
    SENTENCEPIECE,
    VOCAB_SIZE,
    SentencePieces,
    TokenizerPieces,
    Vocabulary,
    train_model,
)

VALID_EVERY = 100  # every 100th line of a text is for validation


def make_prompts(
    splits: dict[str, Path],
    text: Sequence[Path],
    out: Path,
    spm: Optional[Path] = None,
    vocab_size: int = VOCAB_SIZE,
    lm_tokens: int = 512,
    max_bytes: int = 64_000_000,
    lm_records: bool = True,
    template: Template = BARE,
    tokenizer: Optional[Path] = None,
) -> str:
    """Write the folder `out` and return a summary; docs/selfcp_data.md has the format.

    Args:
        splits: files of JSON lines by subset: train, valid or test. text: files for the language
            model, a paragraph a line.
        spm: a SentencePiece model; None: one of vocab_size pieces is trained on train and text.
        lm_tokens: the longest text for the language model. max_bytes: the longest line.
        lm_records: whether the records are text for the language model, too.
        template: what stands around the parts of each record.
        tokenizer: a tokenizer.json of import-hf, in place of a SentencePiece model.
    Raises:
        UserError: a wrong file or record, or a cue without any token; nothing is left of `out`
            then.
    """
    check_out(out, spm)
    with atomic_folder(out) as folder:
        vocabulary: Vocabulary
        if tokenizer is not None:
            vocabulary = TokenizerPieces(tokenizer)
        elif spm is not None:
            vocabulary = SentencePieces(spm.read_bytes(), f"--spm {spm}")
        else:
            lines_to_learn = training_lines(splits.get("train"), text, max_bytes)
            vocabulary = SentencePieces(train_model(lines_to_learn, vocab_size), "the new model")
        (folder / "lm").mkdir()
        cue = encode_cue(template.cue_alone(), vocabulary)
        if len(cue):
            write_text(folder / CUE, " ".join(vocabulary.dictionary[i] for i in cue) + "\n")
        if template != BARE:
            write_json(folder / TEMPLATE, template._asdict())
        lines = write_all(
            folder, splits, text, vocabulary, lm_tokens, max_bytes, lm_records, cue, template
        )
        vocabulary.write(folder)
        shutil.copy(folder / DICTIONARY, folder / "lm" / DICTIONARY)
    words = vocabulary.counts[vocabulary.dictionary.nspecial :]
    lines.append(
        f"dict.txt: {len(words):,} pieces, {(words == 0).sum():,} of them not met in train"
    )
    return "\n".join([f"wrote {out}", *lines])


def encode_cue(cue: str, vocabulary: Vocabulary) -> np.ndarray:
    """The tokens of a cue; none of an empty one.

    Raises:
        UserError: it has text, and nothing is found in it.
    """
    tokens = vocabulary.encode(cue) if cue else np.zeros(0, dtype=np.int64)
    if cue and not len(tokens):
        raise UserError(f"--cue {cue!r}: {vocabulary.kind} finds nothing in it; give text")
    vocabulary.count(tokens)
    return tokens


def check_out(out: Path, spm: Optional[Path]) -> None:
    """Raise UserError if the folder is there already or cannot be made."""
    if out.exists():
        model = out / SENTENCEPIECE
        other = spm is not None and model.is_file() and model.read_bytes() != spm.read_bytes()
        note = f", made with another SentencePiece model than --spm {spm}" if other else ""
        raise UserError(f"--out {out}: is there already{note}; give another folder or remove it")
    check_folder(out.parent, "--out")


def training_lines(train: Optional[Path], text: Sequence[Path], max_bytes: int) -> Iterator[str]:
    """The lines on which a SentencePiece model is to be trained."""
    if train is not None:
        for _, record in read_records(train, max_bytes, "reading"):
            yield from record
    for path in text:
        for _, line in read_paragraphs(path, max_bytes, "reading"):
            yield line


def write_all(
    folder: Path,
    splits: dict[str, Path],
    text: Sequence[Path],
    vocabulary: Vocabulary,
    lm_tokens: int,
    max_bytes: int,
    lm_records: bool,
    cue: np.ndarray,
    template: Template,
) -> list[str]:
    """Write all items and return a line about each data set."""
    lines = []
    with ExitStack() as stack:
        lm = {
            split: LanguageModelWriter(folder / "lm" / split, vocabulary, lm_tokens)
            for split in ("train", "valid")
        }
        for items in lm.values():
            stack.enter_context(items)
        for split, path in splits.items():
            records = encoded(path, vocabulary, max_bytes, template, counted=split == "train")
            lm_items = lm.get(split) if lm_records else None
            lines.append(write_split(folder / split, records, vocabulary, lm_items, cue))
        write_paragraphs(text, vocabulary, lm, max_bytes)
    return lines + [describe_lm(split, items) for split, items in lm.items()]


def encoded(
    path: Path, vocabulary: Vocabulary, max_bytes: int, template: Template, counted: bool
) -> Iterator[list[np.ndarray]]:
    """Encode the records of a file; yields the tokens of each one's query, prompt and response.

    Args:
        counted: whether the tokens count for dict.txt.
    Raises:
        UserError: a wrong record, or a response without any token.
    """
    for where, record in read_records(path, max_bytes, "encoding"):
        parts = [vocabulary.encode(text) for text in template.around(record)]
        if not len(parts[-1]):
            raise UserError(f"{where}: {vocabulary.kind} finds nothing in 'response'; give text")
        if counted:
            vocabulary.count(np.concatenate(parts))
        yield parts


def write_split(
    prefix: Path,
    records: Iterable[list[np.ndarray]],
    vocabulary: Vocabulary,
    lm: Optional[LanguageModelWriter],
    cue: np.ndarray,
) -> str:
    """Write PREFIX.query, .prompt and .response, and the same records for a language model.

    The language model also reads the cue before each response.
    """
    with ExitStack() as stack:
        parts = [BinaryWriter(Path(f"{prefix}.{name}"), vocabulary) for name in Record._fields]
        for items in parts:
            stack.enter_context(items)
        for tokens in records:
            for items, part in zip(parts, tokens):
                items.add(part)
            if lm is not None:
                query, prompt, response = tokens
                lm.add_record(query, prompt, np.concatenate([cue, response]))
    lengths = ", ".join(
        f"{name} {items.tokens / items.items:,.1f} ({items.longest:,})"
        for name, items in zip(Record._fields, parts)
    )
    unknown = sum(items.unknown for items in parts)
    return f"{prefix.name}: {parts[0].items:,} records, mean (most) tokens: {lengths}" + (
        f"; {unknown:,} tokens <unk>" if unknown else ""
    )


def write_paragraphs(
    text: Sequence[Path], vocabulary: Vocabulary, lm: dict[str, LanguageModelWriter], max_bytes: int
) -> None:
    """Write paragraphs for a language model, every VALID_EVERY-th of all files for validation."""
    lines = (line for path in text for _, line in read_paragraphs(path, max_bytes, "encoding"))
    for number, line in enumerate(lines, 1):
        tokens = vocabulary.encode(line)
        split = "train" if number % VALID_EVERY else "valid"
        if split == "train":
            vocabulary.count(tokens)
        lm[split].add_text(tokens)


def describe_lm(split: str, items: LanguageModelWriter) -> str:
    """Describe the texts of a language model's split in one line."""
    if not items.items:
        return f"lm/{split}: nothing, not written"
    line = f"lm/{split}: {items.items:,} texts, {items.tokens:,} tokens"
    if items.cut:
        line += f", {items.cut:,} with a prompt cut at its front"
    if items.left_out:
        line += f"; {items.left_out:,} records left out: query and response over {items.max_tokens}"
    return line
