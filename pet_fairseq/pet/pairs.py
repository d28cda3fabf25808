"""Replaceable pairs (PET, section 3.1): slots of a stack of layers that share their parameters.

A slot is a layer (`L3`) or an attention projection (`Q1`, `K1`, `V1`, `O1`; in the decoder
`Qself1`, `Qenc1` and so on, where `Q1` means `Qself1`). Layers count from 1. In a pair `A=B` slot B
is replaced: it uses the parameters of slot A. Projections include their bias; a layer pair covers
everything in the layer, except where a projection pair says otherwise. Without layer numbers a
projection pair holds in every layer: `Qself=Qenc`.
"""

import re
from typing import NamedTuple, Optional

from torch import nn

from pet_fairseq.errors import UserError

PRESETS = {
    "encoder": ("pet", "layers", "none"),
    "decoder": ("pet", "layers", "none", "qk", "qk_crosswise", "kv"),
}
# what the presets share inside every layer beside the layer pairs (PET, section 3.1 and Table 5)
WITHIN_LAYER = {
    ("decoder", "pet"): "Qself=Qenc",
    ("decoder", "qk"): "Qself=Kself",
    ("decoder", "kv"): "Kself=Vself Kenc=Venc",
}
# those that exchange queries and keys between paired layers. Table 5's (Qself, Kself) can mean
# `qk`, or what section 3.1 calls "the same pairs as the ones in the encoder": `qk_crosswise`
CROSSWISE = {("encoder", "pet"), ("decoder", "qk_crosswise")}
MODULE_OF_LETTER = {"Q": "q_proj", "K": "k_proj", "V": "v_proj", "O": "out_proj"}
SLOT = re.compile(r"(?:(L)|([QKVO])(self|enc)?)(\d{1,9})?")


class ModulePath(NamedTuple):
    """A sub-module of a layer: 0-based layer, path inside it ("" = the whole layer)."""

    layer: int
    path: str


class Pair(NamedTuple):
    """`replaced` uses the parameters of `owner`; `text` is the pair as the user wrote it."""

    owner: ModulePath
    replaced: ModulePath
    text: str


def expand_preset(spec: str, stack: str, num_layers: int) -> str:
    """The explicit list that a preset stands for; an explicit list is returned as it is.

    Args:
        spec: preset or list of pairs; stack: "encoder" or "decoder".
    Raises:
        UserError: a preset that the stack lacks, or that needs an even number of layers.
    """
    option = f"--{stack}-pairs"
    if "=" in spec:
        return spec
    preset = spec.strip()
    if preset not in PRESETS[stack]:
        raise UserError(
            f"{option} {spec!r}: not a preset ({', '.join(PRESETS[stack])}) and not a list of "
            "pairs such as 'L1=L3 Q1=K3'"
        )
    if preset == "none":
        return ""
    if num_layers % 2:
        raise UserError(
            f"{option} {preset}: pairs layer i with layer i + n/2 and needs an even number of "
            f"layers, but --{stack}-layers is {num_layers}; change it or give an explicit list"
        )
    half = num_layers // 2
    numbers = [(i, i + half) for i in range(1, half + 1)]
    pairs = [f"L{i}=L{j}" for i, j in numbers]
    if (stack, preset) in CROSSWISE:
        pairs += [f"Q{i}=K{j} K{i}=Q{j}" for i, j in numbers]
    return " ".join([*pairs, WITHIN_LAYER.get((stack, preset), "")]).strip()


def parse_pairs(spec: str, stack: str, num_layers: int) -> list[Pair]:
    """Read a preset or a list of pairs.

    Raises:
        UserError: names the option and the pair: unknown slot, layer out of range, a layer paired
            with a projection, a slot replaced twice or by itself.
    """
    pairs: list[Pair] = []
    for text in expand_preset(spec, stack, num_layers).replace(",", " ").split():
        pairs += _parse_pair(text, stack, num_layers)
    replaced: dict[ModulePath, str] = {}
    for pair in pairs:
        if pair.replaced in replaced:
            raise _bad(
                stack, pair.text, f"{replaced[pair.replaced]} already replaces the same slot"
            )
        replaced[pair.replaced] = pair.text
    return pairs


