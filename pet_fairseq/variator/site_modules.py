"""The modules that take the place of a layer's part and let it work on groups of positions.

At ratio 1 they compute what the part alone computes.
"""

from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.nn.prefill import keys_and_values
from pet_fairseq.nn.relative_bias import Positions, position_numbers
from pet_fairseq.variator.feed_forward import FeedForward, replace_ffn
from pet_fairseq.variator.grouping import Grouping
from pet_fairseq.variator.plugin import Plugin, group_padding


class Groups(NamedTuple):
    """Groups of k positions each, G of them for each sentence."""

    vectors: Tensor  # G x B x C, the compressed vectors
    members: Tensor  # G x k x B x C
    padding: Optional[Tensor]  # G x k x B or G x k x 1, True = no member; None: all are members


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
        """Put a module in the place of the layer's part, and return it."""
        raise NotImplementedError

    def add(self, plugin: Plugin) -> None:
        self.plugins[str(plugin.ratio)] = plugin

    @property
    def plugin(self) -> Optional[Plugin]:
        """The plugin in use, None at ratio 1."""
        if self.grouping.ratio == 1:
            return None
        return self.plugins[str(self.grouping.ratio)]

    def needed_plugin(self) -> Plugin:
        """The plugin in use, where there is one: at ratio 1 nothing is compressed."""
        return self.plugins[str(self.grouping.ratio)]

    def compress(self, x: Tensor) -> Groups:
        """The groups of x, T x B x C, of which the first T' positions, those of the mask, count."""
        mask, plugin = self.grouping.padding_mask, self.needed_plugin()
        if mask is not None:
            x = x[: mask.size(1)]
        padding = group_padding(mask, x, plugin.ratio)
        members = plugin.members(x, padding)
        return Groups(plugin.compress(members, padding), members, padding)

    def shorten(self, x: Tensor) -> tuple[Groups, Tensor]:
        """The groups of x, T x B x C, and the vectors in place of its positions: S x B x C.

        These are the groups' vectors and, behind them, those of the positions from the first on
        that some sentence has in no group.
        """
        groups, first = self.compress(x), self.grouping.first_ungrouped
        if first is None:
            return groups, groups.vectors
        return groups, torch.cat([groups.vectors, x[first:]])

    def lengthen(self, outputs: Tensor, groups: Groups, time: int) -> Tensor:
        """An output for each of the T positions, T x B x C, from those of `shorten`'s vectors."""
        first, mask = self.grouping.first_ungrouped, self.grouping.padding_mask
        plugin = self.needed_plugin()
        if first is None or mask is None:
            grouped_time = time if mask is None else mask.size(1)
            return plugin.decompress(outputs, groups.members, grouped_time)
        grouped, alone = outputs.split([len(groups.vectors), time - first])
        expanded = plugin.decompress(grouped, groups.members, mask.size(1))
        both = mask.size(1) - first  # positions that are grouped in some sentences only
        mixed = torch.where(mask.T[first:, :, None], alone[:both], expanded[first:])
        return torch.cat([expanded[:first], mixed, alone[both:]])


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
        groups, vectors = self.shorten(x)
        return self.lengthen(self.ffn(vectors), groups, len(x))


