"""One decoding step of a Transformer decoder, on weights gathered from its modules.

What makes it fast: the beams of a sentence attend together, to caches that never move. Keys and
values of every step stay where they were written, one slot per beam, and a mask says which slots a
beam descends from; following other beams costs a small gather in that mask.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerDecoderBase, TransformerModelBase
from fairseq.modules import FairseqDropout
from fairseq.modules import MultiheadAttention as FairseqMultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from pet_fairseq.decoding.cache import KeyValueCache, Visibility
from pet_fairseq.nn.attention import (
    PROJECTIONS,
    MultiheadAttention,
    attention_bias,
    head_multiple,
)
from pet_fairseq.nn.freezing import make_contiguous
from pet_fairseq.nn.relative_bias import RelativeBias

MORE_STEPS = 10  # a translation is seldom longer than its source by more

Affine = tuple[Tensor, Tensor]  # weight (out x in), bias (out)
FeedForwardMap = tuple[Tensor, Optional[Tensor]]  # the same; None: it has no bias

# methods that a subclass must have left alone for the step below to be its forward pass
DECODER_METHODS = ("forward", "extract_features", "extract_features_scriptable", "output_layer")
LAYER_METHODS = ("forward", "residual_connection")
LAYER_EXTRAS = ("c_attn", "attn_ln", "ffn_layernorm", "w_resid")


def is_plain(model: nn.Module) -> bool:
    """Whether `TransformerSteps` computes what the model's decoder does.

    It knows fairseq's layers and our attention with their usual options, but no adaptive softmax,
    quantisation noise, dropout that stays on in inference, or layers with parts of their own.
    """
    return why_not_plain(model) is None


def why_not_plain(model: nn.Module) -> Optional[str]:
    """What `TransformerSteps` cannot compute of a model's decoder, None if it can compute all."""
    return next(_obstacles(model), None)


def _obstacles(model: nn.Module) -> Iterator[str]:
    decoder = getattr(model, "decoder", None)
    kind = type(decoder).__name__
    if not isinstance(decoder, TransformerDecoderBase):
        yield f"its decoder is no Transformer's ({kind})"
        return
    if decoder.cross_self_attention:
        yield "--cross-self-attention"
    if decoder.adaptive_softmax is not None:
        yield "--adaptive-softmax-cutoff"
    if decoder.quant_noise is not None:
        yield "--quant-noise-pq"
    if isinstance(model, TransformerModelBase) and not _inherits(
        model, TransformerModelBase, ("get_normalized_probs", "get_normalized_probs_scriptable")
    ):
        yield "it has its own way from features to probabilities"
    if not _inherits(decoder, TransformerDecoderBase, DECODER_METHODS):
        yield f"its decoder computes more than a plain one ({kind})"
    if any(_is_changed(module) for module in decoder.modules()):
        yield "a module of its decoder has a hook, or dropout that stays on"
    if type(decoder.output_projection) is not nn.Linear:
        yield f"its output layer is no plain one ({type(decoder.output_projection).__name__})"
    for layer in _layers(decoder):
        if not _is_plain_layer(layer):
            yield f"a layer of its decoder has parts of its own ({type(layer).__name__})"


def _is_plain_layer(layer: nn.Module) -> bool:
    return (
        isinstance(layer, TransformerDecoderLayerBase)
        and _inherits(layer, TransformerDecoderLayerBase, LAYER_METHODS)
        and all(getattr(layer, name, None) is None for name in LAYER_EXTRAS)
        and type(layer.fc1) is type(layer.fc2) is nn.Linear
        and _is_plain_attention(layer.self_attn)
        and _is_plain_attention(layer.encoder_attn)
    )


def _is_plain_attention(attention: Any) -> bool:
    if type(attention) is FairseqMultiheadAttention:
        adds = attention.bias_k is not None or attention.add_zero_attn or attention.use_xformers
        if adds or getattr(attention.q_proj, "bias", None) is None:
            return False
    elif not (
        isinstance(attention, MultiheadAttention)
        and _inherits(attention, MultiheadAttention, ("forward",))
    ):
        return False
    return all(type(getattr(attention, name)) is nn.Linear for name in PROJECTIONS)


def _inherits(module: nn.Module, base: type, methods: tuple[str, ...]) -> bool:
    return all(getattr(type(module), name) is getattr(base, name) for name in methods)


def _is_changed(module: nn.Module) -> bool:
    """Whether a module computes more than its class says: dropout, hooks, another `forward`."""
    dropout = isinstance(module, FairseqDropout) and module.apply_during_inference
    before = set(module._forward_pre_hooks.values()) - {make_contiguous}
    hooks = module._forward_hooks.values()
    after = [hook for hook in hooks if not getattr(hook, "only_gradients", False)]
    # --checkpoint-activations leaves a `forward` that saves memory in training
    forward = vars(module).get("precheckpoint_forward", vars(module).get("forward"))
    replaced = (
        forward is not None and getattr(forward, "__func__", None) is not type(module).forward
    )
    return bool(dropout or before or after or replaced)


