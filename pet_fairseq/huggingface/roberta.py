"""Import of RoBERTa, XLM-R and CamemBERT as fairseq's `roberta`."""

from collections.abc import Iterator

from torch import Tensor

from pet_fairseq.huggingface.bert import (
    FIRST_POSITION,
    POSITIONS,
    STACK,
    TYPES,
    encoder_import,
    encoder_options,
    encoder_tensors,
    renamed,
)
from pet_fairseq.huggingface.classification_heads import CLASSES, HEAD, is_classifier
from pet_fairseq.huggingface.source import Source, Weights
from pet_fairseq.huggingface.vocabulary import FIRST, Vocabulary, make_vocabulary
from pet_fairseq.huggingface.writer import Import

WORD_HEAD = {
    "lm_head.dense": "encoder.lm_head.dense",
    "lm_head.layer_norm": "encoder.lm_head.layer_norm",
}
WORD_HEAD_BIAS = "lm_head.bias"
CLASS_HEAD = {"classifier.dense": f"{HEAD}.dense", "classifier.out_proj": f"{HEAD}.out_proj"}
EPS = 1e-5  # of all layer norms in fairseq


def read_roberta(source: Source) -> Import:
    """Describe a RoBERTa to the writer.

    Raises:
        UserError: options or files that do not fit.
    """
    config = source.config
    config.refuse(
        position_embedding_type="absolute",
        is_decoder=False,
        type_vocab_size=1,
        pad_token_id=1,
        layer_norm_eps=EPS,
    )
    config.check_head("MaskedLM", CLASSES)
    weights = source.weights.renamed(lambda name: name.removeprefix("roberta."))
    tokenizer = source.tokenizer
    special = {word: tokenizer.number(word) for word in FIRST}
    rows = config.size("vocab_size")
    vocabulary = make_vocabulary(tokenizer.pieces(), rows, special, tokenizer.path)
    positions = config.size("max_position_embeddings") - FIRST_POSITION
    heads = WORD_HEAD_BIAS in weights, is_classifier(source)
    if WORD_HEAD_BIAS in weights:
        # this head has GELU in transformers, and in fairseq what the layers have
        config.refuse(tie_word_embeddings=True, hidden_act="gelu")
    classes = len(weights["classifier.out_proj.bias"]) if is_classifier(source) else None
    arch = ["--arch", "roberta", *encoder_options(config, positions)]
    tensors = roberta_tensors(weights, config.size("num_hidden_layers"), vocabulary, *heads)
    return encoder_import(source, arch, vocabulary, tensors, heads[0], classes, separators=2)


def roberta_tensors(
    weights: Weights,
    layers: int,
    vocabulary: Vocabulary,
    has_word_head: bool,
    has_class_head: bool,
) -> Iterator[tuple[str, Tensor]]:
    """Yield RoBERTa's tensors under fairseq's names.

    The vector of its only token type is added to those of all positions.

    Args:
        has_word_head, has_class_head: whether it predicts masked words, and classes.
    """
    yield from encoder_tensors(weights, layers, vocabulary)
    positions = weights[POSITIONS].clone()
    positions[FIRST_POSITION:] += weights[TYPES][0]
    yield f"{STACK}.embed_positions.weight", positions
    if has_word_head:
        yield from renamed(weights, WORD_HEAD)
        yield "encoder.lm_head.bias", vocabulary.take(weights[WORD_HEAD_BIAS])
    if has_class_head:
        yield from renamed(weights, CLASS_HEAD)
