"""GPT-2, `--arch gpt2`: fairseq's `transformer_lm` with an output bias; and its import."""

from collections.abc import Iterator
from dataclasses import dataclass

from fairseq.models import register_model
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from torch import Tensor

from pet_fairseq.checkpoints.tied_tensors import SharedStoredOnce
from pet_fairseq.huggingface.bert import ACTIVATIONS, shifted_positions
from pet_fairseq.huggingface.language_model import language_model, lm_vocabulary
from pet_fairseq.huggingface.source import Source, Weights
from pet_fairseq.huggingface.vocabulary import Vocabulary
from pet_fairseq.huggingface.writer import Import, option_words
from pet_fairseq.nn.output_bias import add_output_bias

NORMS = {"ln_1": "self_attn_layer_norm", "ln_2": "final_layer_norm"}
MATRICES = {"attn.c_proj": "self_attn.out_proj", "mlp.c_fc": "fc1", "mlp.c_proj": "fc2"}
QUERIES_KEYS_VALUES = ("q_proj", "k_proj", "v_proj")


@dataclass
class Gpt2Config(TransformerLanguageModelConfig):
    pass


@register_model("gpt2", dataclass=Gpt2Config)
class Gpt2Model(SharedStoredOnce, TransformerLanguageModel):
    """fairseq's language model with an output bias for words of fairseq that GPT-2 does not have.

    GPT-2's logits are far below 0, so without the bias a word whose vector is 0, and so its logit,
    would take all probability.
    """

    sharing_options = "--share-decoder-input-output-embed"

    def __init__(self, decoder):
        super().__init__(decoder)
        add_output_bias(decoder.output_projection)


def read_gpt2(source: Source) -> Import:
    """Describe a GPT-2 to the writer.

    Raises:
        UserError: options or files that do not fit.
    """
    config = source.config
    config.refuse(
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
        tie_word_embeddings=True,
        layer_norm_epsilon=1e-5,
    )
    config.check_head("CausalLM")
    weights = source.weights.renamed(lambda name: name.removeprefix("transformer."))
    width, layers = config.size("n_embd"), config.size("n_layer")
    inner = config.size("n_inner") if config.get("n_inner") else 4 * width
    vocabulary = lm_vocabulary(source, config.size("vocab_size"))
    sizes = {
        "--decoder-layers": layers,
        "--decoder-embed-dim": width,
        "--decoder-input-dim": width,
        "--decoder-output-dim": width,
        "--decoder-ffn-embed-dim": inner,
        "--decoder-attention-heads": config.size("n_head"),
        "--activation-fn": config.choose("activation_function", ACTIVATIONS),
    }
    arch = [
        *("--arch", "gpt2", *option_words(sizes)),
        *("--decoder-normalize-before", "--decoder-learned-pos", "--no-scale-embedding"),
        "--share-decoder-input-output-embed",
    ]
    tensors = gpt2_tensors(weights, layers, vocabulary)
    return language_model(source, arch, vocabulary, tensors, config.size("n_positions"))


def gpt2_tensors(
    weights: Weights, layers: int, vocabulary: Vocabulary
) -> Iterator[tuple[str, Tensor]]:
    """Yield GPT-2's tensors under fairseq's names; GPT-2 stores its matrices transposed."""
    yield "decoder.embed_tokens.weight", vocabulary.take(weights["wte.weight"])
    yield "decoder.output_projection.bias", vocabulary.bias
    yield "decoder.embed_positions.weight", shifted_positions(weights["wpe.weight"])
    for kind in ("weight", "bias"):
        yield f"decoder.layer_norm.{kind}", weights[f"ln_f.{kind}"]
    for i in range(layers):
        old, new = f"h.{i}", f"decoder.layers.{i}"
        for theirs, ours in (NORMS | MATRICES).items():
            for kind in ("weight", "bias"):
                yield f"{new}.{ours}.{kind}", weights[f"{old}.{theirs}.{kind}"].t().contiguous()
        for kind in ("weight", "bias"):
            parts = weights[f"{old}.attn.c_attn.{kind}"].t().chunk(3)
            for ours, part in zip(QUERIES_KEYS_VALUES, parts):
                yield f"{new}.self_attn.{ours}.{kind}", part.contiguous()
