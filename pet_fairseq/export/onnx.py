"""`pet-fairseq export --to onnx`: a folder with graphs that ONNX Runtime computes.

The files, and the names of inputs and outputs, are those that optimum gives to translation models,
so that optimum and transformers.js open the folder, too. The decoder's file is one graph for its
first step and for all others: an empty cache makes a step the first one.
"""

import importlib.util
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from fairseq.tasks.translation import TranslationTask
from torch import Tensor, nn

from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.environment import version_numbers
from pet_fairseq.errors import UserError, first_given
from pet_fairseq.export.ctranslate2 import float32_or_int8, language_tokens
from pet_fairseq.export.fairseq import check_plain_form
from pet_fairseq.export.forms import Form
from pet_fairseq.export.huggingface import GENERATION, generation
from pet_fairseq.export.onnx_files import export_graph, take_caches_of_none, write_graph
from pet_fairseq.export.onnx_graphs import Attention, Decoder, Encoder, NumberedEncoder
from pet_fairseq.export.tokenizer_json import TokenizerJson, make_tokenizer
from pet_fairseq.export.tokenizer_words import NoTokenizerError
from pet_fairseq.export.tokenizers import (
    find_segmentation_file,
    write_json_options,
    write_sentencepiece,
)
from pet_fairseq.files import write_json
from pet_fairseq.huggingface.marian import PIECES, TARGET_PIECES
from pet_fairseq.huggingface.marian_model import MarianModel, StartEmbedding
from pet_fairseq.huggingface.source import CONFIG
from pet_fairseq.multilingual.language_tokens import LanguageTokens
from pet_fairseq.nn.architectures import architecture_name, model_class
from pet_fairseq.predict.batches import MAX_LENGTH
from pet_fairseq.predict.onnx_model import DECODER, ENCODER, GRAPHS, MISSING, QUANTIZED
from pet_fairseq.predict.text import bpe_options

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
TO = "--to onnx"
# options of models whose decoders lack what the graph needs
NO_ROOM = ("no_cross_attention", "cross_self_attention", "adaptive_softmax_cutoff")
# where a subword model is found when the folder is opened
SUBWORDS = {"subword_nmt": "bpe.codes", "tokenizer_json": "tokenizer.json"}
# the numbers of the source's words in config.json
SOURCE_NUMBERS = ("source_prefix", "source_end", "unk_token_id", "source_pad_token_id")
JS_OPTIONS = "transformers.js_config"  # what transformers.js reads of config.json besides
TOLERANCE = 1e-3  # of logits
TORCH = (2, 7)  # its exporter takes names of dimensions


def write_onnx(
    checkpoint: str,
    data: str,
    folder: Path,
    precision: str = "fp32",
    segmentation: Optional[str] = None,
) -> Optional[str]:
    """Write the encoder's and the decoder's graph, and what turns text into words.

    Args:
        checkpoint: a translation model. data: fairseq-preprocess's folder. precision: fp32 or int8.
        segmentation: the subword model; None for the one that `translate` would find.
    Returns:
        why there is no tokenizer.json, without which other software reads no raw text; None if
        there is one.
    Raises:
        UserError: names the option or file and the reason.
    """
    rounds = float32_or_int8(precision, TO) == "int8"
    if version_numbers(torch.__version__) < TORCH:
        needed = ".".join(map(str, TORCH))
        raise UserError(
            f"torch {torch.__version__}: {TO} needs {needed} or later; install a newer one"
        )
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise UserError(f"{missing[0]} is missing; {MISSING}")
    cfg = load_options(checkpoint, "CHECKPOINT")
    check_graphs(cfg.model, checkpoint)
    model, task = load_transformer(checkpoint, "CHECKPOINT", data)
    words = task.source_dictionary
    file = find_segmentation_file(segmentation, checkpoint, cfg, data, words)
    encoder, decoder = Encoder(model.encoder).eval(), Decoder(model.decoder).eval()
    config = config_of(cfg.model, model, task, decoder)
    check_equal(model.eval(), encoder, decoder, config, f"CHECKPOINT {checkpoint}: {TO}")
    config[JS_OPTIONS] = {"dtype": "q8" if rounds else "fp32"}
    tokenizer, lacks = None, None
    try:
        tokenizer = tokenizer_of(config, (words.symbols, task.target_dictionary.symbols), file)
    except NoTokenizerError as reason:
        lacks = f"not for raw text in transformers.js: {reason}"
    first = write_words(folder, config, task, file, tokenizer)
    numbered = NumberedEncoder(encoder, first, len(words), words.unk())
    write_graphs(folder / GRAPHS, numbered, decoder, rounds)
    return lacks


