"""Multi-head attention on torch's fused kernels, with fairseq's interface and parameter names."""

import math
from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq.incremental_decoding_utils import FairseqIncrementalState
from fairseq.modules import FairseqDropout
from fairseq.modules import MultiheadAttention as FairseqMultiheadAttention
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from pet_fairseq.nn.relative_bias import Positions, RelativeBias

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
CACHE = "attn_state"  # the key under which fairseq's own attention stores its cache

# up to this length the scores of all pairs of positions may be kept for the backward pass
LONGEST_IN_STEPS = 256

IncrementalState = dict[str, dict[str, Optional[Tensor]]]
Cache = dict[str, Any]  # tensors, and None for a padding mask of which nothing is padding


class CachingAttention(FairseqIncrementalState, nn.Module):
    """An attention with fairseq's cache of keys and values for incremental decoding."""

    def reorder_incremental_state(
        self, incremental_state: Optional[IncrementalState], new_order: Tensor
    ) -> Optional[IncrementalState]:
        """Bring the cache into the order that beam search chose."""
        cache = self._get_input_buffer(incremental_state)
        if not cache:
            return incremental_state
        cache = {
            name: None if tensor is None else tensor.index_select(0, new_order)
            for name, tensor in cache.items()
        }
        return self._set_input_buffer(incremental_state, cache)

    # fairseq's decoder layer reads and writes the cache through these two names
    def _get_input_buffer(self, incremental_state: Optional[IncrementalState]) -> Cache:
        return self.get_incremental_state(incremental_state, CACHE) or {}

    def _set_input_buffer(
        self, incremental_state: Optional[IncrementalState], buffer: Cache
    ) -> Optional[IncrementalState]:
        return self.set_incremental_state(incremental_state, CACHE, buffer)


