"""T5's relative positions: a bias of attention's scores for each head and bucket of distances.

C. Raffel et al., Exploring the limits of transfer learning with a unified text-to-text Transformer,
2020, section 2.1.
"""

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pet_fairseq.errors import UserError

# the positions of vectors in their text: the numbers in all slices, in their order
Positions = tuple[slice, ...]


def position_numbers(positions: Positions, device: torch.device) -> Tensor:
    """The numbers that slices stand for, in their order."""
    return torch.cat([torch.arange(p.start, p.stop, p.step or 1, device=device) for p in positions])


def distance_buckets(distances: Tensor, buckets: int, max_distance: int) -> Tensor:
    """The bucket of each distance d >= 0, a number below n, the number of buckets.

    The first h = n // 2 distances have buckets of their own; the others share the rest, which grow
    with the logarithm: min(n - 1, h + floor((n - h) log(d / h) / log(max_distance / h))).

    Args:
        distances: whole numbers of any shape. buckets: n. max_distance: from which on all
            distances are in the last bucket.
    """
    own = buckets // 2
    # in float32 and in this order, as T5's own code rounds at the borders of buckets
    shares = torch.log(distances.float() / own) / math.log(max_distance / own) * (buckets - own)
    large = (own + shares.clamp(min=0).long()).clamp(max=buckets - 1)
    return torch.where(distances < own, distances, large)


class RelativeBias(nn.Module):
    """What is added to the score of a query and a key, by head and distance.

    The bucket of every distance up to the largest is stored beside the numbers, so that nothing but
    a look-up is left to compute, and no host waits for its device.

    Args:
        num_heads: H. buckets: how many distances are told apart.
        max_distance: from which on all distances are in one bucket.
        both_ways: keys behind a query and those before it have a half of the buckets each;
            otherwise queries see no later key.
    Raises:
        UserError: too few buckets, or a distance that leaves no room for them.
    """

    bucket_of: Tensor

    def __init__(self, num_heads: int, buckets: int, max_distance: int, both_ways: bool):
        super().__init__()
        one_way = buckets // 2 if both_ways else buckets
        if one_way < 2 or max_distance <= one_way // 2:
            raise UserError(
                f"--relative-buckets {buckets} and --relative-max-distance {max_distance}: give at "
                "least 4 buckets, and a distance above half of them"
            )
        self.max_distance = max_distance
        self.weight = nn.Parameter(torch.empty(buckets, num_heads))
        nn.init.normal_(self.weight, std=num_heads**-0.5)
        steps = torch.arange(-max_distance, max_distance + 1)
        before = distance_buckets((-steps).clamp(min=0), one_way, max_distance)
        after = distance_buckets(steps.clamp(min=0), one_way, max_distance) + one_way
        table = torch.where(steps > 0, after, before) if both_ways else before
        self.register_buffer("bucket_of", table, persistent=False)

    def forward(self, steps: Tensor) -> Tensor:
        """The bias for keys so many positions after their query: H x the shape of `steps`.

        Args:
            steps: whole numbers; those of keys before the query are negative.
        """
        numbers = (steps + self.max_distance).clamp(0, 2 * self.max_distance)
        return F.embedding(self.bucket_of[numbers], self.weight).movedim(-1, 0)

    def between(
        self, queries: int, keys: int, positions: Optional[tuple[Positions, Positions]] = None
    ) -> Tensor:
        """The bias of T queries and S keys: H x T x S.

        Args:
            queries, keys: T and S. positions: of the queries and of the keys; None: the keys are
                all positions of a text, and the queries its last ones.
        """
        device = self.weight.device
        if positions is not None:
            of_queries, of_keys = (position_numbers(part, device) for part in positions)
            return self(of_keys - of_queries[:, None])
        # only T + S - 1 differences occur: a row has S of them in turn, and the next row starts
        # one earlier
        by_step = self(torch.arange(1 - keys, queries, device=device))
        return by_step.unfold(1, keys, 1).flip(1)