def check_graphs(options: Any, path: str) -> None:
    """Raise UserError for a checkpoint whose model the graphs cannot compute."""
    if language_tokens(options) is None and not issubclass(model_class(options), MarianModel):
        check_plain_form(options, path)
    if option := first_given(options, NO_ROOM):
        arch = architecture_name(options)
        raise UserError(
            f"CHECKPOINT {path}: holds {ARCH_MODEL_NAME_REGISTRY.get(arch, arch)} with {option}, "
            f"for which {TO} has no room; give --to fairseq"
        )


def config_of(
    options: Namespace, model: nn.Module, task: TranslationTask, decoder: Decoder
) -> dict[str, Any]:
    """The content of config.json.

    Other software takes from it the names of inputs, which are the same for all encoder-decoders,
    and the sizes of caches, which are those of the decoder: all models are called `marian`. What
    else stands around sentences, and the limits of lengths, is for this package.
    """
    source, target = task.source_dictionary, task.target_dictionary
    tokens = language_tokens(options) or LanguageTokens()
    start = [target.index(word) for word in tokens.decoder_start]
    embedding = model.decoder.embed_tokens
    if isinstance(embedding, StartEmbedding) and start[0] == embedding.end:
        start[0] = embedding.start
    heads, width = cache_sizes(decoder)[0]
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": len(target),
        "decoder_vocab_size": len(target),
        "d_model": heads * width,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_layers": len(model.encoder.layers),
        "decoder_layers": len(model.decoder.layers),
        "max_position_embeddings": model.encoder.max_source_positions,
        "bos_token_id": target.bos(),
        "pad_token_id": target.pad(),
        "eos_token_id": target.eos(),
        "decoder_start_token_id": start[0],
        "source_prefix": [source.index(word) for word in tokens.source_prefix],
        "source_end": [source.index(word) for word in tokens.source_end],
        "decoder_start": start,
        "unk_token_id": source.unk(),
        "source_pad_token_id": source.pad(),
        "max_source_tokens": model.encoder.max_positions() - 1,
        "max_target_tokens": min(MAX_LENGTH, model.max_decoder_positions() - 1),
        "languages": [task.cfg.source_lang, task.cfg.target_lang],
    }


def cache_sizes(decoder: Decoder) -> list[tuple[int, int]]:
    """The heads and their width of each tensor of the cache."""

    def size(attention: Attention) -> tuple[int, int]:
        return attention.heads, attention.width

    sizes = ((size(layer.attention), size(layer.cross_attention)) for layer in decoder.layers)
    return [size for own, cross in sizes for size in (own, own, cross, cross)]


@torch.no_grad()
def check_equal(
    model: nn.Module, encoder: Encoder, decoder: Decoder, config: dict[str, Any], where: str
) -> None:
    """Raise UserError if the graphs do not compute what the model does; where: begins the line."""
    words = torch.arange(4, 7).clamp(max=config["vocab_size"] - 1)[None]
    end = torch.tensor([[config["eos_token_id"]]])
    tokens = torch.cat([words, end], dim=1)
    expected = model(tokens, torch.tensor([tokens.size(1)]), torch.cat([end, words], dim=1))[0]
    around = [torch.tensor([config[name]]) for name in ("source_prefix", "source_end")]
    tokens = torch.cat([around[0].long(), words, around[1]], dim=1)
    mask = torch.ones_like(tokens)
    targets = torch.cat([torch.tensor([config["decoder_start"]]), words], dim=1)
    states = encoder(tokens, mask)
    found = decoder(mask, targets, states, empty_cache(decoder, 1))[0]
    if not torch.allclose(found[:, -expected.size(1) :], expected, atol=TOLERANCE):
        raise UserError(
            f"{where}: the model has an option that its graphs have no room for; give --to fairseq"
        )


def empty_cache(decoder: Decoder, batch: int) -> list[Tensor]:
    return [torch.zeros(batch, heads, 0, width) for heads, width in cache_sizes(decoder)]


