"""Transformer layers with plugins, vector by vector and head by head: for encoders and decoders."""

import math

import torch

from pet_fairseq.variator.site_modules import (
    CompressedFeedForward,
    CompressedKeysValues,
    CompressedSelfAttention,
)
from tests.nn.test_relative_bias import bucket
from tests.variator.test_plugin import expand_by_hand, group_by_hand


def layers_by_hand(model, x, length, activation, causal=True):
    """The stack's layers and its last norm for one text, T x C, whose first positions are grouped.

    causal: whether positions see those before them only.
    """
    stack = model.stack.inner
    for layer, site in zip(stack.layers, model.site_modules):
        before = layer.normalize_before
        h = layer.self_attn_layer_norm(x) if before else x
        x = x + attended_by_hand(layer.self_attn, site, h, length, causal)
        x = x if before else layer.self_attn_layer_norm(x)
        h = layer.final_layer_norm(x) if before else x
        x = x + ffn_by_hand(layer, site, h, length, ACTIVATIONS[activation])
        x = x if before else layer.final_layer_norm(x)
    return x if stack.layer_norm is None else stack.layer_norm(x)


ACTIVATIONS = {
    "relu": lambda v: v.clamp(min=0),
    "gelu": lambda v: v / 2 * (1 + torch.tanh((2 / math.pi) ** 0.5 * (v + 0.044715 * v**3))),
    "erf": lambda v: v / 2 * (1 + torch.erf(v / 2**0.5)),
    "swish": lambda v: v * v.sigmoid(),
    "gated gelu": lambda v: ACTIVATIONS["gelu"](v[: len(v) // 2]) * v[len(v) // 2 :],
    "swiglu": lambda v: v[: len(v) // 2] * v[: len(v) // 2].sigmoid() * v[len(v) // 2 :],
}


def ffn_by_hand(layer, site, h, length, activation):
    """The prompt group by group where the plugin is there, everything else vector by vector."""
    compressed = isinstance(site, CompressedFeedForward)
    ffn = site.ffn if compressed else layer
    outputs = [ffn.fc2(activation(ffn.fc1(v))) for v in h]
    for start, merged, members in groups_by_hand(site.plugin, h, length) if compressed else ():
        output = ffn.fc2(activation(ffn.fc1(merged)))
        for j, member in enumerate(members):
            outputs[start + j] = expand_by_hand(site.plugin, output, member)
    return torch.stack(outputs)


def groups_by_hand(plugin, h, length):
    """The prompt's groups: first position, compressed vector, members."""
    for start in range(0, length, plugin.ratio):
        rows = h[start : min(start + plugin.ratio, length)]
        yield start, group_by_hand(plugin, list(rows), [True] * len(rows))[0], rows


def attended_by_hand(attention, site, h, length, causal):
    """Vector by vector; a group is a key at its first member's position, and may be a query."""
    groups = []
    if isinstance(site, CompressedSelfAttention):
        attention, groups = attention.inner, list(groups_by_hand(site.plugin, h, length))
    keys = [(start, merged) for start, merged, _ in groups]
    keys += [(t, h[t]) for t in range(length if groups else 0, len(h))]

    def attend(position, vector):
        seen = [(p, key) for p, key in keys if p <= position or not causal]
        return heads_by_hand(attention, position, vector, seen)

    if not groups or isinstance(site, CompressedKeysValues):
        return torch.stack([attend(t, h[t]) for t in range(len(h))])
    outputs = []
    for start, merged, members in groups:
        output = attend(start, merged)
        outputs += [expand_by_hand(site.plugin, output, member) for member in members]
    return torch.stack([*outputs, *(attend(t, h[t]) for t in range(length, len(h)))])


def heads_by_hand(attention, position, query, keys):
    heads = attention.num_heads
    shared = heads // getattr(attention, "key_value_heads", heads)
    rotary = hasattr(attention, "rotary")
    width = len(attention.q_proj(query)) // heads
    relative = getattr(attention, "relative", None)
    divisor = 1 if relative is not None else width**0.5  # T5 does not scale
    contexts = []
    for head in range(heads):
        of_q = slice(head * width, (head + 1) * width)
        of_k = slice(head // shared * width, (head // shared + 1) * width)
        q = head_norm(attention, "q_norm", attention.q_proj(query)[of_q])
        q, scores = turned(q, position * rotary), []
        for p, v in keys:
            k = head_norm(attention, "k_norm", attention.k_proj(v)[of_k])
            scores.append(q @ turned(k, p * rotary) / divisor)
            if relative is not None:
                scores[-1] = scores[-1] + relative.weight[bucket(p - position, 8, 6, True), head]
        weights = torch.stack(scores).softmax(dim=0)
        contexts.append(sum(w * attention.v_proj(v)[of_k] for w, (_, v) in zip(weights, keys)))
    return attention.out_proj(torch.cat(contexts))


def head_norm(attention, name, x):
    """RMSNorm of a head's vector, if the attention has that."""
    norm = getattr(attention, name, None)
    if not isinstance(norm, torch.nn.RMSNorm):
        return x
    return norm.weight * x / (x.pow(2).mean() + norm.eps).sqrt()


def turned(x, position):
    """A head's vector with its dimensions i and i + D / 2 turned."""
    half, new = len(x) // 2, x.clone()
    for i in range(half):
        angle = position * 10000 ** (-2 * i / len(x))
        new[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        new[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
    return new
