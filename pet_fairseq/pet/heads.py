"""Which attention heads a PET model keeps, layer by layer (PET, section 3.3).

Layers that share parameters may keep different heads. A projection then stores the heads that any
of its users keeps, and each attention computes with its own; a head that nobody keeps is gone.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pet_fairseq.errors import UserError, option_of
from pet_fairseq.nn.attention import PROJECTIONS
from pet_fairseq.pet.attention import PetAttention, rows_of_heads

# option -> attention of the layer it is about
KEPT = {
    "encoder": {"kept_heads": "self_attn"},
    "decoder": {"kept_heads": "self_attn", "kept_cross_heads": "encoder_attn"},
}


def parse_heads(spec: str, option: str, num_layers: int, num_heads: int) -> list[list[int]]:
    """The heads kept in each layer, counted from 0, in increasing order.

    Args:
        spec: heads counted from 1, layers separated by slashes: '1,4/2,3'.
    Raises:
        UserError: names the option: not a list, the wrong number of layers, a head that does not
            exist or is named twice.
    """
    layers = spec.split("/")
    if len(layers) != num_layers:
        raise UserError(
            f"{option} {spec}: lists for {len(layers)} layers, but there are {num_layers}; "
            "separate the layers by '/'"
        )
    return [_parse_layer(layer, spec, option, num_heads) for layer in layers]


def _parse_layer(layer: str, spec: str, option: str, num_heads: int) -> list[int]:
    try:
        heads = [int(head) for head in layer.split(",")]
    except ValueError:
        raise UserError(
            f"{option} {spec}: {layer!r} is not a list of heads such as 1,4; every layer keeps at "
            "least one"
        ) from None
    for head in heads:
        if not 1 <= head <= num_heads:
            raise UserError(f"{option} {spec}: head {head} is not one of 1..{num_heads}")
    if len(set(heads)) != len(heads):
        raise UserError(f"{option} {spec}: {layer} names a head twice")
    return sorted(head - 1 for head in heads)


def format_heads(layers: Sequence[Sequence[int]]) -> str:
    """The heads of each layer, from 0, as the text that `parse_heads` reads."""
    return "/".join(",".join(str(head + 1) for head in sorted(heads)) for heads in layers)


def read_kept_heads(get: Callable[[str], Any], stack: str) -> dict[str, list[list[int]]]:
    """The kept heads that a stack's options name, by attention; empty without such options.

    Args:
        get: gives the stack's option of a name such as `layers`.
    Raises:
        UserError: names the option.
    """
    kept = {}
    for name, attention in KEPT[stack].items():
        spec = get(name)
        if spec is not None:
            option = option_of(f"{stack}_{name}")
            kept[attention] = parse_heads(spec, option, get("layers"), get("attention_heads"))
    return kept


@torch.no_grad()
def cut_heads(attentions: dict[str, list[PetAttention]], kept: dict[str, list[list[int]]]) -> None:
    """Keep these heads of a stack's attentions; projections shrink to what their users keep.

    Args:
        attentions: as `attentions_of` gives them, none cut before; kept: for each name the heads
            of each layer, counted from 0; an attention that is not named keeps all.
    Raises:
        UserError: the output projection shares parameters with one that is cut along rows.
    """
    users = [
        (attention, heads)
        for name, group in attentions.items()
        for attention, heads in zip(group, kept.get(name, [range(a.num_heads) for a in group]))
    ]
    if not users:  # a stack without layers
        return
    held: dict[nn.Module, list[int]] = {}  # the heads each projection is to hold
    roles: dict[nn.Module, set] = {}
    for attention, heads in users:
        for name in PROJECTIONS:
            linear = getattr(attention, name)
            held[linear] = sorted({*held.get(linear, []), *heads})
            roles.setdefault(linear, set()).add(name == "out_proj")
    if any(len(role) > 1 for role in roles.values()):
        raise UserError("kept heads: a pair joins O with Q, K or V; heads cannot be cut there")
    head_dim = users[0][0].head_dim
    for linear, (is_output,) in roles.items():
        _shrink(linear, held[linear], head_dim, is_output)
    for attention, heads in users:
        stored = {name: held[getattr(attention, name)] for name in PROJECTIONS}
        attention.select_heads(stored, list(heads))


def _shrink(linear: nn.Linear, heads: list[int], head_dim: int, is_output: bool) -> None:
    """Cut a projection to some heads, in place, so that all its users see it."""
    rows = rows_of_heads(heads, head_dim, linear.weight.device)
    linear.weight = nn.Parameter(linear.weight.index_select(int(is_output), rows))
    if is_output:
        linear.in_features = len(rows)
        return
    linear.bias = nn.Parameter(linear.bias.index_select(0, rows))
    linear.out_features = len(rows)
