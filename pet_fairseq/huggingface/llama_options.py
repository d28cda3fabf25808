"""Options of Llama-type models beside those of fairseq's `transformer_lm`."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.models.transformer_lm import TransformerLanguageModelConfig


@dataclass
class LlamaConfig(TransformerLanguageModelConfig):
    decoder_key_value_heads: Optional[int] = field(
        default=None,
        metadata={
            "help": "heads of keys and values, a divisor of --decoder-attention-heads (default: "
            "the same number)"
        },
    )
    decoder_head_dim: Optional[int] = field(
        default=None,
        metadata={
            "help": "width of a head (default: --decoder-embed-dim / --decoder-attention-heads)"
        },
    )
    qkv_bias: bool = field(
        default=False,
        metadata={"help": "give queries, keys and values a bias, as in Qwen2"},
    )
    rms_norm_eps: float = field(
        default=1e-5, metadata={"help": "the number that RMSNorm adds to the mean square"}
    )
    rope_theta: float = field(
        default=10000.0, metadata={"help": "base of the wavelengths of rotary positions"}
    )
    rope_scaling: str = field(
        default="",
        metadata={
            "help": "how rotary positions are scaled for longer texts: JSON, as rope_scaling in "
            "Llama's config.json, with the rope_type linear, llama3 or factors; the latter has a "
            "list `factors` with a divisor for each frequency (default: not at all)"
        },
    )
