"""The modules that take the place of a layer's part and let it work on groups of positions.

At ratio 1 they only pass on what they get.
"""

from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn

from pet_fairseq.variator.feed_forward import FeedForward, replace_ffn
from pet_fairseq.variator.grouping import Grouping
from pet_fairseq.variator.plugin import Plugin, group_padding


class Groups(NamedTuple):
    """Groups of k positions each, G of them for each sentence."""

    vectors: Tensor  # G x B x C, the compressed vectors
    members: Tensor  # G x k x B x C
    padding: Optional[Tensor]  # G x k x B or G x k x 1, True = no member; None: all are


class SiteModule(nn.Module):
    """A part of a layer and the plugins around it, one for each ratio.

    A subclass says in `needs` which sub-modules the layer must have.
    """

    needs: tuple[str, ...] = ()

    def __init__(self, layer: nn.Module, grouping: Grouping):
        super().__init__()
        self.grouping = grouping
        self.plugins = nn.ModuleDict()

    @classmethod
    def put_into(cls, layer: nn.Module, grouping: Grouping) -> "SiteModule":
        """Let the module take the place of the layer's part; returns it."""
        raise NotImplementedError

    def add(self, plugin: Plugin) -> None:
        self.plugins[str(plugin.ratio)] = plugin

    @property
    def plugin(self) -> Optional[Plugin]:
        """The plugin in use, None at ratio 1."""
        if self.grouping.ratio == 1:
            return None
        return self.plugins[str(self.grouping.ratio)]

    def compress(self, x: Tensor) -> Groups:
        """Group the positions that the batch's mask has: T x B x C, of which the first T' count."""
        mask = self.grouping.padding_mask
        if mask is not None:
            x = x[: mask.size(1)]
        padding = group_padding(mask, x, self.plugin.ratio)
        members = self.plugin.members(x, padding)
        return Groups(self.plugin.compress(members, padding), members, padding)


class CompressedFeedForward(SiteModule):
    """A feed-forward network that works on groups."""

    needs = ("fc1", "fc2", "activation_dropout_module")

    def __init__(self, layer: nn.Module, grouping: Grouping):
        super().__init__(layer, grouping)
        self.ffn = FeedForward(layer)

    @classmethod
    def put_into(cls, layer: nn.Module, grouping: Grouping) -> "CompressedFeedForward":
        module = cls(layer, grouping)
        replace_ffn(layer, module)
        return module

    def forward(self, x: Tensor) -> Tensor:
        """T x B x C -> T x B x C."""
        if self.plugin is None:
            return self.ffn(x)
        groups = self.compress(x)
        first, mask = self.grouping.first_ungrouped, self.grouping.padding_mask
        time = len(x) if mask is None else mask.size(1)
        if first is None:
            return self.plugin.decompress(self.ffn(groups.vectors), groups.members, time)
        # the groups, and behind them the positions that are in no group of some sentence
        outputs = self.ffn(torch.cat([groups.vectors, x[first:]]))
        grouped, alone = outputs.split([len(groups.vectors), len(x) - first])
        expanded = self.plugin.decompress(grouped, groups.members, time)
        both = time - first  # positions that are grouped in some sentences only
        mixed = torch.where(mask.T[first:, :, None], alone[:both], expanded[first:])
        return torch.cat([expanded[:first], mixed, alone[both:]])


class CompressedSelfAttention(SiteModule):
    """A self-attention in which groups attend to groups."""

    needs = ("self_attn",)

    def __init__(self, layer: nn.Module, grouping: Grouping):
        super().__init__(layer, grouping)
        self.inner = layer.self_attn

    @classmethod
    def put_into(cls, layer: nn.Module, grouping: Grouping) -> "CompressedSelfAttention":
        layer.self_attn = cls(layer, grouping)
        return layer.self_attn

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        attn_mask: Optional[Tensor] = None,
        **options,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Return what the attention returns; T x B x C, key_padding_mask B x T."""
        if self.plugin is None:
            return self.inner(
                query, key, value, key_padding_mask=key_padding_mask, attn_mask=attn_mask, **options
            )
        if attn_mask is not None:
            raise ValueError("compressed attention has no use for an attention mask over positions")
        groups = self.compress(query)
        empty = None  # B x G, True = a group of padding only
        if groups.padding is not None:
            empty = groups.padding.all(dim=1).T.expand(query.size(1), -1)
        return self.attend(query, groups, key_padding_mask=empty, **options)

    def attend(self, x: Tensor, groups: Groups, **options) -> tuple[Tensor, Optional[Tensor]]:
        """The attention's output for every position, T x B x C, and its weights."""
        vectors = groups.vectors
        output, weights = self.inner(vectors, vectors, vectors, **options)
        return self.plugin.decompress(output, groups.members, len(x)), weights


class CompressedKeysValues(CompressedSelfAttention):
    """A self-attention in which positions attend to groups."""

    def attend(self, x: Tensor, groups: Groups, **options) -> tuple[Tensor, Optional[Tensor]]:
        return self.inner(x, groups.vectors, groups.vectors, **options)
