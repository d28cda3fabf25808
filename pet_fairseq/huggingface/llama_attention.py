"""Grouped-query attention with rotary positions: query heads share heads of keys and values.

J. Ainslie et al., GQA, 2023.
"""

from typing import Optional

from torch import Tensor, nn

from pet_fairseq.huggingface.rotary import RotaryPositions
from pet_fairseq.nn.attention import (
    CachingAttention,
    IncrementalState,
    append_to_cache,
    attention_bias,
    scaled_attention,
    split_heads,
)
from pet_fairseq.nn.relative_bias import Positions


class GroupedQueryAttention(CachingAttention):
    """softmax(R(Q) R(K)^T / sqrt(D)) V per head, where R rotates by position.

    With `qk_norm_eps` the queries and keys of each head are normalised before that: RMSNorm over D,
    with weights that the heads share (Qwen3).

    Takes the place of fairseq's attention in a decoder layer. Its cache holds the rotated keys.

    Args:
        num_heads: of queries.
        key_value_heads: of keys and values, a divisor of num_heads.
        head_dim: D, width of a head. qkv_bias: whether queries, keys and values have a bias.
        qk_norm_eps: what RMSNorm adds to the mean square of queries and keys; None: no norm.
    """

    needs_positions = True  # callers give `positions` if keys and queries are different vectors

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        key_value_heads: int,
        head_dim: int,
        rotary: RotaryPositions,
        qkv_bias: bool = False,
        qk_norm_eps: Optional[float] = None,
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
        self.q_norm, self.k_norm = nn.Identity(), nn.Identity()
        if qk_norm_eps is not None:
            self.q_norm, self.k_norm = (nn.RMSNorm(head_dim, qk_norm_eps) for _ in range(2))

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor] = None,
        value: Optional[Tensor] = None,
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        need_weights: bool = False,
        attn_mask: Optional[Tensor] = None,
        positions: Optional[tuple[Positions, Positions]] = None,
    ) -> tuple[Tensor, None]:
        """Attend from T positions to S vectors and to those in the cache.

        Args:
            query: T x B x C. key: S x B x C; None for the query itself.
            value: not read, because in fairseq's calls it is the same tensor as `key`.
            key_padding_mask: B x S, True = padding.
            attn_mask: T x S, added to the scores if floating point, else True = not visible; S
                includes the cache.
            positions: of the queries and of the keys; by default both go on where the cache ends.
        Returns:
            T x B x C, and no weights.
        """
        cache = self._get_input_buffer(incremental_state)
        if positions is None:
            start = cache["prev_key"].size(2) if cache else 0
            positions = 2 * ((slice(start, start + len(query)),),)
        of_queries, of_keys = positions
        q = self.q_norm(split_heads(self.q_proj(query), self.head_dim))
        q = self.rotary.rotate(q, *of_queries)
        k, v = self._keys_and_values(query if key is None else key, *of_keys)
        if cache:
            k, v, key_padding_mask = append_to_cache(cache, k, v, key_padding_mask)
        if incremental_state is not None:
            state = {"prev_key": k, "prev_value": v, "prev_key_padding_mask": key_padding_mask}
            self._set_input_buffer(incremental_state, state)

        bias = attention_bias(attn_mask, key_padding_mask, q.dtype)
        group = self.num_heads // self.key_value_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        dropout = self.dropout if self.training else 0.0
        context = scaled_attention(q, k, v, bias, dropout)  # B x H x T x D
        return self.out_proj(context.permute(2, 0, 1, 3).flatten(2)), None

    def keys_and_values(self, x: Tensor, *positions: slice) -> dict[str, Tensor]:
        """What the cache keeps of a text's input x, T x B x C; both are B x heads x T x D.

        Decoding goes on at the position that equals the cache's length, T. Where the text ends at
        another position, all keys are rotated by the difference: only distances between queries and
        keys matter.

        Args:
            positions: of the vectors; the last one ends with the text. By default 0 to T - 1.
        """
        positions = positions or (slice(0, len(x)),)
        k, v = self._keys_and_values(x, *positions)
        steps = len(x) - positions[-1].stop
        return {"prev_key": self.rotary.move(k, steps) if steps else k, "prev_value": v}

    def _keys_and_values(self, x: Tensor, *positions: slice) -> tuple[Tensor, Tensor]:
        """Rotated keys, and values, of the vectors x, T x B x C: both B x heads x T x D."""
        k = self.k_norm(split_heads(self.k_proj(x), self.head_dim))
        return self.rotary.rotate(k, *positions), split_heads(self.v_proj(x), self.head_dim)