class MultiheadAttention(CachingAttention):
    """softmax(Q K^T / sqrt(head_dim) + R) V per head; num_heads x head_dim need not be embed_dim.

    R is a bias by the distance of query and key, or 0.

    Takes the place of fairseq's module in its Transformer layers: same sub-modules (PROJECTIONS),
    same calls, same cache for incremental decoding.

    Args:
        embed_dim: width of queries and of the output.
        num_heads: number of heads.
        head_dim: width of one head; embed_dim / num_heads if None.
        kdim, vdim: widths of keys and values; embed_dim if None.
        bias: whether the projections have one.
        scaled: whether scores are divided by sqrt(head_dim).
        relative: gives R; layers may share it. None: 0.
    Raises:
        ValueError: no `head_dim`, and num_heads does not divide embed_dim.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        head_dim: Optional[int] = None,
        kdim: Optional[int] = None,
        vdim: Optional[int] = None,
        dropout: float = 0.0,
        self_attention: bool = False,
        encoder_decoder_attention: bool = False,
        q_noise: float = 0.0,
        qn_block_size: int = 8,
        bias: bool = True,
        scaled: bool = True,
        relative: Optional[RelativeBias] = None,
    ):
        super().__init__()
        if head_dim is None and embed_dim % num_heads != 0:
            raise ValueError(f"width {embed_dim} is not divisible by {num_heads} heads")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = head_dim or embed_dim // num_heads
        self.self_attention = self_attention
        self.encoder_decoder_attention = encoder_decoder_attention
        self.scaled = scaled
        self.relative = relative
        self.dropout_module = FairseqDropout(dropout, module_name="MultiheadAttention")

        def linear(inputs: int, outputs: int) -> nn.Module:
            return quant_noise(nn.Linear(inputs, outputs, bias), q_noise, qn_block_size)

        inner_dim = num_heads * self.head_dim
        self.k_proj = linear(kdim or embed_dim, inner_dim)
        self.v_proj = linear(vdim or embed_dim, inner_dim)
        self.q_proj = linear(embed_dim, inner_dim)
        self.out_proj = linear(inner_dim, embed_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as fairseq does: Xavier, with Q, K and V of equal input as one matrix."""
        inputs = {p.in_features for p in (self.q_proj, self.k_proj, self.v_proj)}
        gain = 1 / math.sqrt(2) if len(inputs) == 1 else 1.0
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    @property
    def needs_positions(self) -> bool:
        """Whether callers give `positions` if keys and queries are different vectors."""
        return self.relative is not None

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor],
        value: Optional[Tensor],
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Optional[Tensor] = None,
        need_head_weights: bool = False,
        positions: Optional[tuple[Positions, Positions]] = None,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Attend from T queries to S keys.

        Args:
            query: T x B x C. key, value: S x B x kdim and S x B x vdim; not read with `static_kv`
                once the cache is filled.
            key_padding_mask: B x S, True = padding.
            attn_mask: T x S, added to the scores if floating point, else True = not visible.
            static_kv: keys and values are computed once and cached (encoder-decoder attention).
            positions: of the queries and of the keys, for a bias by distance; by default the keys
                are all positions from the first on, and the queries the last ones of these.

        Returns:
            output T x B x C, and the weights before dropout: B x T x S averaged over the heads
            with `need_weights`, H x B x T x S with `need_head_weights`, else None.
        """
        cache = self._get_input_buffer(incremental_state)
        q = split_heads(self._project("q_proj", query), self.head_dim)
        if not self.scaled:
            q = q * math.sqrt(self.head_dim)  # by which all kernels divide
        if static_kv and cache:
            k, v = cache["prev_key"], cache["prev_value"]
            key_padding_mask = cache.get("prev_key_padding_mask")
        else:
            k = split_heads(self._project("k_proj", key), self.head_dim)
            v = split_heads(self._project("v_proj", value), self.head_dim)
            if cache:
                k, v, key_padding_mask = append_to_cache(cache, k, v, key_padding_mask)
        if incremental_state is not None:
            state = {"prev_key": k, "prev_value": v, "prev_key_padding_mask": key_padding_mask}
            self._set_input_buffer(incremental_state, state)

        bias = attention_bias(attn_mask, key_padding_mask, q.dtype)
        if self.relative is not None:
            by_distance = self.relative.between(q.size(2), k.size(2), positions)[None].to(q.dtype)
            bias = by_distance if bias is None else bias + by_distance
        drops = self.training or self.dropout_module.apply_during_inference
        dropout = self.dropout_module.p if drops else 0.0
        if not (need_weights or need_head_weights):
            context = scaled_attention(q, k, v, bias, dropout)
            return self._project("out_proj", self._join_heads(context)), None
        weights = attention_weights(q, k, bias)  # B x H x T x S
        context = weighted_sum(weights, v, dropout)
        output = self._project("out_proj", self._join_heads(context))
        return output, weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)

    def reorder_incremental_state(
        self, incremental_state: Optional[IncrementalState], new_order: Tensor
    ) -> Optional[IncrementalState]:
        """Bring the cache into the order that beam search chose.

        As in fairseq, an order of unchanged length moves beams only within their sentence, and
        there the keys and values of the encoder are equal: they stay where they are.
        """
        cache = self._get_input_buffer(incremental_state)
        fixed = cache and self.encoder_decoder_attention
        if fixed and cache["prev_key"].size(0) == len(new_order):
            return incremental_state
        return super().reorder_incremental_state(incremental_state, new_order)

    # splits the in_proj_weight of very old checkpoints
    upgrade_state_dict_named = FairseqMultiheadAttention.upgrade_state_dict_named

    def _project(self, name: str, x: Any) -> Tensor:
        return getattr(self, name)(x)

    def weights_in_use(self, name: str) -> tuple[Tensor, Tensor]:
        """Weight and bias of a projection, as far as this attention computes with them.

        Zeros stand for a bias that it does not have.
        """
        linear = getattr(self, name)
        bias = linear.bias
        return linear.weight, linear.weight.new_zeros(linear.out_features) if bias is None else bias

    def _join_heads(self, x: Tensor) -> Tensor:
        """B x H x T x D -> T x B x (H D)"""
        batch, heads, time, width = x.shape
        return x.permute(2, 0, 1, 3).reshape(time, batch, heads * width)


def split_heads(x: Tensor, head_dim: int) -> Tensor:
    """T x B x (H D) -> B x H x T x D"""
    return x.unflatten(2, (-1, head_dim)).permute(1, 2, 0, 3)


def from_fairseq(attention: FairseqMultiheadAttention) -> MultiheadAttention:
    """Make a module of this package that computes the same as fairseq's and shares its projections.

    fairseq's module reads the projections' weights and gives them to torch; this one calls the
    projections, so that others can stand in their place.
    """
    same = MultiheadAttention(
        attention.embed_dim,
        attention.num_heads,
        kdim=attention.kdim,
        vdim=attention.vdim,
        self_attention=attention.self_attention,
        encoder_decoder_attention=attention.encoder_decoder_attention,
    )
    for name in ("dropout_module", *PROJECTIONS):
        setattr(same, name, getattr(attention, name))
    return same.train(attention.training)


def replace_fairseq_attention(model: nn.Module) -> None:
    """Put this package's attention in the place of fairseq's, wherever a model has it.

    Left as it is where it adds a key and a value of its own.
    """
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if not isinstance(child, FairseqMultiheadAttention):
                continue
            if child.bias_k is None and not child.add_zero_attn:
                setattr(module, name, from_fairseq(child))


def append_to_cache(
    cache: Cache, k: Tensor, v: Tensor, padding_mask: Optional[Tensor]
) -> tuple[Tensor, Tensor, Optional[Tensor]]:
    """Append new keys and values (B x H x T x D) and their padding mask (B x T) to the cached ones.

    A missing mask, old or new, means no padding. The result has a mask if either part has one.
    """
    old_mask = cache.get("prev_key_padding_mask")
    if old_mask is not None or padding_mask is not None:
        masks = [
            torch.zeros(part.size(0), part.size(2), dtype=torch.bool, device=k.device)
            if mask is None
            else mask.bool()
            for mask, part in ((old_mask, cache["prev_key"]), (padding_mask, k))
        ]
        padding_mask = torch.cat(masks, dim=1)
    k = torch.cat([cache["prev_key"], k], dim=2)
    v = torch.cat([cache["prev_value"], v], dim=2)
    return k, v, padding_mask


def attention_bias(
    attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor], dtype: torch.dtype
) -> Optional[Tensor]:
    """What to add to the scores: B x 1 x T x S or a shape that broadcasts to it; None for nothing.

    Padding gets a large negative number instead of -inf: its weight is exactly 0 beside any real
    key, and a row that sees only padding stays finite instead of spreading nan.
    """
    bias = None
    if attn_mask is not None:
        if not attn_mask.is_floating_point():
            attn_mask = torch.zeros_like(attn_mask, dtype=dtype).masked_fill(
                attn_mask.bool(), -math.inf
            )
        bias = attn_mask.to(dtype)[None, None]
    if key_padding_mask is not None:
        mask = key_padding_mask.bool()[:, None, None]
        padding = torch.zeros_like(mask, dtype=dtype).masked_fill(mask, torch.finfo(dtype).min / 2)
        bias = padding if bias is None else bias + padding
    return bias


def scaled_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], dropout: float
) -> Tensor:
    """softmax(q k^T / sqrt(D) + bias) v per head, in the way that is fast here: B x H x T x D.

    Args:
        q: B x H x T x D; k, v: B x H x S x D. bias: broadcasts to B x H x T x S. dropout: the
            probability that a weight is dropped.
    """
    if steps_are_faster(q, k, v):
        return attention_in_steps(q, k, v, bias, dropout)
    return fused_attention(q, k, v, bias, dropout, head_multiple(q))


def attention_in_steps(
    q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], dropout: float
) -> Tensor:
    """`fused_attention` in three operations, which keep all weights for the backward pass.

    The softmax is computed in float32 and rounded once, without copies of the scores in float32.
    """
    return weighted_sum(F.softmax(attention_scores(q, k, bias), dim=-1), v, dropout)


def weighted_sum(weights: Tensor, v: Tensor, dropout: float) -> Tensor:
    """The values v, B x H x S x D, by weights B x H x T x S of which some drop: B x H x T x D."""
    return F.dropout(weights.type_as(v), dropout) @ v


def steps_are_faster(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether scores, softmax and sum, one after the other, take less time than the fused kernel.

    They do in trainings in bfloat16 on a CPU: there the kernel's backward pass takes several times
    as long (docs/results/variator.md, "Time of the plugins' training").
    """
    if q.device.type != "cpu" or q.dtype != torch.bfloat16:
        return False
    short = max(q.size(-2), k.size(-2)) <= LONGEST_IN_STEPS
    return short and torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))