def _parse_pair(text: str, stack: str, num_layers: int) -> list[Pair]:
    sides = text.split("=")
    if len(sides) != 2:
        raise _bad(stack, text, "a pair is two slots joined by one '='")
    (owner, owner_layer), (replaced, replaced_layer) = (
        _parse_slot(side, text, stack, num_layers) for side in sides
    )
    if (owner == "") != (replaced == ""):
        raise _bad(stack, text, "pairs a layer with a projection")
    if (owner_layer is None) != (replaced_layer is None):
        raise _bad(stack, text, "give a layer number to both slots or to neither")
    if owner_layer is None or replaced_layer is None:
        if owner == "":
            raise _bad(stack, text, "layers need numbers, such as L1=L2")
        numbers = [(i, i) for i in range(num_layers)]
    else:
        numbers = [(owner_layer, replaced_layer)]
    pairs = [Pair(ModulePath(i, owner), ModulePath(j, replaced), text) for i, j in numbers]
    if any(pair.owner == pair.replaced for pair in pairs):
        raise _bad(stack, text, "pairs a slot with itself")
    return pairs


def _parse_slot(slot: str, text: str, stack: str, num_layers: int) -> tuple[str, Optional[int]]:
    """Path inside the layer ("" for a whole layer) and 0-based layer number (None if not given)."""
    match = SLOT.fullmatch(slot)
    if match is None:
        example = "L1, Qself1, Kenc1" if stack == "decoder" else "L1, Q1, K1, V1, O1"
        raise _bad(stack, text, f"unknown slot {slot!r} (slots look like {example})")
    whole, projection, attention, number = match.groups()
    if attention == "enc" and stack == "encoder":
        raise _bad(stack, text, f"unknown slot {slot!r}: the encoder has self-attention only")
    layer = None
    if number is not None:
        layer = int(number) - 1
        if not 0 <= layer < num_layers:
            raise _bad(stack, text, f"layer {number} is not one of 1..{num_layers}")
    if whole:
        return "", layer
    module = "encoder_attn" if attention == "enc" else "self_attn"
    return f"{module}.{MODULE_OF_LETTER[projection]}", layer


def find_owner(part: ModulePath, pairs: list[Pair], stack: str) -> ModulePath:
    """The part whose parameters `part` uses in the end, itself if nothing replaces it.

    A projection pair overrides the layer pair of its layer; chains are followed to their end.

    Raises:
        UserError: the chain runs in a circle.
    """
    by_part = {pair.replaced: pair for pair in pairs}
    seen = set()
    while True:
        pair = by_part.get(part)
        if pair is not None:
            following = pair.owner
        else:
            pair = by_part.get(ModulePath(part.layer, ""))
            if pair is None:
                return part
            following = ModulePath(pair.owner.layer, part.path)
        if part in seen:
            raise _bad(stack, pair.text, "runs in a circle with the other pairs")
        seen.add(part)
        part = following


def share(layers: nn.ModuleList, spec: str, stack: str) -> None:
    """Let the replaced slots of a stack use the sub-modules of their owners.

    Only the sub-modules that hold parameters (Linear, LayerNorm) are shared, never a layer or an
    attention: fairseq's cache for incremental decoding belongs to the attention object.

    Raises:
        UserError: a wrong list, a slot that the model lacks, or two slots of different shapes; the
            layers are then left unchanged.
    """
    pairs = parse_pairs(spec, stack, len(layers))
    # by index: with LayerDrop, iterating over the layers leaves some out
    indices = range(len(layers))
    parts = [ModulePath(i, path) for i in indices for path in _parameter_paths(layers[i])]
    for pair in pairs:
        for part in (pair.owner, pair.replaced):
            if part.path and part not in parts:
                raise _bad(stack, pair.text, "the model has no encoder attention")
    owners = {part: find_owner(part, pairs, stack) for part in parts}
    modules = {part: layers[part.layer].get_submodule(part.path) for part in parts}
    for part, owner in owners.items():
        ours, theirs = _shapes(modules[part]), _shapes(modules[owner])
        if ours != theirs:
            text = " ".join(p.text for p in pairs if p.replaced == part) or spec
            raise _bad(stack, text, f"the shapes differ: {theirs} and {ours}")
    for part, owner in owners.items():
        parent, _, name = part.path.rpartition(".")
        setattr(layers[part.layer].get_submodule(parent), name, modules[owner])


def _parameter_paths(layer: nn.Module) -> list[str]:
    """Paths of the sub-modules that hold parameters themselves."""
    return [
        path
        for path, m in layer.named_modules()
        if path and next(m.parameters(False), None) is not None
    ]


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(p.shape) for name, p in module.named_parameters()}


def _bad(stack: str, text: str, reason: str) -> UserError:
    return UserError(f"--{stack}-pairs: {text}: {reason}")
