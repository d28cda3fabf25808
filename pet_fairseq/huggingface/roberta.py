"""Import of RoBERTa, XLM-R and CamemBERT as fairseq's `roberta`."""

from collections.abc import Iterator

from torch import Tensor

from pet_fairseq.huggingface.bert import (
    FIRST_POSITION,
    POSITIONS,
    STACK,
    TYPES,
    HeadNames,
    encoder_import,
    encoder_options,
    encoder_tensors,
)
from pet_fairseq.huggingface.classification_heads import CLASSES
from pet_fairseq.huggingface.source import Source, Weights
from pet_fairseq.huggingface.vocabulary import FIRST, Vocabulary, make_vocabulary
from pet_fairseq.huggingface.writer import Import

HEAD_NAMES = HeadNames(
    word_dense="lm_head.dense",
    word_norm="lm_head.layer_norm",
    word_bias="lm_head.bias",
    class_dense="classifier.dense",
    class_output="classifier.out_proj",
)
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
    if HEAD_NAMES.word_bias in weights:
        # this head has GELU in transformers, and in fairseq what the layers have
        config.refuse(hidden_act="gelu")
    arch = ["--arch", "roberta", *encoder_options(config, positions)]
    tensors = roberta_tensors(weights, config.size("num_hidden_layers"), vocabulary)
    return encoder_import(source, weights, arch, vocabulary, tensors, HEAD_NAMES, separators=2)


def roberta_tensors(
    weights: Weights, layers: int, vocabulary: Vocabulary
) -> Iterator[tuple[str, Tensor]]:
    """Yield RoBERTa's tensors under fairseq's names, without those of its heads.

    The vector of its only token type is added to those of all positions.
    """
    yield from encoder_tensors(weights, layers, vocabulary)
    positions = weights[POSITIONS].clone()
    positions[FIRST_POSITION:] += weights[TYPES][0]
    yield f"{STACK}.embed_positions.weight", positions
