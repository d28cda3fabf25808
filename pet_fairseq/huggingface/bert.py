"""Import of BERT as `--arch bert`, fairseq's RoBERTa with token types."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.classification_heads import (
    CLASSES,
    HEAD,
    classifier_task,
    is_classifier,
)
from pet_fairseq.huggingface.source import Config, Source, Weights
from pet_fairseq.huggingface.tokenizer_file import TEXT_OPTIONS
from pet_fairseq.huggingface.vocabulary import Vocabulary, make_vocabulary
from pet_fairseq.huggingface.writer import Import, option_words

SPECIAL = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
ACTIVATIONS = {
    **{"gelu": "gelu", "relu": "relu"},
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh"), "gelu_accurate"),
}
FIRST_POSITION = 2  # fairseq numbers positions from its padding index + 1
STACK = "encoder.sentence_encoder"
EMBEDDINGS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"
# options of an encoder, by the names of these values in config.json
WIDTH, HEADS, ACTIVATION = "--encoder-embed-dim", "--encoder-attention-heads", "--activation-fn"
OPTIONS = {
    "--encoder-layers": "num_hidden_layers",
    WIDTH: "hidden_size",
    "--encoder-ffn-embed-dim": "intermediate_size",
    HEADS: "num_attention_heads",
    ACTIVATION: "hidden_act",
}
LAYERS = "encoder.layer"
LAYER = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


class HeadNames(NamedTuple):
    """What the heads of an encoder of sentences are called in its files.

    Attributes:
        word_dense, word_norm: modules of the head for masked words. word_bias: its output's bias.
        class_dense, class_output: modules of the head for classes.
    """

    word_dense: str
    word_norm: str
    word_bias: str
    class_dense: str
    class_output: str


HEAD_NAMES = HeadNames(
    word_dense="cls.predictions.transform.dense",
    word_norm="cls.predictions.transform.LayerNorm",
    word_bias="cls.predictions.bias",
    class_dense="pooler.dense",
    class_output="classifier",
)


def read_bert(source: Source) -> Import:
    """Describe a BERT to the writer.

    Raises:
        UserError: options or files that do not fit.
    """
    config = source.config
    config.refuse(position_embedding_type="absolute", is_decoder=False)
    config.check_head("MaskedLM", "PreTraining", CLASSES)
    weights = source.weights.renamed(plain_name)
    vocabulary = bert_vocabulary(source, config.size("vocab_size"))
    arch = [
        *("--arch", "bert", *encoder_options(config, config.size("max_position_embeddings"))),
        *("--layer-norm-eps", str(config.get("layer_norm_eps", 1e-12))),
        *("--token-types", str(config.get("type_vocab_size", 2))),
    ]
    tensors = bert_tensors(weights, config.size("num_hidden_layers"), vocabulary)
    return encoder_import(source, weights, arch, vocabulary, tensors, HEAD_NAMES, separators=1)


def encoder_import(
    source: Source,
    weights: Weights,
    arch: list[str],
    vocabulary: Vocabulary,
    tensors: Iterable[tuple[str, Tensor]],
    names: HeadNames,
    separators: int,
) -> Import:
    """Describe an encoder of sentences to the writer.

    Args:
        tensors: those of the encoder, without its heads. names: of the heads that it may have.
        separators: how many are between the sentences of a pair, 1 or 2.
    Raises:
        UserError: the head for masked words has a matrix of its own, or as `classifier_task`.
    """
    task = ["--task", "masked_lm", "--criterion", "masked_lm"]
    files = {"dict.txt": vocabulary.text()}
    has_words = names.word_bias in weights
    if has_words:
        source.config.refuse(tie_word_embeddings=True)
    has_classes = is_classifier(source)
    if has_classes:
        outputs = len(weights[f"{names.class_output}.bias"])
        task, files = classifier_task(source, outputs, separators, vocabulary)
    return Import(
        task,
        arch,
        files,
        chain(tensors, head_tensors(weights, vocabulary, names, has_words, has_classes)),
        describe_heads(vocabulary, has_words, has_classes),
        source.tokenizer.write,
        TEXT_OPTIONS,
        ("encoder.lm_head.",),
    )


def plain_name(name: str) -> str:
    """A tensor's name without the prefix `bert.`, and with today's names in layer norms."""
    name = name.removeprefix("bert.")
    return re.sub("LayerNorm.(gamma|beta)$", lambda old: OLD_NAMES[old[0]], name)


def bert_vocabulary(source: Source, rows: int) -> Vocabulary:
    """fairseq's dictionary of BERT's pieces, with fairseq's names for the special ones.

    Raises:
        UserError: a special piece is missing.
    """
    pieces, path = source.tokenizer.pieces(), source.tokenizer.path
    for piece in SPECIAL.values():
        if piece not in pieces:
            raise UserError(f"{path}: has no {piece}; give the tokenizer of a BERT")
    special = {word: pieces.index(piece) for word, piece in SPECIAL.items()}
    renamed = {piece: word for word, piece in SPECIAL.items()}
    return make_vocabulary(pieces, rows, special, path, renamed)


def encoder_options(
    config: Config, positions: int, names: Mapping[str, str] = OPTIONS
) -> list[str]:
    """The options of an encoder's sizes and activation.

    Args:
        positions: the longest text, in tokens. names: what config.json calls each option.
    Raises:
        UserError: an option is missing or unusable, or the width is no multiple of the heads.
    """
    options: dict[str, object] = {
        option: config.size(name) for option, name in names.items() if option != ACTIVATION
    }
    width, heads = (config.size(names[option]) for option in (WIDTH, HEADS))
    if width % heads:
        raise UserError(
            f"{config.path}: {names[WIDTH]} is {width}, no multiple of {names[HEADS]}, {heads}; "
            "download it again"
        )
    options[ACTIVATION] = config.choose(names[ACTIVATION], ACTIVATIONS)
    return option_words(options | {"--max-positions": positions})


def bert_tensors(
    weights: Weights, layers: int, vocabulary: Vocabulary
) -> Iterator[tuple[str, Tensor]]:
    """Yield BERT's tensors under fairseq's names, without those of its heads."""
    yield from encoder_tensors(weights, layers, vocabulary)
    yield f"{STACK}.embed_positions.weight", shifted_positions(weights[POSITIONS])
    yield f"{STACK}.embed_types.weight", weights[TYPES]


def head_tensors(
    weights: Weights, vocabulary: Vocabulary, names: HeadNames, has_words: bool, has_classes: bool
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of the heads for masked words and for classes, whichever there are."""
    if has_words:
        dense, norm = "encoder.lm_head.dense", "encoder.lm_head.layer_norm"
        yield from renamed(weights, {names.word_dense: dense, names.word_norm: norm})
        yield "encoder.lm_head.bias", vocabulary.take(weights[names.word_bias])
    if has_classes:
        dense, output = f"{HEAD}.dense", f"{HEAD}.out_proj"
        yield from renamed(weights, {names.class_dense: dense, names.class_output: output})


