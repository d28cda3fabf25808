"""BART's and Marian's layers, which have the same names in Hugging Face's files."""

from collections.abc import Iterator

from torch import Tensor

from pet_fairseq.huggingface.source import Config, Weights

ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")
ENCODER = ("self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
DECODER = (*ENCODER, "encoder_attn_layer_norm")
BIAS = "final_logits_bias"


def layer_tensors(weights: Weights, config: Config) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of all layers, which have the same names in fairseq."""
    for stack, modules, attentions in (
        ("encoder", ENCODER, ("self_attn",)),
        ("decoder", DECODER, ("self_attn", "encoder_attn")),
    ):
        parts = [f"{attention}.{part}" for attention in attentions for part in ATTENTION]
        for i in range(config.size(f"{stack}_layers")):
            for part in (*modules, *parts):
                for kind in ("weight", "bias"):
                    name = f"{stack}.layers.{i}.{part}.{kind}"
                    yield name, weights[name]


def size_options(config: Config) -> list[str]:
    """The options of both stacks' sizes."""
    options = []
    for stack in ("encoder", "decoder"):
        options += [f"--{stack}-layers", str(config.size(f"{stack}_layers"))]
        options += [f"--{stack}-embed-dim", str(config.size("d_model"))]
        options += [f"--{stack}-ffn-embed-dim", str(config.size(f"{stack}_ffn_dim"))]
        options += [f"--{stack}-attention-heads", str(config.size(f"{stack}_attention_heads"))]
    return options


def translation_task(source: str, target: str) -> list[str]:
    """The options of the translation task; source, target: the suffixes of its data files."""
    return [
        *("--task", "translation", "--criterion", "cross_entropy"),
        *("--source-lang", source, "--target-lang", target),
    ]


def position_limits(positions: int) -> list[str]:
    return ["--max-source-positions", str(positions), "--max-target-positions", str(positions)]
