"""An encoder-decoder Transformer as two graphs: the encoder, and one step of the decoder.

They compute what fairseq's modules do, on the weights of these, but take attention masks, as the
library transformers does, and cached keys and values as tensors. B sentences, S source positions,
T new target positions, P earlier ones, C width, H heads, D width of a head, V words.
"""

from collections.abc import Callable, Sequence
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from pet_fairseq.nn.attention import MultiheadAttention

HIDDEN = -1e9  # added to the score of a position that is not seen
PER_LAYER = 4  # tensors that a layer caches: keys and values of the target, then of the source


class Attention(nn.Module):
    """The weights of an attention that it computes with."""

    def __init__(self, attention: nn.Module):
        super().__init__()
        self.heads, self.width = attention.num_heads, attention.head_dim
        self.scale = attention.head_dim**-0.5
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, linear(*weights_in_use(attention, name)))

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """B x S x C -> B x H x S x D, twice"""
        return self._split(self.k_proj(x)), self._split(self.v_proj(x))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
        """Attend from B x T x C; bias: broadcasts to B x H x T x S."""
        scores = self._split(self.q_proj(x) * self.scale) @ keys.transpose(2, 3) + bias
        context = scores.softmax(dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        """B x T x (H D) -> B x H x T x D"""
        return x.unflatten(2, (self.heads, self.width)).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, layer: nn.Module):
        super().__init__()
        self.fc1, self.fc2 = layer.fc1, layer.fc2
        self.activation: Callable[[Tensor], Tensor] = layer.activation_fn

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activation(self.fc1(x)))


