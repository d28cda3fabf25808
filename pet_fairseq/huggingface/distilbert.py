"""Import of DistilBERT as `--arch bert` without token types.

Its head for classes has the ReLU of --pooler-activation-fn in place of BERT's tanh.
"""

from collections.abc import Iterator

from torch import Tensor

from pet_fairseq.huggingface.bert import (
    ACTIVATION,
    HEADS,
    POSITIONS,
    STACK,
    WIDTH,
    HeadNames,
    bert_vocabulary,
    encoder_import,
    encoder_options,
    encoder_tensors,
    shifted_positions,
)
from pet_fairseq.huggingface.classification_heads import CLASSES
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
HEAD_NAMES = HeadNames(
    word_dense="vocab_transform",
    word_norm="vocab_layer_norm",
    word_bias="vocab_projector.bias",
    class_dense="pre_classifier",
    class_output="classifier",
)


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
    tensors = distilbert_tensors(weights, config.size("n_layers"), vocabulary)
    return encoder_import(source, weights, arch, vocabulary, tensors, HEAD_NAMES, separators=1)


def distilbert_tensors(
    weights: Weights, layers: int, vocabulary: Vocabulary
) -> Iterator[tuple[str, Tensor]]:
    """Yield DistilBERT's tensors under fairseq's names, without those of its heads.

    The table of positions is in the file in any case, also if they are sinusoids
    (`sinusoidal_pos_embds`).
    """
    yield from encoder_tensors(weights, layers, vocabulary, LAYERS, LAYER)
    yield f"{STACK}.embed_positions.weight", shifted_positions(weights[POSITIONS])
