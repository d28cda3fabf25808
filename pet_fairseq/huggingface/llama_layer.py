"""A layer of Llama from the parts of fairseq's decoder layer."""

import torch.nn.functional as F
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from pet_fairseq.huggingface.llama_attention import GroupedQueryAttention
from pet_fairseq.huggingface.rotary import RotaryPositions


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
            dropout=cfg.attention_dropout,
        )

    def build_fc1(self, input_dim, output_dim, q_noise, qn_block_size):
        return nn.Linear(input_dim, 2 * output_dim, bias=False)

    def build_fc2(self, input_dim, output_dim, q_noise, qn_block_size):
        return nn.Linear(input_dim, output_dim, bias=False)
