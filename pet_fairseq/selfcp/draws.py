"""What training draws for each prompt: a ratio, and the part that `auto` compresses."""

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np
from fairseq.data import data_utils

from pet_fairseq.errors import UserError

Range = tuple[float, float]  # the lowest and the highest ratio


class Draws(NamedTuple):
    """For each prompt of a batch; lists, so that fairseq neither moves nor rounds them."""

    ratios: list[float]  # prompt tokens for one memory token
    latter: list[bool]  # whether `auto` compresses the latter part


def read_range(text: str) -> Optional[Range]:
    """Read a range of ratios, None for an empty text.

    Raises:
        UserError: not LOW,HIGH with 1 <= LOW <= HIGH.
    """
    if not text:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low, high = 0.0, 0.0
    if not 1 <= low <= high < float("inf"):
        raise UserError(f"--memory-ratio-range {text}: give LOW,HIGH with 1 <= LOW <= HIGH")
    return low, high


def draw(numbers: Sequence[int], low: float, high: float, seed: int, epoch: int) -> Draws:
    """Draw a ratio (SelfCP, section 5.1) and a side (SelfCP, section 3.1.1) for each record.

    They are drawn anew in each epoch and depend on nothing else: not on the batch that a record is
    in, on workers that load data, or on where training was resumed.

    Args:
        numbers: of the records in their data set.
    """
    ratios, latter = [], []
    for number in numbers:
        with data_utils.numpy_seed(seed, epoch, number):
            ratios.append(float(np.random.uniform(low, high)))
            latter.append(bool(np.random.rand() < 0.5))
    return Draws(ratios, latter)
