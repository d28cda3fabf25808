"""The options of `--arch variator`, and checks of their values."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import nn

from pet_fairseq.checkpoints.backbone import is_decoder_only
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.variator.sites import ACTIVATIONS, COMPRESSIONS, DECOMPRESSIONS, SITES, STACKS


@dataclass
class VariatorConfig(FairseqDataclass):
    backbone_path: str = field(
        default="", metadata={"help": "checkpoint of the model to compress, kept frozen (required)"}
    )
    plugin_path: str = field(
        default="",
        metadata={"help": "more plugin files for this backbone, a.pt:b.pt, to switch between"},
    )
    compression_ratio: int = field(
        default=4, metadata={"help": "k, how many positions become one; 1 uses no plugin"}
    )
    bottleneck_dim: int = field(default=64, metadata={"help": "r, inner width of the adapters"})
    compression_site: ChoiceEnum(SITES) = field(
        default="ffn",
        metadata={
            "help": "what works on groups: the feed-forward networks, the self-attention, or only "
            "its keys and values"
        },
    )
    compression_stack: ChoiceEnum(STACKS) = field(
        default="auto",
        metadata={"help": "auto: the encoder, or the decoder of a decoder-only model"},
    )
    prompt_end: str = field(
        default="",
        metadata={
            "help": "symbol that ends the prompt, which is what a decoder-only model compresses "
            "(required for such a model)"
        },
    )
    adapter_activation: ChoiceEnum(ACTIVATIONS) = field(
        default="tanh",
        metadata={"help": "activation function between the two maps of an adapter"},
    )
    compression: ChoiceEnum(COMPRESSIONS) = field(
        default="weighted",
        metadata={
            "help": "how the vectors of a group become one: by trained weights, or by their mean "
            "(an ablation without parameters)"
        },
    )
    decompression: ChoiceEnum(DECOMPRESSIONS) = field(
        default="adapter",
        metadata={
            "help": "how the result of a group becomes one for each of its positions: by a trained "
            "adapter, or as a copy (an ablation without parameters)"
        },
    )


def check_options(cfg: VariatorConfig) -> None:
    """Raise UserError for values that cannot make a model, before the backbone is loaded."""
    if cfg.compression_ratio < 1:
        raise UserError(
            f"--compression-ratio {cfg.compression_ratio}: give 2 or more, or 1 for none"
        )
    check_positive(bottleneck_dim=cfg.bottleneck_dim)


def check_new_plugins(cfg: VariatorConfig) -> None:
    """Raise UserError for values that cannot make plugins."""
    if cfg.compression_ratio < 2:
        raise UserError(f"--compression-ratio {cfg.compression_ratio}: give 2 or more")
    check_options(cfg)


def prompt_end_index(
    cfg: VariatorConfig, backbone: nn.Module, dictionary: Dictionary
) -> Optional[int]:
    """The index of the symbol that ends a prompt; None for a model with an encoder.

    Raises:
        UserError: no such symbol.
    """
    if not is_decoder_only(backbone):
        return None
    index = dictionary.index(cfg.prompt_end)
    if not cfg.prompt_end or index == dictionary.unk():
        raise UserError(
            f"--prompt-end {cfg.prompt_end!r}: not in the dictionary; give the symbol that ends "
            "the prompts in the data"
        )
    return index