def write_words(
    folder: Path,
    config: dict[str, Any],
    task: TranslationTask,
    segmentation: str,
    tokenizer: Optional[TokenizerJson],
) -> int:
    """Write the configuration, the numbers of all words, and the subword model.

    Returns:
        the number of the first word of the source: 0, or behind the target's words where other
        software numbers all words together (`tokenizer_json`).
    """
    sources, targets = task.source_dictionary.symbols, task.target_dictionary.symbols
    first = 0 if tokenizer is None else tokenizer.words.first
    if tokenizer is not None:
        tokenizer.write(folder)
    config = config | {
        name: [number + first for number in value] if isinstance(value, list) else value + first
        for name, value in config.items()
        if name in SOURCE_NUMBERS
    }
    lengths = (config["max_source_tokens"] + 1, config["max_target_tokens"] + 1)
    form = Form(config, {}, sources, targets, lengths)
    write_json(folder / CONFIG, config)
    forced = config["decoder_start"][1:2]
    write_json(
        folder / GENERATION,
        generation(form) | ({"forced_bos_token_id": forced[0]} if forced else {}),
    )
    kind = bpe_options(segmentation)["_name"] if segmentation else ""
    languages = tuple(config["languages"])
    if kind == "tokenizer_json" and tokenizer is not None:
        write_json_options(form, languages, folder)
    elif kind in SUBWORDS:
        shutil.copyfile(segmentation, folder / SUBWORDS[kind])
    elif kind:
        write_sentencepiece(form, Path(segmentation), languages, folder)
    for name, words, begin in ((PIECES, sources, first), (TARGET_PIECES, targets, 0)):
        write_json(folder / name, {word: number for number, word in enumerate(words, begin)})
    return first


def tokenizer_of(
    config: dict[str, Any], dictionaries: tuple[list[str], list[str]], segmentation: str
) -> TokenizerJson:
    """The tokenizer.json.

    Args:
        segmentation: the subword model, "" for none.
    Raises:
        NoTokenizerError: there can be none.
        UserError: there is no such file.
    """
    if segmentation and not Path(segmentation).is_file():
        raise UserError(f"--segmentation {segmentation}: no such file")
    if not segmentation or bpe_options(segmentation)["_name"] == "subword_nmt":
        raise NoTokenizerError("neither SentencePiece nor a tokenizer.json segments its words")
    around = (config["source_prefix"], config["source_end"])
    return make_tokenizer(Path(segmentation), dictionaries, around, config["decoder_start"])


def write_graphs(folder: Path, encoder: NumberedEncoder, decoder: Decoder, rounds: bool) -> None:
    """Write both graphs; the numbers of sentences and of words are left open.

    Args:
        rounds: whether to round the weights to 8 bits.
    """
    folder.mkdir()
    end = f"{QUANTIZED if rounds else ''}.onnx"
    batch, source, target, past, seen = 2, 5, 3, 4, 2  # any sizes above 1, no two related
    width = encoder(torch.ones(1, 1).long(), torch.ones(1, 1).long()).size(2)
    mask = torch.ones(batch, source, dtype=torch.long)
    tokens, states = {0: "batch", 1: "source"}, torch.zeros(batch, source, width)
    graph = export_graph(
        encoder,
        (mask.clone(), mask),
        {"input_ids": tokens, "attention_mask": tokens},
        ["last_hidden_state"],
    )
    write_graph(graph, folder / f"{ENCODER}{end}", rounds)
    lengths = {True: (past, "past"), False: (seen, "past_source")}
    cache, dimensions = [], {}
    names = [
        f"{i}.{side}.{kind}"
        for i in range(len(decoder.layers))
        for side in ("decoder", "encoder")
        for kind in ("key", "value")
    ]
    for name, (heads, head_width) in zip(names, cache_sizes(decoder)):
        length, dimension = lengths[".decoder." in name]
        cache.append(torch.zeros(batch, heads, length, head_width))
        dimensions[f"past_key_values.{name}"] = {0: "batch", 2: dimension}
    inputs = {
        "encoder_attention_mask": tokens,
        "input_ids": {0: "batch", 1: "target"},
        "encoder_hidden_states": tokens,
        **dimensions,
    }
    arguments = (mask, torch.ones(batch, target, dtype=torch.long), states, cache)
    outputs = ["logits", *(f"present.{name}" for name in names)]
    graph = export_graph(decoder, arguments, inputs, outputs)
    take_caches_of_none(graph, list(dimensions))
    write_graph(graph, folder / f"{DECODER}{end}", rounds)
