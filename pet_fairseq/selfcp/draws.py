"""What training draws for each prompt: the ratio, and which half is compressed.

The ratio is that of SelfCP, section 5.1, the half that of SelfCP, section 3.1.1.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from fairseq.data import data_utils


class Draws(NamedTuple):
    """For each prompt of a batch; lists, so that fairseq neither moves nor rounds them."""

    ratios: list[float]  # prompt tokens for one memory token
    latter: list[bool]  # whether `auto` compresses the latter part


def draw(numbers: Sequence[int], low: float, high: float, seed: int, epoch: int) -> Draws:
    """Draw a ratio from [low, high] and a side for each record, anew in each epoch.

    The draws depend on nothing else: not on the batch that a record is in, on workers that load
    data, or on where training was resumed.

    Args:
        numbers: of the records in their data set.
    """
    ratios, latter = [], []
    for number in numbers:
        with data_utils.numpy_seed(seed, epoch, number):
            ratios.append(float(np.random.uniform(low, high)))
            latter.append(bool(np.random.rand() < 0.5))
    return Draws(ratios, latter)
