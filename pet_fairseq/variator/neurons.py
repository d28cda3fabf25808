"""Counts the neurons of feed-forward networks that compressed vectors activate.

The analysis is the paper's (Variator, section 4.9). A neuron is active for a vector if the first
map gives it more than 0; in a gated network (SwiGLU) the gate's rows of that map decide, as the
other factor may have either sign. A group's compressed vector is compared with its members as the
model without plugins has them in the same layer: how many neurons are active, and which of them are
the same. (Members of the model with plugins would show nothing: the compressed vector is a mean of
theirs, and the first map is linear.)
"""

from collections.abc import Iterable
from typing import NamedTuple, Optional

import torch
from fairseq.utils import convert_padding_direction
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.nn.hooks import forward_hooks
from pet_fairseq.variator.model import VariatorModel
from pet_fairseq.variator.plugin import split_groups
from pet_fairseq.variator.site_modules import CompressedFeedForward


class NeuronCounts(NamedTuple):
    """Numbers of neurons, added up over groups; one entry for each layer."""

    of_members: Tensor  # active for a member, added up over members
    of_union: Tensor  # active for at least one member
    of_intersection: Tensor  # active for all members
    of_groups: Tensor  # active for the compressed vector
    groups_in_union: Tensor  # active for it and for at least one member
    groups_in_intersection: Tensor  # active for it and for all members
    members: Tensor  # how many members there were, times neurons
    groups: Tensor  # how many groups there were, times neurons

    def shares(self) -> dict[str, Tensor]:
        """The shares that the paper's Figure 5 and Table 5 show, each in [0, 1] by layer."""
        return {
            "active, a position": self.of_members / self.members,
            "active, all positions of a group": self.of_union / self.groups,
            "active, compressed": self.of_groups / self.groups,
            "compressed within union": self.groups_in_union / self.of_groups,
            "intersection within compressed": self.groups_in_intersection / self.of_intersection,
        }


def count_neurons(members: Tensor, group: Tensor, padding: Optional[Tensor]) -> list[Tensor]:
    """The numbers of `NeuronCounts` for one layer and batch.

    Args:
        members: G x k x B x F, True = active for that member; group: G x B x F, for the compressed
            vector; padding: G x k x B or G x k x 1, True = no member; None: all are members.
    """
    real = torch.ones_like(members[..., 0])
    if padding is not None:
        real = real & ~padding
    has_members = real.any(dim=1)[..., None]  # G x B x 1: groups of only padding do not count
    active = members & real[..., None]
    union = active.any(dim=1)
    intersection = (active | ~real[..., None]).all(dim=1) & has_members
    compressed = group & has_members
    neurons = members.size(-1)
    return [
        active.sum(),
        union.sum(),
        intersection.sum(),
        compressed.sum(),
        (compressed & union).sum(),
        (compressed & intersection).sum(),
        real.sum() * neurons,
        has_members.sum() * neurons,
    ]


@torch.no_grad()
def watch_neurons(model: VariatorModel, samples: Iterable[dict], ratio: int) -> NeuronCounts:
    """Run the model at a ratio and count active neurons in every layer.

    Raises:
        UserError: the plugins are at another site than the feed-forward networks, or a language
            model's samples have no prompt.
    """
    sites = model.site_modules
    if not all(isinstance(site, CompressedFeedForward) for site in sites):
        raise UserError("CHECKPOINT: its plugins are not at the feed-forward networks (ffn)")
    alone: dict[nn.Module, Tensor] = {}  # T x B x F, active neurons without plugins
    counts: dict[nn.Module, Tensor] = {}

    def keep(site: CompressedFeedForward, inputs, output: Tensor) -> None:
        alone[site] = site.ffn.active_neurons(inputs[0])

    def count(site: CompressedFeedForward, inputs, output: Tensor) -> None:
        if site.plugin is None:  # a batch of a language model without prompts
            return
        groups = site.compress(inputs[0])
        members = split_groups(alone.pop(site), ratio)[: len(groups.vectors)]
        numbers = count_neurons(members, site.ffn.active_neurons(groups.vectors), groups.padding)
        counts[site] = counts.get(site, 0) + torch.stack(numbers).cpu()

    for sample in samples:
        net_input = with_padding_right(sample["net_input"], model.stack.padding_idx)
        for k, hook in ((1, keep), (ratio, count)):
            with model.compression_ratio(k), forward_hooks(*((site, hook) for site in sites)):
                model(**net_input, features_only=True)
    if not counts:
        raise UserError("--data: holds no prompt; the plugins compress those of a language model")
    by_layer = torch.stack([counts[site] for site in sites])
    return NeuronCounts(*by_layer.double().T)


def with_padding_right(net_input: dict, padding_idx: int) -> dict:
    """Move the sentences to the left edge, where plugins group them."""
    tokens = net_input["src_tokens"]
    moved = convert_padding_direction(tokens, padding_idx, left_to_right=True)
    return {**net_input, "src_tokens": moved}
