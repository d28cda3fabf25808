"""Tying the slots of a trained Transformer by their average, for as long as a loss is measured."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pet_fairseq.pet.pairs import ModulePath, find_owner, parse_pairs


class CannotTieError(ValueError):
    """Says why a candidate cannot be tied in this model."""


def tied_tensors(layers: nn.ModuleList, pairs: str, stack: str) -> list[list[Tensor]]:
    """The groups of parameters that become one under a list of pairs, each tensor in one group.

    Raises:
        CannotTieError: a slot is missing, shapes differ, or two of the slots share already.
    """
    parsed = parse_pairs(pairs, stack, len(layers))
    modules = {
        ModulePath(i, path): module
        for i, layer in enumerate(layers)
        for path, module in layer.named_modules(remove_duplicate=False)
        if path and next(module.parameters(False), None) is not None
    }
    owners = {part: find_owner(part, parsed, stack) for part in modules}
    named = [part for pair in parsed for part in pair[:2] if part.path]
    if not modules.keys() >= {*owners.values(), *named}:
        raise CannotTieError("no such slot")
    parts: dict[ModulePath, list[nn.Module]] = defaultdict(list)
    for part, owner in owners.items():
        parts[owner].append(modules[part])
    groups = [group for members in parts.values() for group in _same_parameters(members)]
    return merge_groups([group for group in groups if len(group) > 1])


def _same_parameters(members: list[nn.Module]) -> list[list[Tensor]]:
    """The members' parameters by name: a group for the weights, one for the biases."""
    parameters = [dict(module.named_parameters()) for module in members]
    if len({tuple((n, p.shape) for n, p in named.items()) for named in parameters}) > 1:
        raise CannotTieError("shapes differ")
    groups = [[named[name] for named in parameters] for name in parameters[0]]
    if any(len({id(p) for p in group}) < len(group) for group in groups):
        raise CannotTieError("share already")
    return groups


def merge_groups(groups: list[list[Tensor]]) -> list[list[Tensor]]:
    """Join groups that have a tensor in common, as happens where the model shares parameters."""
    merged: list[dict[int, Tensor]] = []
    for group in groups:
        joined = {id(tensor): tensor for tensor in group}
        apart = []
        for other in merged:
            if other.keys() & joined.keys():
                joined |= other
            else:
                apart.append(other)
        merged = [*apart, joined]
    return [list(group.values()) for group in merged]


@contextmanager
@torch.no_grad()
def averaged(groups: list[list[Tensor]]) -> Iterator[None]:
    """Give every tensor of a group the group's mean; on leaving, the old values bit by bit."""
    before = [[tensor.clone() for tensor in group] for group in groups]
    try:
        for group in groups:
            # in float64 the mean of equal numbers is that number
            mean = torch.stack([tensor.double() for tensor in group]).mean(dim=0)
            for tensor in group:
                tensor.copy_(mean)
        yield
    finally:
        for group, values in zip(groups, before):
            for tensor, value in zip(group, values):
                tensor.copy_(value)


@torch.no_grad()
def mean_cosine(groups: list[list[Tensor]]) -> float:
    """Mean cosine similarity of every two weight matrices in a group, averaged over the groups.

    Biases and layer norms do not count.
    """
    cosines = []
    for group in groups:
        if group[0].dim() < 2:
            continue
        flat = torch.stack([tensor.flatten().double() for tensor in group])
        similarity = F.normalize(flat) @ F.normalize(flat).T  # members x members
        upper = torch.triu_indices(len(group), len(group), offset=1, device=flat.device)
        cosines.append(similarity[upper[0], upper[1]].mean())
    return torch.stack(cosines).mean().item()


def saved_parameters(groups: list[list[Tensor]]) -> int:
    """How many fewer parameters a model stores when each group is one tensor."""
    return sum(tensor.numel() for group in groups for tensor in group[1:])