class Embedding(nn.Module):
    """What lies between words and the first layer of one of fairseq's stacks."""

    def __init__(self, stack: nn.Module):
        super().__init__()
        self.words = nn.Embedding.from_pretrained(stack.embed_tokens.weight)
        self.scale = stack.embed_scale
        self.project = getattr(stack, "project_in_dim", None)
        self.positions = positions_of(stack.embed_positions)
        self.norm = stack.layernorm_embedding

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Tokens B x T -> B x T x C; positions: B x T or T, from 0."""
        x = self.words(tokens) * self.scale
        if self.project is not None:
            x = self.project(x)
        if self.positions is not None:
            x = x + self.positions(positions)
        return x if self.norm is None else self.norm(x)


class Sinusoids(nn.Module):
    """fairseq's vectors of positions: all sines, then all cosines.

    Args:
        width: of a vector. first: the number that fairseq gives to position 0.
    """

    def __init__(self, width: int, first: int):
        super().__init__()
        self.first = first
        self.missing = width % 2
        half = width // 2
        exponents = torch.arange(half, dtype=torch.double) / (half - 1)
        self.register_buffer("frequencies", (10_000**-exponents).float())

    def forward(self, positions: Tensor) -> Tensor:
        angles = (positions + self.first).float().unsqueeze(-1) * self.frequencies
        return F.pad(torch.cat([angles.sin(), angles.cos()], dim=-1), (0, self.missing))


class Encoder(nn.Module):
    """Tokens and their mask, 1 for words and 0 for padding (B x S each) -> states, B x S x C."""

    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.embedding = Embedding(encoder)
        self.layers = nn.ModuleList(EncoderLayer(layer) for layer in layers_of(encoder))
        self.norm = encoder.layer_norm

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
        x = self.embedding(input_ids, positions)
        bias = hide(attention_mask)
        for layer in self.layers:
            x = layer(x, bias)
        return x if self.norm is None else self.norm(x)


class NumberedEncoder(nn.Module):
    """An encoder whose words have other numbers; arguments and result are those of `Encoder`.

    Args:
        first: the number of its dictionary's first word. words: how many there are.
        unknown: the row in its embedding of words with all other numbers.
    """

    def __init__(self, encoder: Encoder, first: int, words: int, unknown: int):
        super().__init__()
        self.encoder = encoder
        self.first, self.words, self.unknown = first, words, unknown

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        rows = input_ids - self.first
        is_known = (rows >= 0) & (rows < self.words)
        return self.encoder(torch.where(is_known, rows, self.unknown), attention_mask)


class EncoderLayer(nn.Module):
    def __init__(self, layer: nn.Module):
        super().__init__()
        self.attention, self.feed_forward = Attention(layer.self_attn), FeedForward(layer)
        self.norms = nn.ModuleList([layer.self_attn_layer_norm, layer.final_layer_norm])
        self.norm_first = layer.normalize_before

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        def attend(y: Tensor) -> Tensor:
            return self.attention(y, *self.attention.keys_values(y), bias)

        x = add(x, attend, self.norms[0], self.norm_first)
        return add(x, self.feed_forward, self.norms[1], self.norm_first)


class Decoder(nn.Module):
    """One step of decoding, of one word or several: tokens B x T -> logits, B x T x V.

    The cache has PER_LAYER tensors for each layer, B x H x P x D for the target and B x H x S x D
    for the source. At the first step all are empty: P and S are 0. The result holds those for the
    next step behind the logits.
    """

    def __init__(self, decoder: nn.Module):
        super().__init__()
        self.embedding = Embedding(decoder)
        self.layers = nn.ModuleList(DecoderLayer(layer) for layer in layers_of(decoder))
        self.norm = decoder.layer_norm
        self.project = decoder.project_out_dim
        output = decoder.output_projection
        self.output = linear(output.weight, output.bias)

    def forward(
        self,
        encoder_attention_mask: Tensor,
        input_ids: Tensor,
        encoder_hidden_states: Tensor,
        past_key_values: Sequence[Tensor],
    ) -> tuple[Tensor, ...]:
        before, new = past_key_values[0].size(2), input_ids.size(1)
        positions = torch.arange(before, before + new)
        x = self.embedding(input_ids, positions)
        seen = torch.arange(before + new) <= positions.unsqueeze(1)
        bias = hide(seen), hide(encoder_attention_mask)
        # the source's keys and values are computed once: later there is nothing new in it
        source = encoder_hidden_states[:, past_key_values[2].size(2) :]
        presents: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            x, cache = layer(x, source, past_key_values[PER_LAYER * i : PER_LAYER * (i + 1)], bias)
            presents += cache
        x = x if self.norm is None else self.norm(x)
        x = x if self.project is None else self.project(x)
        return self.output(x), *presents


class DecoderLayer(nn.Module):
    def __init__(self, layer: nn.Module):
        super().__init__()
        self.attention, self.feed_forward = Attention(layer.self_attn), FeedForward(layer)
        self.cross_attention = Attention(layer.encoder_attn)
        norms = (layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm)
        self.norms = nn.ModuleList(norms)
        self.norm_first = layer.normalize_before

    def forward(
        self, x: Tensor, source: Tensor, past: Sequence[Tensor], bias: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """One layer; source: B x S x C, states that are not in the cache yet."""
        cache = append(past[2:], self.cross_attention.keys_values(source))
        own: list[Tensor] = []

        def attend(y: Tensor) -> Tensor:
            own.extend(append(past[:2], self.attention.keys_values(y)))
            return self.attention(y, *own, bias[0])

        x = add(x, attend, self.norms[0], self.norm_first)
        x = add(
            x, lambda y: self.cross_attention(y, *cache, bias[1]), self.norms[1], self.norm_first
        )
        x = add(x, self.feed_forward, self.norms[2], self.norm_first)
        return x, [*own, *cache]


def add(x: Tensor, block: Callable[[Tensor], Tensor], norm: nn.Module, norm_first: bool) -> Tensor:
    """A block around which there is a residual connection."""
    return x + block(norm(x)) if norm_first else norm(x + block(x))


def append(past: Sequence[Tensor], new: Sequence[Tensor]) -> list[Tensor]:
    return [torch.cat(parts, dim=2) for parts in zip(past, new)]


def hide(seen: Tensor) -> Tensor:
    """What to add to scores: seen, T x S or B x S, becomes 1 x 1 x T x S or B x 1 x 1 x S."""
    bias = (1 - seen.float()) * HIDDEN
    return bias[:, None, None] if seen.dtype == torch.long else bias[None, None]


def layers_of(stack: nn.Module) -> list[nn.Module]:
    return [stack.layers[i] for i in range(len(stack.layers))]  # LayerDrop's iterator skips


def weights_in_use(attention: nn.Module, name: str) -> tuple[Tensor, Optional[Tensor]]:
    """Weight and bias of a projection, as far as the attention computes with them."""
    if isinstance(attention, MultiheadAttention):
        return attention.weights_in_use(name)
    projection = getattr(attention, name)
    return projection.weight, projection.bias


def linear(weight: Tensor, bias: Optional[Tensor]) -> nn.Linear:
    """A linear layer on these tensors, which it shares with others."""
    layer = nn.Linear(weight.size(1), weight.size(0), bias is not None, device="meta")
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return layer


def positions_of(embedding: Optional[nn.Module]) -> Optional[Callable[[Tensor], Tensor]]:
    """A module that gives positions from 0 their vectors; None without an embedding of them."""
    if embedding is None:
        return None
    first = embedding.padding_idx + 1
    if isinstance(embedding, SinusoidalPositionalEmbedding):
        return Sinusoids(embedding.embedding_dim, first)
    return nn.Embedding.from_pretrained(embedding.weight[first:])