def _layers(decoder: TransformerDecoderBase) -> list[nn.Module]:
    return [decoder.layers[i] for i in range(len(decoder.layers))]  # LayerDrop's iterator skips


@dataclass
class LayerWeights:
    """The weights of a decoder layer: projections of one input in one matrix, queries scaled."""

    self_qkv: Affine
    self_out: Affine
    cross_q: Affine
    cross_kv: Affine
    cross_out: Affine
    fc1: FeedForwardMap
    fc2: FeedForwardMap
    norms: tuple[nn.Module, nn.Module, nn.Module]  # of self-attention, cross-attention, FFN
    normalize_before: bool
    activation: Callable[[Tensor], Tensor]
    self_heads: int
    cross_heads: int
    relative: Optional[RelativeBias]  # of self-attention


def gather_weights(layer: TransformerDecoderLayerBase) -> LayerWeights:
    """Copies of the attentions' weights; those of the FFN are the layer's own."""
    own, cross = layer.self_attn, layer.encoder_attn
    return LayerWeights(
        self_qkv=_stack(_queries(own), _weights(own, "k_proj"), _weights(own, "v_proj")),
        self_out=_weights(own, "out_proj"),
        cross_q=_queries(cross),
        cross_kv=_stack(_weights(cross, "k_proj"), _weights(cross, "v_proj")),
        cross_out=_weights(cross, "out_proj"),
        fc1=(layer.fc1.weight, layer.fc1.bias),
        fc2=(layer.fc2.weight, layer.fc2.bias),
        norms=(layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm),
        normalize_before=layer.normalize_before,
        activation=layer.activation_fn,
        self_heads=own.num_heads,
        cross_heads=cross.num_heads,
        relative=getattr(own, "relative", None),
    )


def _weights(attention: nn.Module, name: str) -> Affine:
    """Weight and bias of the used heads, zero-padded to a head width that fused kernels accept."""
    if isinstance(attention, MultiheadAttention):
        weight, bias = attention.weights_in_use(name)
    else:
        projection = getattr(attention, name)
        weight, bias = projection.weight, projection.bias
    missing = -attention.head_dim % head_multiple(weight)
    if not missing:
        return weight, bias
    heads = (attention.num_heads, attention.head_dim)
    if name == "out_proj":
        return F.pad(weight.unflatten(1, heads), (0, missing)).flatten(1), bias
    weight = F.pad(weight.unflatten(0, heads), (0, 0, 0, missing)).flatten(0, 1)
    return weight, F.pad(bias.unflatten(0, heads), (0, missing)).flatten()


def _queries(attention: nn.Module) -> Affine:
    scale = attention.head_dim**-0.5 if getattr(attention, "scaled", True) else 1.0
    weight, bias = _weights(attention, "q_proj")
    return weight * scale, bias * scale


def _stack(*projections: Affine) -> Affine:
    weights, biases = zip(*projections)
    return torch.cat(weights), torch.cat(biases)


