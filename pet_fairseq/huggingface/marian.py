"""Import of Marian's translation models, such as OPUS-MT, as `--arch marian`."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.bert import later_positions
from pet_fairseq.huggingface.encoder_decoder import (
    BIAS,
    layer_tensors,
    position_limits,
    size_options,
    translation_task,
)
from pet_fairseq.huggingface.source import CONFIG, Config, Source, Weights, read_json, require_file
from pet_fairseq.huggingface.tokenizer_file import OPTIONS, read_options
from pet_fairseq.huggingface.vocabulary import FIRST, Vocabulary, make_vocabulary
from pet_fairseq.huggingface.writer import Import

PIECES, TARGET_PIECES = "vocab.json", "target_vocab.json"
PAD = "<pad>"
MODELS = ("source.spm", "target.spm")
ACTIVATIONS = {"swish": ["--swish"], "silu": ["--swish"]} | {
    name: ["--activation-fn", name] for name in ("relu", "gelu")
}
WAVELENGTH = 10000.0


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
    vocabularies = read_vocabularies(source.folder, config, shared)
    tied = config.get("tie_word_embeddings", True)
    arch = ["--arch", "marian", *size_options(config), *activation]
    arch += ["--share-all-embeddings"] if shared and tied else []
    arch += ["--share-decoder-input-output-embed"] if tied and not shared else []
    arch += [] if config.get("scale_embedding") else ["--no-scale-embedding"]
    languages = read_languages(source.folder)
    files = {
        f"dict.{language}.txt": vocabulary.text()
        for language, vocabulary in zip(languages, vocabularies)
    }
    words = " and ".join(f"{len(v):,}" for v in (vocabularies[:1] if shared else vocabularies))
    return Import(
        translation_task(*languages),
        arch + position_limits(config.size("max_position_embeddings")),
        files,
        marian_tensors(weights, config, *vocabularies, shared, tied),
        f"{words} words, {' to '.join(languages)}",
        lambda folder: copy_models(source.folder, folder),
        ["--bpe", "sentencepiece", "--sentencepiece-model", f"{{}}/{MODELS[0]}"],
    )


def read_languages(folder: Path) -> tuple[str, str]:
    """The languages in tokenizer_config.json, as suffixes of data files; else source and target."""
    options = read_options(folder / OPTIONS)
    source, target = (options.get(name) for name in ("source_lang", "target_lang"))
    if not (isinstance(source, str) and isinstance(target, str)) or source == target:
        return "source", "target"
    usable = source.isidentifier() and target.isidentifier()
    return (source, target) if usable else ("source", "target")


def read_vocabularies(folder: Path, config: Config, shared: bool) -> tuple[Vocabulary, Vocabulary]:
    """The dictionaries of source and target, from vocab.json and, if there is one, that of targets.

    Raises:
        UserError: no vocab.json, or one that does not fit the model.
    """
    rows, pad = config.size("vocab_size"), config["pad_token_id"]
    source = read_pieces(folder / PIECES, rows, pad)
    if shared:
        return source, source
    path = folder / TARGET_PIECES
    rows = config.size("decoder_vocab_size") if config.get("decoder_vocab_size") else rows
    return source, read_pieces(path if path.is_file() else folder / PIECES, rows, pad)


def read_pieces(path: Path, rows: int, pad: int) -> Vocabulary:
    """The dictionary of a vocab.json; pad: the number of <pad>, with which the decoder starts.

    Raises:
        UserError: no such file, or one that does not fit the model.
    """
    numbers = read_json(require_file(path))
    if sorted(numbers.values()) != list(range(len(numbers))):
        raise UserError(f"{path}: its numbers have gaps; download it again")
    if numbers.get(PAD) != pad:
        raise UserError(
            f"{path}: {PAD} is number {numbers.get(PAD)}, but pad_token_id in {CONFIG} is {pad}; "
            "give files that belong together"
        )
    return make_vocabulary(
        sorted(numbers, key=numbers.__getitem__),
        rows,
        {word: numbers.get(word) for word in FIRST},
        path,
    )


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
    table = later_positions(sinusoids(positions, width))
    for stack in ("encoder", "decoder"):
        yield f"{stack}.embed_positions.weight", table
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
