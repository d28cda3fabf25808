"""Tokenizers of the library transformers that segment text as fairseq's --tokenizer and --bpe do.

A form of a model takes any: Moses with codes of subword-nmt is FSMTTokenizer, SentencePiece is
MarianTokenizer, a tokenizer.json is PreTrainedTokenizerFast. All put `</s>` behind a sentence and
nothing else around it.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from fairseq.data import Dictionary
from omegaconf import DictConfig

from pet_fairseq.checkpoints.dictionaries import first_folder
from pet_fairseq.checkpoints.text_files import both_sides, folders_around
from pet_fairseq.errors import UserError
from pet_fairseq.export.forms import WAY_OUT, Form
from pet_fairseq.export.tokenizer_json import make_tokenizer
from pet_fairseq.export.tokenizer_words import NoTokenizerError
from pet_fairseq.files import read_lines, write_json, write_lines
from pet_fairseq.huggingface.fsmt import (
    BPE_TOKENIZER,
    SENTENCE_TOKENIZER,
    SOURCE_PIECES,
    TARGET_PIECES,
)
from pet_fairseq.huggingface.marian import MODELS
from pet_fairseq.huggingface.marian import PIECES as MARIAN_PIECES
from pet_fairseq.huggingface.marian import TARGET_PIECES as MARIAN_TARGET_PIECES
from pet_fairseq.huggingface.tokenizer_file import JSON_TOKENIZERS, MERGES, OPTIONS
from pet_fairseq.huggingface.vocabulary import FIRST
from pet_fairseq.multilingual.subword_restriction import VERSION, symbol_of
from pet_fairseq.predict.text import bpe_options, find_subword_file

SEGMENTATION = "--segmentation"


def find_segmentation_file(
    given: Optional[str], checkpoint: str, cfg: DictConfig, data: str, words: Dictionary
) -> str:
    """The subword model of a model's source, as `translate` finds it.

    Args:
        given: the file that the user named, which is taken as it is.
        cfg: the checkpoint's options. data: fairseq-preprocess's folder.
    Raises:
        UserError: there is none, and the words are pieces.
    """
    if given is not None:
        return given
    remedy = f"give BPE codes or a SentencePiece model by {SEGMENTATION} FILE"
    folders = folders_around(checkpoint, cfg, Path(first_folder(data)))
    return find_subword_file(words, folders, SEGMENTATION, remedy)


def write_tokenizer(form: Form, file: str, languages: tuple[str, str], folder: Path) -> str:
    """Write the tokenizer's files; returns the name of its class.

    Args:
        file: the subword model, as `bpe_options` knows it, "" for none.
        languages: of source and target.
    Raises:
        UserError: no such file, or no tokenizer of transformers segments words as it does.
    """
    if not file:
        raise UserError(
            "--to huggingface: the model has no subword model, and no tokenizer of "
            f"transformers takes them whole; {WAY_OUT}"
        )
    if not Path(file).is_file():
        raise UserError(
            f"{SEGMENTATION} {file}: no such file; give BPE codes or a SentencePiece model"
        )
    kind = bpe_options(file)["_name"]
    if kind == "tokenizer_json":
        return write_renumbered(form, Path(file), languages, folder)
    if kind == "subword_nmt":
        return write_bpe(form, Path(file), languages, folder)
    return write_sentencepiece(form, Path(file), languages, folder)


def write_options(form: Form, name: str, folder: Path, **more: Any) -> str:
    """Write tokenizer_config.json; returns the name of the tokenizer's class."""
    options = {
        "tokenizer_class": name,
        "model_max_length": form.lengths[0],
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / OPTIONS, options | more)
    return name


# --- Moses and codes of subword-nmt ---------------------------------------------------------------


def write_bpe(form: Form, codes: Path, languages: tuple[str, str], folder: Path) -> str:
    """Write FSMTTokenizer's files.

    Raises:
        UserError: the file has no codes that it can use, or two words would have one name.
    """
    merges = read_merges(codes)
    for name, words in ((SOURCE_PIECES, form.sources), (TARGET_PIECES, form.targets)):
        write_json(folder / name, number([fsmt_name(word) for word in words], codes))
    write_lines(folder / MERGES, merges)
    return write_options(form, BPE_TOKENIZER, folder, langs=list(languages), do_lower_case=False)


