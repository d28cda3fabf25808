"""Import of DistilBERT as `--arch bert` without token types.

Its head for classes has the ReLU of --pooler-activation-fn in place of BERT's tanh.
"""

from collections.abc import Iterator

from torch import Tensor

from pet_fairseq.huggingface.bert import (
    ACTIVATION,
    CLASSIFIER,
    HEADS,
    POSITIONS,
    STACK,
    WIDTH,
    bert_vocabulary,
    encoder_import,
    encoder_options,
    encoder_tensors,
    find_heads,
    renamed,
    shifted_positions,
)
from pet_fairseq.huggingface.classification_heads import CLASSES, HEAD
from pet_fairseq.huggingface.source import Source, Weights
from pet_fairseq.huggingface.vocabulary import Vocabulary
from pet_fairseq.huggingface.writer import Import

OPTIONS = {
    "--encoder-layers": "n_layers",
    WIDTH: "dim",
    "--encoder-ffn-embed-dim": "hidden_dim",
    HEADS: "n_heads",
    ACTIVATION: "activation",
}
ITS_OWN = "--token-types 0 --layer-norm-eps 1e-12 --pooler-activation-fn relu"
LAYERS = "transformer.layer"
LAYER = {
    "attention.q_lin": "self_attn.q_proj",
    "attention.k_lin": "self_attn.k_proj",
    "attention.v_lin": "self_attn.v_proj",
    "attention.out_lin": "self_attn.out_proj",
    "sa_layer_norm": "self_attn_layer_norm",
    "ffn.lin1": "fc1",
    "ffn.lin2": "fc2",
    "output_layer_norm": "final_layer_norm",
}
WORD_HEAD = {
    "vocab_transform": "encoder.lm_head.dense",
    "vocab_layer_norm": "encoder.lm_head.layer_norm",
}
WORD_HEAD_BIAS = "vocab_projector.bias"
CLASS_HEAD = {"pre_classifier": f"{HEAD}.dense", CLASSIFIER: f"{HEAD}.out_proj"}


def read_distilbert(source: Source) -> Import:
    """Describe a DistilBERT to the writer.

    Raises:
        UserError: options or files that do not fit.
    """
    config = source.config
    config.check_head("MaskedLM", CLASSES)
    weights = source.weights.renamed(lambda name: name.removeprefix("distilbert."))
    vocabulary = bert_vocabulary(source, config.size("vocab_size"))
    positions = config.size("max_position_embeddings")
    arch = ["--arch", "bert", *encoder_options(config, positions, OPTIONS), *ITS_OWN.split()]
    has_words, classes = find_heads(source, weights, WORD_HEAD_BIAS)
    heads = has_words, classes is not None
    tensors = distilbert_tensors(weights, config.size("n_layers"), vocabulary, *heads)
    return encoder_import(source, arch, vocabulary, tensors, has_words, classes, separators=1)


def distilbert_tensors(
    weights: Weights,
    layers: int,
    vocabulary: Vocabulary,
    has_word_head: bool,
    has_class_head: bool,
) -> Iterator[tuple[str, Tensor]]:
    """Yield DistilBERT's tensors under fairseq's names.

    The table of positions is in the file in any case, also if they are sinusoids
    (`sinusoidal_pos_embds`).

    Args:
        has_word_head, has_class_head: whether it predicts masked words, and classes.
    """
    yield from encoder_tensors(weights, layers, vocabulary, LAYERS, LAYER)
    yield f"{STACK}.embed_positions.weight", shifted_positions(weights[POSITIONS])
    if has_word_head:
        yield from renamed(weights, WORD_HEAD)
        yield "encoder.lm_head.bias", vocabulary.take(weights[WORD_HEAD_BIAS])
    if has_class_head:
        yield from renamed(weights, CLASS_HEAD)
