"""Llama-type language models: `--arch llama`.

They have an RMSNorm before attention and feed-forward network, rotary positions, grouped-query
attention and SwiGLU (H. Touvron et al., LLaMA, 2023). Everything around the layers is fairseq's:
caches, beam search, fairseq-eval-lm.
"""

from dataclasses import dataclass, field
from typing import Optional

import torch.nn.functional as F
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from pet_fairseq.checkpoints.tied_tensors import SharedStoredOnce
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.llama_attention import GroupedQueryAttention
from pet_fairseq.huggingface.rotary import RotaryPositions, angular_frequencies, parse_scaling
from pet_fairseq.nn.layers import wrap_layer
from pet_fairseq.nn.output_bias import add_output_bias


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
    qk_norm: bool = field(
        default=False,
        metadata={
            "help": "give the queries and keys of each head an RMSNorm before they are rotated, as "
            "in Qwen3"
        },
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


def swiglu(x: Tensor) -> Tensor:
    """silu(gate) * up, where x is (gate, up) side by side: ... x 2F -> ... x F (Shazeer, 2020)."""
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


class LlamaLayer(TransformerDecoderLayerBase):
    """Attention and SwiGLU, each after an RMSNorm.

    fc1 computes gate and up in one product; fc2 is called down in Llama.

    Args:
        options: a LlamaConfig. rotary: the positions that all layers of the model share.
    """

    def __init__(self, cfg: TransformerConfig, options, rotary: RotaryPositions):
        self.options = options
        self.rotary = rotary
        super().__init__(cfg, no_encoder_attn=True)
        self.activation_fn = swiglu
        self.self_attn_layer_norm = nn.RMSNorm(self.embed_dim, options.rms_norm_eps)
        self.final_layer_norm = nn.RMSNorm(self.embed_dim, options.rms_norm_eps)

    def build_self_attention(self, embed_dim, cfg, add_bias_kv=False, add_zero_attn=False):
        heads = cfg.decoder.attention_heads
        return GroupedQueryAttention(
            embed_dim,
            heads,
            self.options.decoder_key_value_heads or heads,
            self.options.decoder_head_dim or embed_dim // heads,
            self.rotary,
            qkv_bias=self.options.qkv_bias,
            qk_norm_eps=self.options.rms_norm_eps if self.options.qk_norm else None,
            dropout=cfg.attention_dropout,
        )

    def build_fc1(self, input_dim, output_dim, q_noise, qn_block_size):
        return nn.Linear(input_dim, 2 * output_dim, bias=False)

    def build_fc2(self, input_dim, output_dim, q_noise, qn_block_size):
        return nn.Linear(input_dim, output_dim, bias=False)


def head_width(args) -> int:
    return args.decoder_head_dim or args.decoder_embed_dim // args.decoder_attention_heads


def check_options(args) -> None:
    """Raises UserError for widths and numbers of heads, and other options, that cannot be."""
    heads, groups = args.decoder_attention_heads, args.decoder_key_value_heads
    if groups and (groups < 0 or heads % groups):
        raise UserError(
            f"--decoder-key-value-heads {groups}: give a divisor of --decoder-attention-heads "
            f"{heads}"
        )
    width = head_width(args)
    if width < 2 or width % 2:
        raise UserError(
            f"--decoder-head-dim {width}: rotary positions need heads of an even width; give such "
            "a one, or else a --decoder-embed-dim of an even multiple of --decoder-attention-heads"
        )
    if args.adaptive_softmax_cutoff:
        raise UserError(
            f"--adaptive-softmax-cutoff {args.adaptive_softmax_cutoff}: --arch llama has no "
            "adaptive softmax; leave it out"
        )


class LlamaDecoder(TransformerDecoderBase):
    """fairseq's decoder without position embeddings, with Llama's layers and norms."""

    def __init__(self, options, dictionary, embed_tokens):
        cfg = TransformerConfig.from_namespace(options)
        cfg.decoder.normalize_before = True
        cfg.no_token_positional_embeddings = True
        cfg.no_scale_embedding = True
        cfg.decoder.output_dim = cfg.decoder.input_dim = cfg.decoder.embed_dim
        self.options = options
        width = head_width(options)
        scaling = parse_scaling(options.rope_scaling, width)
        self.rotary = RotaryPositions(angular_frequencies(width, options.rope_theta, scaling))
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=True)
        self.layer_norm = nn.RMSNorm(cfg.decoder.embed_dim, options.rms_norm_eps)
        add_output_bias(self.output_projection)

    def build_decoder_layer(self, cfg, no_encoder_attn=True):
        return wrap_layer(LlamaLayer(cfg, self.options, self.rotary), cfg)


@register_model("llama", dataclass=LlamaConfig)
class LlamaModel(SharedStoredOnce, TransformerLanguageModel):
    """A decoder-only language model with Llama's layers."""

    sharing_options = "--share-decoder-input-output-embed"

    @classmethod
    def build_model(cls, args, task):
        """Build the model.

        Raises:
            UserError: as `check_options`, or --rope-scaling is not usable.
        """
        check_options(args)
        if args.max_target_positions is None:
            args.max_target_positions = args.tokens_per_sample
        dictionary = task.source_dictionary
        embed_tokens = cls.build_embedding(args, dictionary, args.decoder_embed_dim)
        return cls(LlamaDecoder(args, task.target_dictionary, embed_tokens))
