"""Import of Marian's translation models, such as OPUS-MT, as `--arch marian`."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import torch
from torch import Tensor

from pet_fairseq.checkpoints.text_files import SOURCE_MODEL, TARGET_MODEL
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.bert import shifted_positions
from pet_fairseq.huggingface.encoder_decoder import (
    BIAS,
    SUFFIXES,
    BilingualText,
    dictionary_files,
    layer_tensors,
    position_limits,
    read_pieces,
    size_options,
    translation_task,
)
from pet_fairseq.huggingface.source import Config, Source, Weights
from pet_fairseq.huggingface.tokenizer_file import (
    JSON_TOKENIZERS,
    MARK,
    OPTIONS,
    TEXT_OPTIONS,
    read_options,
)
from pet_fairseq.huggingface.vocabulary import FIRST, Vocabulary, make_vocabulary
from pet_fairseq.huggingface.writer import Import
from pet_fairseq.multilingual.language_tokens import LanguageTokens, check_language

PIECES, TARGET_PIECES = "vocab.json", "target_vocab.json"
MODELS = (SOURCE_MODEL, TARGET_MODEL)
ACTIVATIONS = {"swish": ["--swish"], "silu": ["--swish"]} | {
    name: ["--activation-fn", name] for name in ("relu", "gelu")
}
WAVELENGTH = 10000.0
LANGUAGE = re.compile(">>.+<<")


def read_marian(source: Source) -> Import:
    """Describe a Marian model to the writer.

    Raises:
        UserError: options or files that do not fit.
    """
    config = source.config
    config.refuse(
        normalize_before=False,
        normalize_embedding=False,
        add_final_layer_norm=False,
        static_position_embeddings=True,
    )
    config.refuse(decoder_start_token_id=config["pad_token_id"])
    activation = config.choose("activation_function", ACTIVATIONS)
    weights = source.weights.renamed(lambda name: name.removeprefix("model."))
    shared = config.get("share_encoder_decoder_embeddings", True)
    rows = config.size("vocab_size")
    target_rows = config.size("decoder_vocab_size") if config.get("decoder_vocab_size") else rows
    text = read_sentence_text(source, rows, None if shared else target_rows)
    languages, vocabularies = text.languages, text.vocabularies
    tied = config.get("tie_word_embeddings", True)
    arch = ["--arch", "bilingual_marian" if "target_lang" in source.languages else "marian"]
    arch += [*size_options(config), *activation]
    arch += ["--share-all-embeddings"] if shared and tied else []
    arch += ["--share-decoder-input-output-embed"] if tied and not shared else []
    arch += [] if config.get("scale_embedding") else ["--no-scale-embedding"]
    arch += language_options(source, vocabularies[0])
    words = " and ".join(f"{len(v):,}" for v in (vocabularies[:1] if shared else vocabularies))
    return Import(
        translation_task(*languages),
        arch + position_limits(config.size("max_position_embeddings")),
        dictionary_files(languages, *vocabularies),
        marian_tensors(weights, config, *vocabularies, shared, tied),
        f"{words} words, {' to '.join(languages)}",
        text.write,
        text.options,
    )


def read_sentence_text(source: Source, rows: int, target_rows: Optional[int]) -> BilingualText:
    """Read MarianTokenizer's files, or the tokenizer.json alone if tokenizer_config.json says so.

    Args:
        rows: of the matrix of source words. target_rows: None if the target has the same matrix.
    Raises:
        UserError: no vocab.json, or one that does not fit the model.
    """
    if read_options(source.folder / OPTIONS).get("tokenizer_class") in JSON_TOKENIZERS:
        return read_json_text(source, rows)
    return BilingualText(
        read_languages(source),
        read_vocabularies(source.folder, rows, target_rows, source.config["pad_token_id"]),
        lambda folder: copy_models(source.folder, folder),
        ["--bpe", "marian", "--sentencepiece-model", f"{{}}/{MODELS[0]}"],
    )


def read_json_text(source: Source, rows: int) -> BilingualText:
    """Read a tokenizer.json that has the words of source and target.

    Args:
        rows: of their matrix.
    Raises:
        UserError: no such file, or one that does not fit the model.
    """
    file = source.tokenizer
    pieces = [piece and piece.removeprefix(MARK) for piece in file.pieces()]
    special = {word: pieces.index(word) if word in pieces else None for word in FIRST}
    vocabulary = make_vocabulary(pieces, rows, special, file.path)
    return BilingualText(read_languages(source), (vocabulary, vocabulary), file.write, TEXT_OPTIONS)


def read_languages(source: Source) -> tuple[str, str]:
    """The suffixes of data files: the languages that the user or tokenizer_config.json names.

    Without two such languages they are source and target.
    """
    options = read_options(source.folder / OPTIONS) | source.languages
    names = (str(options.get("source_lang") or ""), str(options.get("target_lang") or ""))
    usable = all(map(str.isidentifier, names)) and names[0] != names[1]
    return names if usable else SUFFIXES


def language_options(source: Source, vocabulary: Vocabulary) -> list[str]:
    """The options of a model that puts the target's token, such as `>>fra<<`, before a sentence.

    Raises:
        UserError: the vocabulary does not have the token.
    """
    language = source.languages.get("target_lang")
    if language is None:
        return []
    tokens = [word for word in vocabulary.words if LANGUAGE.fullmatch(word)]
    known = {token.strip("<>"): token for token in tokens}
    path = source.folder / PIECES
    if not known:
        raise UserError(
            f"--target-lang {language}: {path} has no language tokens such as >>fra<<; "
            "leave the option out"
        )
    check_language("--target-lang", language, known, path)
    return LanguageTokens((known[language],)).command_words()


def read_vocabularies(
    folder: Path, rows: int, target_rows: Optional[int], pad: int
) -> tuple[Vocabulary, Vocabulary]:
    """The dictionaries of source and target, from vocab.json and, if there is one, that of targets.

    Args:
        rows, target_rows: as for `read_sentence_text`. pad: the number of <pad>.
    Raises:
        UserError: no vocab.json, or one that does not fit the model.
    """
    source = read_pieces(folder / PIECES, rows, pad)
    if target_rows is None:
        return source, source
    path = folder / TARGET_PIECES
    return source, read_pieces(path if path.is_file() else folder / PIECES, target_rows, pad)


def copy_models(old: Path, new: Path) -> None:
    """Copy the SentencePiece models from one folder to another, as far as there are any."""
    for name in MODELS:
        if (old / name).is_file():
            shutil.copyfile(old / name, new / name)


def marian_tensors(
    weights: Weights,
    config: Config,
    source: Vocabulary,
    target: Vocabulary,
    shared: bool,
    tied: bool,
) -> Iterator[tuple[str, Tensor]]:
    """Yield Marian's tensors under fairseq's names.

    Args:
        shared: whether encoder and decoder share their embeddings.
        tied: whether the output projection is the decoder's embedding matrix.
    """
    yield "encoder.embed_tokens.weight", source.take(words_of(weights, "encoder"))
    if not (shared and tied):
        yield "decoder.embed_tokens.weight", target.take(words_of(weights, "decoder"))
    if not tied:
        yield "decoder.output_projection.weight", target.take(weights["lm_head.weight"])
    yield "decoder.output_projection.bias", target.take(weights[BIAS].flatten()) + target.bias
    positions, width = config.size("max_position_embeddings"), config.size("d_model")
    for stack in ("encoder", "decoder"):
        name = f"{stack}.embed_positions.weight"  # in files of trained ones, and in old files
        table = weights[name] if name in weights else sinusoids(positions, width)
        yield name, shifted_positions(table)
    yield from layer_tensors(weights, config)


def words_of(weights: Weights, stack: str) -> Tensor:
    """The embedding matrix of a stack: its own, or the one that both share."""
    own = f"{stack}.embed_tokens.weight"
    return weights[own if own in weights else "shared.weight"]


def sinusoids(positions: int, width: int) -> Tensor:
    """Marian's position vectors, positions x width: all sines, then all cosines.

    Pair i has the wavelength 2 pi 10000^(2 i / width).
    """
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = torch.arange(positions, dtype=torch.float64)[:, None] / WAVELENGTH**exponents
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()
