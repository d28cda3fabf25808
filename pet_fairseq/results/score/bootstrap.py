"""The difference between two models that answered the same sentences, by a paired bootstrap."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SAMPLES = 10_000


class Difference(NamedTuple):
    """The mean difference, its 95% interval, and the two-sided p-value of no difference."""

    mean: float
    low: float
    high: float
    p: float


def paired_bootstrap(
    ours: Sequence[float], theirs: Sequence[float], samples: int = SAMPLES, seed: int = 1
) -> Difference:
    """The mean of `ours` minus that of `theirs`, over sentences drawn anew with replacement.

    Args:
        ours, theirs: scores of the same sentences in the same order: 1 for right and 0 for wrong,
            or means of these over seeds.
        samples: how often as many sentences are drawn. seed: of the draws.
    Raises:
        ValueError: no sentences, or different numbers of them.
    """
    if len(ours) != len(theirs) or not len(ours):
        raise ValueError(f"{len(ours)} scores of ours, {len(theirs)} of theirs: give pairs")
    differences = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    draw = np.random.default_rng(seed)
    means = np.array([draw.choice(differences, len(differences)).mean() for _ in range(samples)])
    low, high = np.quantile(means, (0.025, 0.975))
    # the share of samples on the other side of 0, where 0 itself belongs to both sides
    one_side = min((means <= 0).mean(), (means >= 0).mean())
    return Difference(float(differences.mean()), float(low), float(high), min(1.0, 2 * one_side))