def head_multiple(q: Tensor) -> int:
    """The number that must divide the heads' width for torch to use its fused kernels.

    It is 8 in half precision on a GPU. torch's fallback stores the scores of all pairs of
    positions.
    """
    return 8 if q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) else 1


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], dropout: float, multiple: int
) -> Tensor:
    """softmax(q k^T / sqrt(D) + bias) v per head: B x H x T x D.

    Heads are padded with zeros to a width that is a multiple of `multiple`, which changes no score
    and no value.
    """
    head_dim = q.size(-1)
    if missing := -head_dim % multiple:
        q, k, v = (F.pad(x, (0, missing)) for x in (q, k, v))
    context = F.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, dropout_p=dropout, scale=head_dim**-0.5
    )
    return context[..., :head_dim]


def attention_weights(q: Tensor, k: Tensor, bias: Optional[Tensor]) -> Tensor:
    """softmax(q k^T / sqrt(D) + bias) in float32 or wider: B x H x T x S."""
    scores = attention_scores(q, k, bias)
    return F.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def attention_scores(q: Tensor, k: Tensor, bias: Optional[Tensor]) -> Tensor:
    """q k^T / sqrt(D) + bias: B x H x T x S."""
    q = q * q.size(-1) ** -0.5  # before the product, which could overflow in half precision
    scores = q @ k.transpose(-1, -2)
    return scores if bias is None else scores + bias