class TransformerSteps:
    """Decodes a batch with one model, step by step. B sentences, R beams of each.

    R is 1 at the first step, at which all beams are equal, and the beam size afterwards.
    """

    def __init__(self, model: nn.Module, beam_size: int, temperature: float = 1.0):
        self.model = model
        self.beam_size = beam_size
        self.temperature = temperature
        self.decoder = model.decoder
        self.encoder = model.encoder
        self.layers: list[LayerWeights] = []
        self.caches: list[KeyValueCache] = []
        self.source: list[Tensor] = []  # 2 x B x H x S x D for each layer
        self.source_mask: Optional[Tensor] = None
        self.visible = Visibility()

    def begin(self, net_input: dict) -> None:
        """Encode a batch."""
        if not (self.layers and self.model._is_generation_fast):  # they may have been trained
            self.layers = [gather_weights(layer) for layer in _layers(self.decoder)]
        encoder_out = self.encoder.forward_torchscript(net_input)
        states = encoder_out["encoder_out"][0]  # S x B x E
        self.source = [_source_keys_values(states, layer) for layer in self.layers]
        masks = encoder_out["encoder_padding_mask"]
        padding = masks[0] if masks else None
        if padding is not None and padding.device.type == "cpu" and not padding.any():
            padding = None  # on another device this look would wait for it
        self.source_mask = attention_bias(None, padding, states.dtype)
        expected = self.beam_size * (states.size(0) + MORE_STEPS)
        self.caches = [KeyValueCache(expected) for _ in self.layers]
        self.visible = Visibility()

    def step(self, tokens: Tensor, position: int) -> Tensor:
        """The decoder's features after one more token.

        Args:
            tokens: B x R, the last tokens of the beams; position: how many came before them.
        Returns:
            (B R) x C
        """
        x = self._embed(tokens, position)
        self.visible.extend(tokens.size(0), tokens.size(1), x)
        biases = self._self_attention_biases(tokens.size(1), position)
        for layer, cache, source in zip(self.layers, self.caches, self.source):
            x = self._run_layer(x, layer, cache, source, biases[layer.relative], tokens.size(1))
        if self.decoder.layer_norm is not None:
            x = self.decoder.layer_norm(x)
        if self.decoder.project_out_dim is not None:
            x = self.decoder.project_out_dim(x)
        return x

    def log_probs(self, features: Tensor) -> Tensor:
        """The log-probabilities of features: N x C -> N x V, in float32 or wider."""
        logits = self.decoder.output_projection(features)
        if self.temperature != 1.0:
            logits = logits.div_(self.temperature)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        # in place on a CPU, whose allocator would otherwise return and request memory each step
        out = logits if logits.device.type == "cpu" and logits.dtype == dtype else None
        return torch.log_softmax(logits, dim=-1, dtype=dtype, out=out)

    def follow(self, beams: Tensor, kept: Optional[Tensor]) -> None:
        """Reorder the state for the beams that go on.

        Args:
            beams: B x R, the beam that each new one continues.
            kept: the sentences that go on, None for all; `beams` holds these only.
        """
        if kept is not None:
            for cache in self.caches:
                cache.keep(kept)
            self.source = [source.index_select(1, kept) for source in self.source]
            if self.source_mask is not None:
                self.source_mask = self.source_mask.index_select(0, kept)
        self.visible.follow(beams, kept)

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        decoder = self.decoder
        x = decoder.embed_scale * decoder.embed_tokens(tokens.reshape(-1))
        if decoder.project_in_dim is not None:
            x = decoder.project_in_dim(x)
        if decoder.embed_positions is not None:
            before = tokens[:1, :1].expand(1, position + 1)
            x = x + decoder.embed_positions(before, incremental_state={})[:, -1]
        if decoder.layernorm_embedding is not None:
            x = decoder.layernorm_embedding(x)
        return x

    def _self_attention_biases(
        self, num_beams: int, position: int
    ) -> dict[Optional[RelativeBias], Optional[Tensor]]:
        """What this step's self-attentions add to their scores, by their bias of distances.

        Layers that share one have the same: B x H x R x K or broadcasting to it.
        """
        seen = self.visible.bias
        biases: dict[Optional[RelativeBias], Optional[Tensor]] = {None: seen}
        modules = {layer.relative for layer in self.layers if layer.relative is not None}
        if not modules:
            return biases
        steps = torch.arange(-position, 1, device=self.source[0].device)
        # the first step wrote one slot, and each later one a slot for each beam
        of_slots = torch.cat([steps[:1], steps[1:].repeat_interleave(num_beams)])
        for module in modules:
            by_distance = module(of_slots)[None, :, None]
            biases[module] = by_distance if seen is None else by_distance + seen
        return biases

    def _run_layer(
        self,
        x: Tensor,
        layer: LayerWeights,
        cache: KeyValueCache,
        source: Tensor,
        self_bias: Optional[Tensor],
        num_beams: int,
    ) -> Tensor:
        before = layer.normalize_before
        self_norm, cross_norm, ffn_norm = layer.norms

        y = self_norm(x) if before else x
        qkv = _split_heads(F.linear(y, *layer.self_qkv), 3, layer.self_heads, num_beams)
        context = attend(qkv[0], cache.append(qkv[1:]), self_bias)
        x = F.linear(context, *layer.self_out).add_(x)
        x = x if before else self_norm(x)

        y = cross_norm(x) if before else x
        q = _split_heads(F.linear(y, *layer.cross_q), 1, layer.cross_heads, num_beams)
        context = attend(q[0], source, self.source_mask)
        x = F.linear(context, *layer.cross_out).add_(x)
        x = x if before else cross_norm(x)

        y = ffn_norm(x) if before else x
        x = F.linear(layer.activation(F.linear(y, *layer.fc1)), *layer.fc2).add_(x)
        return x if before else ffn_norm(x)


def attend(q: Tensor, keys_values: Tensor, bias: Optional[Tensor]) -> Tensor:
    """softmax(q k^T + bias) v over the heads of all beams.

    Args:
        q: B x H x R x D, scaled; keys_values: 2 x B x H x S x D; bias: B x 1 x R x S or
        broadcasting to it.
    Returns:
        (B R) x (H D)
    """
    batch, heads, num_beams, width = q.shape
    keys, values = keys_values
    context = F.scaled_dot_product_attention(q, keys, values, attn_mask=bias, scale=1.0)
    return context.transpose(1, 2).reshape(batch * num_beams, heads * width)


def _split_heads(x: Tensor, parts: int, heads: int, num_beams: int) -> Tensor:
    """(B R) x (parts H D) -> parts x B x H x R x D"""
    count, width = x.shape
    x = x.view(count // num_beams, num_beams, parts, heads, width // (parts * heads))
    return x.permute(2, 0, 3, 1, 4)


def _source_keys_values(states: Tensor, layer: LayerWeights) -> Tensor:
    """Encoder states S x B x E -> 2 x B x H x S x D"""
    length, batch, _ = states.shape
    x = F.linear(states, *layer.cross_kv).view(length, batch, 2, layer.cross_heads, -1)
    return x.permute(2, 1, 3, 0, 4).contiguous()