class CompressedSelfAttention(SiteModule):
    """A self-attention in which groups attend to groups.

    In a decoder the positions after the prompt attend to all groups and to those before them. There
    a group stands at the position of its first member, and is seen from that position on.
    """

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
        """The attention's output, T x B x C, and its weights, if it gives any.

        Args:
            query: T x B x C; key and value are the same. key_padding_mask: B x T, True = padding;
            with plugins, the groups' padding takes its place.
        """
        if self.plugin is None:
            return self.inner(
                query, key, value, key_padding_mask=key_padding_mask, attn_mask=attn_mask, **options
            )
        groups, vectors = self.shorten(query)
        key_positions = self.positions(groups, len(query))
        query_positions = self.query_positions(key_positions, len(query))
        if self.grouping.first_ungrouped is not None:  # a decoder: attn_mask hides the future
            attn_mask = causal_mask(query_positions, key_positions, query.device)
        elif attn_mask is not None:
            raise ValueError("compressed attention has no use for an attention mask over positions")
        if getattr(self.inner, "needs_positions", False):
            options["positions"] = (query_positions, key_positions)
        options["key_padding_mask"] = self.empty_vectors(groups, query)
        return self.attend(query, groups, vectors, attn_mask=attn_mask, **options)

    def attend(
        self, x: Tensor, groups: Groups, vectors: Tensor, **options
    ) -> tuple[Tensor, Optional[Tensor]]:
        """The attention's output for every position, T x B x C, and its weights."""
        output, weights = self.inner(vectors, vectors, vectors, **options)
        return self.lengthen(output, groups, len(x)), weights

    def positions(self, groups: Groups, time: int) -> Positions:
        """The positions of `shorten`'s vectors for a text of T positions."""
        ratio, first = self.needed_plugin().ratio, self.grouping.first_ungrouped
        of_groups = slice(0, (len(groups.vectors) - 1) * ratio + 1, ratio)
        return (of_groups,) if first is None else (of_groups, slice(first, time))

    def query_positions(self, key_positions: Positions, time: int) -> Positions:
        """The positions of the queries: here those of the keys, as groups attend."""
        return key_positions

    def empty_vectors(self, groups: Groups, x: Tensor) -> Optional[Tensor]:
        """Which of `shorten`'s vectors stand for nothing in a sentence: B x S, True = nothing.

        Groups of padding only; positions that are in the sentence's groups.
        """
        batch, first, mask = x.size(1), self.grouping.first_ungrouped, self.grouping.padding_mask
        if groups.padding is None:
            empty = x.new_zeros(batch, len(groups.vectors), dtype=torch.bool)
        else:
            empty = groups.padding.all(dim=1).T.expand(batch, -1)
        if first is None or mask is None:
            return None if groups.padding is None else empty
        behind = x.new_zeros(batch, len(x) - mask.size(1), dtype=torch.bool)
        return torch.cat([empty, ~mask[:, first:], behind], dim=1)

    def keys_and_values(self, x: Tensor, *positions: slice) -> dict[str, Tensor]:
        """The cache's entries for the input x, T x B x C; with plugins, of `shorten`'s vectors."""
        if self.plugin is None:
            return keys_and_values(self.inner, x, *positions)
        groups, vectors = self.shorten(x)
        state = keys_and_values(self.inner, vectors, *self.positions(groups, len(x)))
        empty = self.empty_vectors(groups, x)
        return state if empty is None else {**state, "prev_key_padding_mask": empty}

    # fairseq's decoder layer reads and writes the cache through these two names
    def _get_input_buffer(self, incremental_state: Optional[dict]) -> dict:
        return self.inner._get_input_buffer(incremental_state)

    def _set_input_buffer(self, incremental_state: dict, buffer: dict) -> dict:
        return self.inner._set_input_buffer(incremental_state, buffer)


class CompressedKeysValues(CompressedSelfAttention):
    """A self-attention in which positions attend to groups."""

    def attend(
        self, x: Tensor, groups: Groups, vectors: Tensor, **options
    ) -> tuple[Tensor, Optional[Tensor]]:
        return self.inner(x, vectors, vectors, **options)

    def query_positions(self, key_positions: Positions, time: int) -> Positions:
        return (slice(0, time),)


def causal_mask(queries: Positions, keys: Positions, device: torch.device) -> Tensor:
    """The causal mask between positions, T x S: True where the key comes after the query."""
    return position_numbers(keys, device) > position_numbers(queries, device)[:, None]


# --- into the layers of a model -------------------------------------------------------------------

# what takes the place of a part, by the names of sites.SITES
SITE_MODULES: dict[str, type[SiteModule]] = {
    "ffn": CompressedFeedForward,
    "attention": CompressedSelfAttention,
    "attention-kv": CompressedKeysValues,
}


def check_layers(layers: nn.ModuleList, site: str) -> None:
    """Check that fairseq's layers have the parts that a site, a key of SITES, needs.

    Raises:
        UserError: a layer has no such part.
    """
    for i in range(len(layers)):
        for name in SITE_MODULES[site].needs:
            if not isinstance(getattr(layers[i], name, None), nn.Module):
                raise UserError(
                    f"--compression-site {site}: {type(layers[i]).__name__} of the backbone has no "
                    f"{name}; give another site or a backbone of fairseq's Transformer layers"
                )


def attach(layers: nn.ModuleList, site: str, grouping: Grouping) -> list[SiteModule]:
    """Put a site's module into each layer; returns the modules in the order of the layers.

    Args:
        layers: those that `check_layers` accepts; their parameters stay.
    """
    # by index: LayerDrop leaves some out of an iteration
    return [SITE_MODULES[site].put_into(layers[i], grouping) for i in range(len(layers))]