def encoder_tensors(
    weights: Weights,
    layers: int,
    vocabulary: Vocabulary,
    prefix: str = LAYERS,
    parts: Mapping[str, str] = LAYER,
) -> Iterator[tuple[str, Tensor]]:
    """Yield the embeddings of words and the layers of a BERT, RoBERTa or DistilBERT.

    Args:
        prefix: of the layers' names. parts: of a layer, with fairseq's names for them.
    """
    yield f"{STACK}.embed_tokens.weight", vocabulary.take(weights[EMBEDDINGS])
    names = {"embeddings.LayerNorm": f"{STACK}.layernorm_embedding"}
    for i in range(layers):
        names |= {f"{prefix}.{i}.{old}": f"{STACK}.layers.{i}.{new}" for old, new in parts.items()}
    yield from renamed(weights, names)


def shifted_positions(positions: Tensor) -> Tensor:
    """The vectors of the positions from 0, P x C, as fairseq's table of the positions from 2."""
    before = positions.new_zeros(FIRST_POSITION, positions.size(1))
    return torch.cat([before, positions])


def renamed(weights: Weights, names: dict[str, str]) -> Iterator[tuple[str, Tensor]]:
    """Yield weight and bias of modules under other names: `names` maps the old to the new ones."""
    for old, new in names.items():
        for kind in ("weight", "bias"):
            yield f"{new}.{kind}", weights[f"{old}.{kind}"]


def describe_heads(vocabulary: Vocabulary, has_word_head: bool, has_class_head: bool) -> str:
    """A few words for the terminal about a model with these heads."""
    head = "with" if has_word_head else "without"
    text = f"{len(vocabulary):,} words, {head} the head for masked words"
    return f"{text}, with a head for classes" if has_class_head else text
