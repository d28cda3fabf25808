"""Mean, deviation and confidence interval of a few measurements, and the paired bootstrap."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional

import numpy as np

BOOTSTRAP_SAMPLES = 10_000


@dataclass(frozen=True)
class Sample:
    """One or more measurements of the same figure, such as the BLEU of each seed of a row."""

    values: Sequence[float]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> Optional[float]:
        """The sample standard deviation; None for a single value, nan if one is infinite."""
        if len(self.values) < 2:
            return None
        return statistics.stdev(self.values) if math.isfinite(self.mean) else math.nan

    @property
    def half_width(self) -> Optional[float]:
        """Half the width of the mean's 95% confidence interval by Student's t; None for one value.

        It is t(n - 1) s / sqrt(n) for the deviation s of n values.
        """
        from scipy.stats import t  # it takes half a second to load

        number, deviation = len(self.values), self.deviation
        if deviation is None:
            return None
        return float(t.ppf(0.975, number - 1)) * deviation / math.sqrt(number)

    def text(self, show: Callable[[float], str] = "{:.2f}".format) -> str:
        """The mean, and ± the deviation of two values or more; `show` writes each of them."""
        parts = [self.mean] if self.deviation is None else [self.mean, self.deviation]
        return " ± ".join(map(show, parts))


class Difference(NamedTuple):
    """The difference, its 95% interval, and the two-sided p-value of no difference."""

    mean: float
    low: float
    high: float
    p: float

    def text(self, digits: int = 2) -> str:
        """The difference with its sign, and its interval in brackets."""
        mean, low, high = (f"{value:+.{digits}f}" for value in (self.mean, self.low, self.high))
        return f"{mean} [{low}, {high}]"


def paired_bootstrap(
    ours: Sequence[float],
    theirs: Sequence[float],
    samples: int = BOOTSTRAP_SAMPLES,
    seed: int = 1,
) -> Difference:
    """The mean of `ours` minus that of `theirs`, over sentences drawn anew with replacement.

    For scores of single sentences, such as accuracy. BLEU and chrF are no means over sentences:
    `bootstrap` computes them of the sentences that are drawn.

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
    return bootstrap(lambda drawn: differences[drawn].mean(), len(differences), samples, seed)


def bootstrap(
    difference: Callable[[np.ndarray], float], sentences: int, samples: int, seed: int = 1
) -> Difference:
    """The difference of two systems on all sentences, and how it varies over samples of them.

    Args:
        difference: of the sentences with these numbers, in which one may stand several times; the
            same ones for both systems.
        sentences: how many there are. samples: how often as many are drawn. seed: of the draws.
    """
    draw = np.random.default_rng(seed)
    drawn = (draw.integers(sentences, size=sentences) for _ in range(samples))
    found = np.array([difference(numbers) for numbers in drawn])
    low, high = np.quantile(found, (0.025, 0.975))
    # the share of samples on the other side of 0, where 0 itself belongs to both sides
    one_side = min((found <= 0).mean(), (found >= 0).mean())
    mean = float(difference(np.arange(sentences)))
    return Difference(mean, float(low), float(high), min(1.0, float(2 * one_side)))
