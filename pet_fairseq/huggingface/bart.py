"""Import of BART and mBART as fairseq's `bart`."""

from collections.abc import Iterator
from typing import Optional

from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.bert import ACTIVATIONS
from pet_fairseq.huggingface.classes import CLASSES, HEAD, classifier_task, is_classifier
from pet_fairseq.huggingface.encoder_decoder import (
    BIAS,
    layer_tensors,
    position_limits,
    size_options,
    translation_task,
)
from pet_fairseq.huggingface.source import Config, Source, Weights
from pet_fairseq.huggingface.tokenizer_file import TokenizerFile
from pet_fairseq.huggingface.vocabulary import FIRST, Vocabulary, make_vocabulary
from pet_fairseq.huggingface.writer import Import

PRE_NORM = "mbart"  # the model_type whose layers are pre-norm, with a norm after the last one
LANGUAGES = ("source", "target")  # the suffixes of data files in fairseq's recipes for BART
MASK = "<mask>"
CLASS_HEAD = {"dense": f"{HEAD}.dense", "out_proj": f"{HEAD}.out_proj"}


def read_bart(source: Source) -> Import:
    """Describe a BART or mBART to the writer.

    Raises:
        UserError: options or files that do not fit.
    """
    config = source.config
    config.refuse(tie_word_embeddings=True, pad_token_id=1)
    config.check_head("ConditionalGeneration", CLASSES)
    weights = source.weights.renamed(lambda name: name.removeprefix("model."))
    if BIAS in weights and weights[BIAS].any():
        raise UserError(f"{weights.path}: {BIAS} is not 0, and fairseq's bart has no such bias")
    tokenizer = source.tokenizer
    special = {word: tokenizer.number(word) for word in FIRST}
    rows = config.size("vocab_size")
    vocabulary = make_vocabulary(known_pieces(tokenizer, rows), rows, special, tokenizer.path)
    positions = config.size("max_position_embeddings")
    pre_norm = config["model_type"] == PRE_NORM
    scaled = config.get("scale_embedding")
    arch = ["--arch", "mbart_large" if scaled else "bart_large", *size_options(config)]
    arch += ["--activation-fn", config.choose("activation_function", ACTIVATIONS)]
    if pre_norm:
        arch += ["--encoder-normalize-before", "--decoder-normalize-before"]
    has_class_head = is_classifier(source)
    if not (has_class_head and pre_norm):  # mBART's classes do not ask for it
        config.refuse(decoder_start_token_id=special["</s>"])
    if has_class_head:
        outputs = len(weights["classification_head.out_proj.bias"])
        task, files = classifier_task(source, outputs, separators=2, vocabulary=vocabulary)
        task.append("--add-prev-output-tokens")
        arch += ["--max-positions", str(positions)]
    else:
        task = translation_task(*LANGUAGES)
        files = {f"dict.{language}.txt": vocabulary.text() for language in LANGUAGES}
    return Import(
        task,
        arch + position_limits(positions),
        files,
        bart_tensors(weights, config, vocabulary, pre_norm, has_class_head),
        f"{len(vocabulary):,} words" + (", with a head for classes" if has_class_head else ""),
        tokenizer.write,
        ["--bpe", "tokenizer_json", "--tokenizer-file", "{}/tokenizer.json"],
    )


def known_pieces(tokenizer: TokenizerFile, rows: int) -> list[Optional[str]]:
    """The tokenizer's pieces; BARTs trained on summaries have no row for the last one, <mask>."""
    pieces = tokenizer.pieces()
    return pieces[:rows] if pieces[rows:] == [MASK] else pieces


def bart_tensors(
    weights: Weights, config: Config, vocabulary: Vocabulary, pre_norm: bool, has_class_head: bool
) -> Iterator[tuple[str, Tensor]]:
    """Yield BART's tensors under fairseq's names."""
    yield "encoder.embed_tokens.weight", vocabulary.take(weights["shared.weight"])
    norms = ["layernorm_embedding", *(["layer_norm"] if pre_norm else [])]
    for stack in ("encoder", "decoder"):
        positions = f"{stack}.embed_positions.weight"
        yield positions, weights[positions]
        for norm in norms:
            for kind in ("weight", "bias"):
                yield f"{stack}.{norm}.{kind}", weights[f"{stack}.{norm}.{kind}"]
    yield from layer_tensors(weights, config)
    if has_class_head:
        for theirs, ours in CLASS_HEAD.items():
            for kind in ("weight", "bias"):
                yield f"{ours}.{kind}", weights[f"classification_head.{theirs}.{kind}"]
