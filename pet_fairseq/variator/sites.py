"""Where plugins sit in fairseq's Transformer layers: sub-modules that take a sub-module's place.

`attach` changes the layers of a model that exists, without touching its parameters. Which ratio is
used, and where the batch has padding, is said by one `Switch` that all sites of a model look at; at
ratio 1 a site only passes on what it gets.
"""

from typing import List, Optional, Tuple

from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.variator.plugin import Plugin, group_padding

SITES = ("ffn", "attention", "attention-kv")


class Switch:
    """The ratio in use (1: none) and the padding of the batch at hand (B x T, True = padding)."""

    def __init__(self, ratio: int = 1):
        self.ratio = ratio
        self.padding_mask: Optional[Tensor] = None


class Site(nn.Module):
    """The plugins of one place, by ratio."""

    def __init__(self, switch: Switch):
        super().__init__()
        self.switch = switch
        self.plugins = nn.ModuleDict()

    def add(self, plugin: Plugin) -> None:
        self.plugins[str(plugin.ratio)] = plugin

    @property
    def plugin(self) -> Optional[Plugin]:
        """The plugin in use, None at ratio 1."""
        if self.switch.ratio == 1:
            return None
        return self.plugins[str(self.switch.ratio)]

    def compress(self, x: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """T x B x C to the groups (G x B x C), their members (G x k x B x C) and their padding."""
        padding = group_padding(self.switch.padding_mask, x, self.plugin.ratio)
        members = self.plugin.members(x, padding)
        return self.plugin.compress(members, padding), members, padding


class CompressedInput(nn.Module):
    """Stands for the first map of a feed-forward network: groups go in instead of positions."""

    def __init__(self, inner: nn.Module, site: Site):
        super().__init__()
        self.inner = inner
        self.site = site
        self.members: Optional[Tensor] = None  # for CompressedOutput, in the same forward pass
        self.time = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.site.plugin is not None:
            self.time = x.size(0)
            x, self.members, _ = self.site.compress(x)
        return self.inner(x)


class CompressedOutput(nn.Module):
    """Stands for the last map of a feed-forward network: positions come out instead of groups."""

    def __init__(self, inner: nn.Module, start: CompressedInput):
        super().__init__()
        self.inner = inner
        self.start = (start,)  # a tuple: it is a sub-module of the layer already

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        (start,) = self.start
        if start.site.plugin is None:
            return x
        members, start.members = start.members, None
        return start.site.plugin.decompress(x, members, start.time)


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
            layer.fc1 = CompressedInput(layer.fc1, site)
            layer.fc2 = CompressedOutput(layer.fc2, layer.fc1)
        else:
            layer.self_attn = CompressedAttention(layer.self_attn, site, place == "attention-kv")
        sites.append(site)
    return sites


def embed_dim(layers: nn.ModuleList) -> int:
    """Width of the layers."""
    return layers[0].final_layer_norm.weight.numel() if len(layers) else 0
