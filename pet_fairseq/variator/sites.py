"""Where plugins sit in fairseq's Transformer layers: sub-modules that take a sub-module's place.

`attach` changes the layers of a model that exists, without touching its parameters. Which ratio is
used, and where the batch has padding, is said by one `Switch` that all sites of a model look at; at
ratio 1 a site only passes on what it gets.
"""

from contextlib import contextmanager
from typing import Iterator, List, Optional, Tuple

import torch
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.variator.plugin import Plugin, group_padding


class Switch:
    """What all sites of a model look at: the ratio in use (1: none) and the batch at hand."""

    def __init__(self, ratio: int = 1):
        self.ratio = ratio
        self.padding_mask: Optional[Tensor] = None
        self.plain_from: Optional[int] = None

    @contextmanager
    def batch(
        self, padding_mask: Optional[Tensor], plain_from: Optional[int] = None
    ) -> Iterator[None]:
        """Inside, the sites group the positions of this batch.

        Args:
            padding_mask: B x T', True = in no group; None: T' is T and all positions are grouped.
            plain_from: from this position to T every position is also worked on alone, and those in
                no group keep that. None: what is in no group is padding.
        """
        self.padding_mask, self.plain_from = padding_mask, plain_from
        try:
            yield
        finally:
            self.padding_mask, self.plain_from = None, None

    @contextmanager
    def at(self, ratio: int) -> Iterator[None]:
        """Inside, another ratio."""
        before = self.ratio
        self.ratio = ratio
        try:
            yield
        finally:
            self.ratio = before


class Site(nn.Module):
    """The plugins of one place, by ratio."""

    def __init__(self, switch: Switch):
        super().__init__()
        self.switch = switch
        self.plugins = nn.ModuleDict()
        self.members: Optional[Tensor] = None  # from enter to leave

    def add(self, plugin: Plugin) -> None:
        self.plugins[str(plugin.ratio)] = plugin

    @property
    def plugin(self) -> Optional[Plugin]:
        """The plugin in use, None at ratio 1."""
        if self.switch.ratio == 1:
            return None
        return self.plugins[str(self.switch.ratio)]

    def compress(self, x: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """T' x B x C to the groups (G x B x C), their members (G x k x B x C) and their padding."""
        padding = group_padding(self.switch.padding_mask, x, self.plugin.ratio)
        members = self.plugin.members(x, padding)
        return self.plugin.compress(members, padding), members, padding

    def enter(self, x: Tensor) -> Tensor:
        """What goes into a feed-forward network: T x B x C -> groups, then lone positions."""
        if self.plugin is None:
            return x
        switch = self.switch
        self.time = len(x) if switch.padding_mask is None else switch.padding_mask.size(1)
        groups, self.members, _ = self.compress(x[: self.time])
        return groups if switch.plain_from is None else torch.cat([groups, x[switch.plain_from :]])

    def leave(self, y: Tensor) -> Tensor:
        """What comes out of it, for every position: T x B x C."""
        if self.plugin is None:
            return y
        members, self.members = self.members, None
        groups, alone = y[: len(members)], y[len(members) :]
        made = self.plugin.decompress(groups, members, self.time)
        if self.switch.plain_from is None:
            return made
        first = self.switch.plain_from
        both = self.time - first  # positions that are grouped in some sentences only
        ungrouped = self.switch.padding_mask.T[first:, :, None]
        mixed = torch.where(ungrouped, alone[:both], made[first:])
        return torch.cat([made[:first], mixed, alone[both:]])


class Entrance(nn.Module):
    """Stands for the first map of a feed-forward network; `part.enter` says what goes in."""

    def __init__(self, inner: nn.Module, part):
        super().__init__()
        self.inner = inner
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.part.enter(x))


class Exit(nn.Module):
    """Stands for its last map; `part.leave` makes T positions of what comes out."""

    def __init__(self, inner: nn.Module, part):
        super().__init__()
        self.inner = inner
        self.part = (part,)  # a tuple: it is a sub-module of the entrance already

    def forward(self, x: Tensor) -> Tensor:
        (part,) = self.part
        return part.leave(self.inner(x))


def surround_ffn(layer: nn.Module, part) -> None:
    """Put `part` around the feed-forward network of one of fairseq's layers."""
    layer.fc1, layer.fc2 = Entrance(layer.fc1, part), Exit(layer.fc2, part)


class CompressedAttention(nn.Module):
    """Stands for a self-attention: groups attend to groups, or positions to groups (kv only)."""

    def __init__(self, inner: nn.Module, site: Site, keys_only: bool):
        super().__init__()
        self.inner = inner
        self.site = site
        self.keys_only = keys_only

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        attn_mask: Optional[Tensor] = None,
        **options,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """As the attention; T x B x C, key_padding_mask B x T."""
        if self.site.plugin is None:
            return self.inner(
                query, key, value, key_padding_mask=key_padding_mask, attn_mask=attn_mask, **options
            )
        if attn_mask is not None:
            raise ValueError("compressed attention has no use for an attention mask over positions")
        groups, members, padding = self.site.compress(query)
        empty = None if padding is None else padding.all(dim=1).T.expand(query.size(1), -1)  # B x G
        queries = query if self.keys_only else groups
        output, weights = self.inner(queries, groups, groups, key_padding_mask=empty, **options)
        if not self.keys_only:
            output = self.site.plugin.decompress(output, members, query.size(0))
        return output, weights


def attach(layers: nn.ModuleList, place: str, switch: Switch) -> List[Site]:
    """Put a site into each layer; returns them in the order of the layers.

    Args:
        layers: fairseq's encoder layers (or anything with fc1, fc2 and self_attn); place: of SITES.
    Raises:
        UserError: the layers have no such place.
    """
    needed = ("fc1", "fc2") if place == "ffn" else ("self_attn",)
    sites = []
    for i in range(len(layers)):  # by index: LayerDrop leaves some out of an iteration
        layer = layers[i]
        for name in needed:
            if not isinstance(getattr(layer, name, None), nn.Module):
                raise UserError(
                    f"--compression-site {place}: {type(layer).__name__} of the backbone has no "
                    f"{name}; give another site or a backbone of fairseq's Transformer layers"
                )
        site = Site(switch)
        if place == "ffn":
            surround_ffn(layer, site)
        else:
            layer.self_attn = CompressedAttention(layer.self_attn, site, place == "attention-kv")
        sites.append(site)
    return sites


def embed_dim(layers: nn.ModuleList) -> int:
    """Width of the layers."""
    return layers[0].final_layer_norm.weight.numel() if len(layers) else 0
