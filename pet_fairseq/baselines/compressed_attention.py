"""Attention over source and target at once, with values as wide as an FFN's inner layer (CAN).

Y. Li et al., "An Efficient Transformer Decoder with Compressed Sub-layers", AAAI 2021.
"""

from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from fairseq.incremental_decoding_utils import FairseqIncrementalState
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from pet_fairseq.nn.attention import IncrementalState, append_to_cache, attention_bias


class KeysValues(NamedTuple):
    """Keys and values that queries attend to; the fields are named as in fairseq's caches."""

    prev_key: Tensor  # B x H x N x D
    prev_value: Tensor  # B x H x N x V
    prev_key_padding_mask: Optional[Tensor]  # B x N, True = padding


def attention_scores(q: Tensor, attended: KeysValues, attn_mask: Optional[Tensor] = None) -> Tensor:
    """q k^T plus masks: B x H x T x N.

    Args:
        q: B x H x T x D, already scaled. attn_mask: T x N, added to the scores.
    """
    scores = q @ attended.prev_key.transpose(-1, -2)
    bias = attention_bias(attn_mask, attended.prev_key_padding_mask, q.dtype)
    return scores if bias is None else scores + bias


def joint_weights(
    q: Tensor, source: KeysValues, target: KeysValues, attn_mask: Optional[Tensor]
) -> Tensor:
    """One softmax over the S source and the N target keys, source first: B x H x T x (S + N).

    Args:
        q: B x H x T x D, already scaled. attn_mask: T x N, for the target only.
    """
    scores = [attention_scores(q, source), attention_scores(q, target, attn_mask)]
    wide = torch.promote_types(q.dtype, torch.float32)
    return F.softmax(torch.cat(scores, dim=-1), dim=-1, dtype=wide).type_as(q)


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A projection with Xavier-uniform weights and a bias of 0."""
    projection = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(projection.weight)
    nn.init.zeros_(projection.bias)
    return projection


class CompressedAttention(FairseqIncrementalState, nn.Module):
    """Both attentions of a decoder layer in one, its values folded with the FFN's first matrix.

    Args:
        embed_dim: d, width of the queries; the heads' keys are d / H wide.
        value_dim: v, width of the output; the heads' values are v / H wide.
        encoder_embed_dim: e, width of the encoder's output.
    """

    def __init__(
        self,
        embed_dim: int,
        value_dim: int,
        encoder_embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.num_heads = num_heads
        self.scaling = (embed_dim // num_heads) ** -0.5
        self.dropout_module = FairseqDropout(dropout, module_name="CompressedAttention")
        self.q_proj = linear(embed_dim, embed_dim)
        self.k_proj = linear(embed_dim, embed_dim)
        self.v_proj = linear(embed_dim, value_dim)
        self.source_k_proj = linear(encoder_embed_dim, embed_dim)
        self.source_v_proj = linear(encoder_embed_dim, value_dim)

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor,
        encoder_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        attn_mask: Optional[Tensor] = None,
        padding_mask: Optional[Tensor] = None,
    ) -> tuple[Tensor, Tensor]:
        """Attend from T target positions to the source and to the target.

        Args:
            x: T x B x d. encoder_out: S x B x e. encoder_padding_mask: B x S, True = padding.
            incremental_state: with it, x is the newest position and the others are in the cache.
            attn_mask: T x T, added to the scores of the target. padding_mask: B x T, True =
            padding.
        Returns:
            T x B x v, and the weights on the source before dropout: B x H x T x S. They sum to 1
            with those on the target.
        """
        source = self._source(encoder_out, encoder_padding_mask, incremental_state)
        target = self._target(x, padding_mask, incremental_state)
        q = self._split_heads(self.q_proj(x) * self.scaling)
        weights = joint_weights(q, source, target, attn_mask)
        sizes = [attended.prev_key.size(2) for attended in (source, target)]
        on_source, on_target = self.dropout_module(weights).split(sizes, dim=-1)
        context = on_source @ source.prev_value + on_target @ target.prev_value
        # B x H x T x V -> T x B x (H V)
        return context.permute(2, 0, 1, 3).flatten(2), weights[..., : sizes[0]]

    def _source(
        self,
        encoder_out: Tensor,
        encoder_padding_mask: Optional[Tensor],
        incremental_state: Optional[IncrementalState],
    ) -> KeysValues:
        """Keys and values of the encoder's output, which decoding computes once and keeps."""
        cache = self.get_incremental_state(incremental_state, "source")
        if cache:
            return KeysValues(**cache)
        key = self._split_heads(self.source_k_proj(encoder_out))
        value = self._split_heads(self.source_v_proj(encoder_out))
        attended = KeysValues(key, value, encoder_padding_mask)
        self.set_incremental_state(incremental_state, "source", attended._asdict())
        return attended

    def _target(
        self,
        x: Tensor,
        padding_mask: Optional[Tensor],
        incremental_state: Optional[IncrementalState],
    ) -> KeysValues:
        """Keys and values of the target so far, to which each step of decoding adds a position."""
        key, value = self._split_heads(self.k_proj(x)), self._split_heads(self.v_proj(x))
        attended = KeysValues(key, value, padding_mask)
        cache = self.get_incremental_state(incremental_state, "target")
        if cache:
            attended = KeysValues(*append_to_cache(cache, *attended))
        self.set_incremental_state(incremental_state, "target", attended._asdict())
        return attended

    def _split_heads(self, x: Tensor) -> Tensor:
        """T x B x (H D) -> B x H x T x D"""
        return x.unflatten(-1, (self.num_heads, -1)).permute(1, 2, 0, 3)

    def reorder_incremental_state(
        self, incremental_state: Optional[IncrementalState], new_order: Tensor
    ) -> Optional[IncrementalState]:
        """Bring the caches into the order that beam search chose.

        As in fairseq, an order of unchanged length moves beams only within their sentence, whose
        source is the same for all of them: it stays as it is until a sentence leaves.
        """
        source = self.get_incremental_state(incremental_state, "source")
        target = self.get_incremental_state(incremental_state, "target")
        if not source or not target:
            return incremental_state
        self.set_incremental_state(incremental_state, "target", _select(target, new_order))
        if source["prev_key"].size(0) != len(new_order):
            self.set_incremental_state(incremental_state, "source", _select(source, new_order))
        return incremental_state


def _select(cache: dict[str, Optional[Tensor]], rows: Tensor) -> dict[str, Optional[Tensor]]:
    return {name: None if t is None else t.index_select(0, rows) for name, t in cache.items()}