def read_merges(codes: Path) -> list[str]:
    """The pairs of pieces that are joined, the first ones first; each once.

    Raises:
        UserError: the file is of another version, or no codes.
    """
    version, *lines = read_lines(codes, SEGMENTATION)
    if version.split() != VERSION.split():
        raise UserError(
            f"{SEGMENTATION} {codes}: its first line is not {VERSION!r}, and transformers reads no "
            f"other codes of subword-nmt; {WAY_OUT}"
        )
    merges = [tuple(line.split()[:2]) for line in lines if line.strip()]
    if any(len(merge) < 2 for merge in merges):
        raise UserError(f"{SEGMENTATION} {codes}: has a line without two pieces; give BPE codes")
    return [" ".join(merge) for merge in dict.fromkeys(merges)]


def fsmt_name(word: str) -> str:
    """FSMT's name of one of fairseq's words: subword-nmt's symbol."""
    return word if word in FIRST else symbol_of(word)


def number(pieces: Sequence[str], path: Path) -> dict[str, int]:
    """The numbers of pieces. Raises UserError if two have the same name."""
    numbers = {piece: i for i, piece in enumerate(pieces)}
    if len(numbers) < len(pieces):
        twice = next(piece for i, piece in enumerate(pieces) if numbers[piece] != i)
        raise UserError(
            f"--to huggingface: two words of the dictionary are {twice!r} in the tokenizer's file; "
            f"{WAY_OUT} ({path})"
        )
    return numbers


# --- SentencePiece --------------------------------------------------------------------------------


def write_sentencepiece(form: Form, file: Path, languages: tuple[str, str], folder: Path) -> str:
    """Write MarianTokenizer's files."""
    for name, model in zip(MODELS, both_sides(str(file))):
        shutil.copyfile(model, folder / name)
    separate = form.sources != form.targets
    write_json(folder / MARIAN_PIECES, number(form.sources, file))
    if separate:
        write_json(folder / MARIAN_TARGET_PIECES, number(form.targets, file))
    names = names_of(languages)
    return write_options(form, SENTENCE_TOKENIZER, folder, separate_vocabs=separate, **names)


def names_of(languages: tuple[str, str]) -> dict[str, str]:
    """The languages, and the words with a meaning, in tokenizer_config.json."""
    names = dict(zip(("source_lang", "target_lang"), languages))
    return names | dict(zip(("pad_token", "eos_token", "unk_token"), FIRST[1:]))


# --- a tokenizer.json -----------------------------------------------------------------------------


def write_renumbered(form: Form, file: Path, languages: tuple[str, str], folder: Path) -> str:
    """Write PreTrainedTokenizerFast's files.

    Raises:
        UserError: not a tokenizer.json, or it cannot segment text into the words of the model.
    """
    config = form.config
    around, start = ([], [config["eos_token_id"]]), [config["decoder_start_token_id"]]
    try:
        tokenizer = make_tokenizer(file, (form.sources, form.targets), around, start)
    except NoTokenizerError as reason:
        raise UserError(f"--to huggingface: {reason}; {WAY_OUT}") from reason
    if unknown := tokenizer.words.others:
        raise UserError(
            f"--to huggingface: {file} has pieces that the model's dictionary lacks, such as "
            f"{unknown[0]!r}, of which its words are built; {WAY_OUT}"
        )
    tokenizer.write(folder)
    return write_json_options(form, languages, folder)


def write_json_options(form: Form, languages: tuple[str, str], folder: Path) -> str:
    """Write the tokenizer_config.json of a tokenizer.json; returns the name of the class."""
    inputs = ["input_ids", "attention_mask"]  # no types of tokens
    names = names_of(languages)
    return write_options(form, JSON_TOKENIZERS[0], folder, model_input_names=inputs, **names)
