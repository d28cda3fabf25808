"""Self-attention in which several heads of queries share one head of keys and values.

J. Ainslie et al., GQA, 2023; with rotary positions.
"""

from typing import Optional

from torch import Tensor, nn

from pet_fairseq.attention import (
    CachingAttention,
    IncrementalState,
    append_to_cache,
    attention_bias,
    fused_attention,
    head_multiple,
)
from pet_fairseq.llama.rotary import RotaryPositions


class GroupedQueryAttention(CachingAttention):
    """softmax(R(Q) R(K)^T / sqrt(D)) V per head, R the rotation by position.

    Takes the place of fairseq's attention in a decoder layer. Its cache holds the rotated keys.

    Args:
        num_heads: of queries; key_value_heads: of keys and values, a divisor of it.
        head_dim: D, width of a head. qkv_bias: whether queries, keys and values have a bias.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        key_value_heads: int,
        head_dim: int,
        rotary: RotaryPositions,
        qkv_bias: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.num_heads = num_heads
        self.key_value_heads = key_value_heads
        self.head_dim = head_dim
        self.rotary = rotary
        self.dropout = dropout
        self.q_proj = nn.Linear(embed_dim, num_heads * head_dim, bias=qkv_bias)
        self.k_proj = nn.Linear(embed_dim, key_value_heads * head_dim, bias=qkv_bias)
        self.v_proj = nn.Linear(embed_dim, key_value_heads * head_dim, bias=qkv_bias)
        self.out_proj = nn.Linear(num_heads * head_dim, embed_dim, bias=False)

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor] = None,
        value: Optional[Tensor] = None,
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        need_weights: bool = False,
        attn_mask: Optional[Tensor] = None,
    ) -> tuple[Tensor, None]:
        """Attend from T positions to themselves and to those in the cache.

        Args:
            query: T x B x C; key and value are the same tensor, as in fairseq's calls.
            key_padding_mask: B x T, True = padding. attn_mask: T x S, added to the scores.
        Returns:
            T x B x C, and no weights.
        """
        cache = self._get_input_buffer(incremental_state)
        start = cache["prev_key"].size(2) if cache else 0
        q = self.rotary.rotate(self._split_heads(self.q_proj(query)), start)
        state = self.keys_and_values(query, start)
        k, v = state["prev_key"], state["prev_value"]
        if cache:
            k, v, key_padding_mask = append_to_cache(cache, k, v, key_padding_mask)
        if incremental_state is not None:
            state = {"prev_key": k, "prev_value": v, "prev_key_padding_mask": key_padding_mask}
            self._set_input_buffer(incremental_state, state)

        bias = attention_bias(attn_mask, key_padding_mask, q.dtype)
        group = self.num_heads // self.key_value_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        dropout = self.dropout if self.training else 0.0
        context = fused_attention(q, k, v, bias, dropout, head_multiple(q))  # B x H x T x D
        return self.out_proj(context.permute(2, 0, 1, 3).flatten(2)), None

    def keys_and_values(self, x: Tensor, start: int = 0) -> dict[str, Tensor]:
        """What the cache keeps of the input x, T x B x C, from position `start` on.

        Both are B x heads x T x D.
        """
        return {
            "prev_key": self.rotary.rotate(self._split_heads(self.k_proj(x)), start),
            "prev_value": self._split_heads(self.v_proj(x)),
        }

    def _split_heads(self, x: Tensor) -> Tensor:
        """T x B x (heads D) -> B x heads x T x D"""
        return x.unflatten(2, (-1, self.head_dim)).permute(1, 2, 0, 3)
