"""Import of Llama-type models: Llama, Mistral, Qwen2 and Qwen3, as `--arch llama`."""

import json
from collections.abc import Iterator

import torch
from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.language_model import language_model, lm_vocabulary
from pet_fairseq.huggingface.rotary import SCALINGS
from pet_fairseq.huggingface.source import Config, Source, Weights
from pet_fairseq.huggingface.vocabulary import Vocabulary
from pet_fairseq.huggingface.writer import Import, option_words

# the model type whose queries, keys and values always have a bias; whose heads have norms
WITH_BIAS, WITH_QK_NORM = "qwen2", "qwen3"
NORMS = {
    "input_layernorm": "self_attn_layer_norm",
    "post_attention_layernorm": "final_layer_norm",
}
ATTENTION = {"q_proj": "q_proj", "k_proj": "k_proj", "v_proj": "v_proj", "o_proj": "out_proj"}
ATTENTION |= {"q_norm": "q_norm", "k_norm": "k_norm"}
HEAD = "lm_head.weight"
BIAS = "layers.0.self_attn.q_proj.bias"
WINDOW = "sliding_attention"
LAYER_KINDS = (WINDOW, "full_attention")


def read_llama(source: Source) -> Import:
    """Describe a Llama-type model to the writer.

    Raises:
        UserError: options or files that do not fit.
    """
    config = source.config
    config.refuse(hidden_act="silu", attention_bias=False, mlp_bias=False)
    config.check_head("CausalLM")
    positions, layers = max_positions(config), config.size("num_hidden_layers")
    weights = source.weights.renamed(lambda name: name.removeprefix("model."))
    vocabulary = lm_vocabulary(source, config.size("vocab_size"))
    tied = bool(config.get("tie_word_embeddings"))
    has_bias = config["model_type"] == WITH_BIAS or BIAS in weights
    heads = config.size("num_attention_heads")
    sizes = {
        "--decoder-layers": layers,
        "--decoder-embed-dim": config.size("hidden_size"),
        "--decoder-ffn-embed-dim": config.size("intermediate_size"),
        "--decoder-attention-heads": heads,
        "--decoder-key-value-heads": config.get("num_key_value_heads") or heads,
        "--rms-norm-eps": config["rms_norm_eps"],
        **position_options(config),
    }
    if config.get("head_dim"):
        sizes["--decoder-head-dim"] = config.size("head_dim")
    arch = ["--arch", "llama", *option_words(sizes)]
    arch += ["--qkv-bias"] if has_bias else []
    arch += ["--qk-norm"] if config["model_type"] == WITH_QK_NORM else []
    arch += ["--share-decoder-input-output-embed"] if tied else []
    tensors = llama_tensors(weights, layers, vocabulary, tied)
    return language_model(source, arch, vocabulary, tensors, positions)


def max_positions(config: Config) -> int:
    """The longest text, in tokens, that the imported model computes as the original does.

    `--arch llama` always attends to the whole text, which equals a sliding window as long as the
    text fits into the window.
    """
    positions = config.size("max_position_embeddings")
    slides = has_window(config)
    return min(positions, config.size("sliding_window")) if slides else positions


def has_window(config: Config) -> bool:
    """Whether at least one layer sees no further back than a window.

    Qwen's have a list of the kinds of their layers, or else the number of the first layers that
    have no window.

    Raises:
        UserError: that list has a kind of layers that is not supported.
    """
    if config.get("sliding_window") is None or not config.get("use_sliding_window", True):
        return False
    if "max_window_layers" not in config:
        return True
    kinds = config.get("layer_types")
    if kinds is None:
        return config.size("max_window_layers", least=0) < config.size("num_hidden_layers")
    if not isinstance(kinds, list) or not all(kind in LAYER_KINDS for kind in kinds):
        known = ", ".join(LAYER_KINDS)
        raise UserError(f"{config.path}: layer_types is {kinds!r}; known are lists of {known}")
    return WINDOW in kinds


def position_options(config: Config) -> dict[str, object]:
    """The options of rotary positions, under the names of transformers 4 or 5.

    Raises:
        UserError: they are scaled in a way that is not supported.
    """
    # transformers 5, too, prefers what a user has added to a file that has both
    given = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(given, dict):
        raise UserError(f"{config.path}: rope_scaling is {given!r}, no object; download it again")
    scaling = dict(given)
    theta = scaling.pop("rope_theta", None) or config.get("rope_theta", 10000.0)
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind not in SCALINGS:
        known = ", ".join(SCALINGS)
        raise UserError(f"{config.path}: rope_type is {kind}; known are {known}")
    if scaling.get("partial_rotary_factor", 1.0) != 1.0:
        raise UserError(f"{config.path}: partial_rotary_factor is not 1; that is not supported")
    options: dict[str, object] = {"--rope-theta": theta}
    if kind != "default":
        scaling["rope_type"] = kind
        options["--rope-scaling"] = json.dumps(scaling, separators=(",", ":"))
    return options


def llama_tensors(
    weights: Weights, layers: int, vocabulary: Vocabulary, tied: bool
) -> Iterator[tuple[str, Tensor]]:
    """Yield Llama's tensors under fairseq's names; gate and up become one matrix."""
    yield "decoder.embed_tokens.weight", vocabulary.take(weights["embed_tokens.weight"])
    if not tied:
        yield "decoder.output_projection.weight", vocabulary.take(weights[HEAD])
    yield "decoder.output_projection.bias", vocabulary.bias
    yield "decoder.layer_norm.weight", weights["norm.weight"]
    for i in range(layers):
        old, new = f"layers.{i}", f"decoder.layers.{i}"
        for theirs, ours in NORMS.items():
            yield f"{new}.{ours}.weight", weights[f"{old}.{theirs}.weight"]
        for theirs, ours in ATTENTION.items():
            for kind in ("weight", "bias"):
                if f"{old}.self_attn.{theirs}.{kind}" in weights:
                    tensor = weights[f"{old}.self_attn.{theirs}.{kind}"]
                    yield f"{new}.self_attn.{ours}.{kind}", tensor
        gate, up = (weights[f"{old}.mlp.{part}_proj.weight"] for part in ("gate", "up"))
        yield f"{new}.fc1.weight", torch.cat([gate, up])
        yield f"{new}.fc2.weight", weights[f"{old}.mlp.down_proj.weight"]
