"""The paired bootstrap against what is known of it."""

import math
import random
import statistics

import pytest

from pet_fairseq.results.score.bootstrap import paired_bootstrap


def test_interval_and_p_value_are_those_of_the_normal_distribution():
    """For many sentences the mean of a sample is nearly normal, with the standard error."""
    draw = random.Random(1)
    theirs = [draw.random() < 0.7 for _ in range(2000)]
    ours = [right if draw.random() < 0.8 else draw.random() < 0.8 for right in theirs]
    differences = [a - b for a, b in zip(ours, theirs)]
    mean = statistics.fmean(differences)
    error = statistics.pstdev(differences) / math.sqrt(len(differences))
    found = paired_bootstrap(ours, theirs)
    assert found.mean == pytest.approx(mean)
    assert found.low == pytest.approx(mean - 1.96 * error, abs=0.15 * error)
    assert found.high == pytest.approx(mean + 1.96 * error, abs=0.15 * error)
    assert found.p == pytest.approx(math.erfc(abs(mean) / error / math.sqrt(2)), abs=0.01)
    back = paired_bootstrap(theirs, ours)
    assert (back.mean, back.p) == (-found.mean, pytest.approx(found.p, abs=0.01))


def test_pairs_matter():
    """The same scores in another order are less alike, so that less can be told."""
    ours, theirs = [1] * 60 + [0] * 40, [1] * 55 + [0] * 45
    together, apart = paired_bootstrap(ours, theirs), paired_bootstrap(ours, theirs[::-1])
    assert together.mean == pytest.approx(apart.mean) and together.p < 0.05 < apart.p
    assert apart.high - apart.low > 2 * (together.high - together.low)


def test_equal_scores_and_wrong_ones():
    assert paired_bootstrap([1, 0, 1], [1, 0, 1]) == (0, 0, 0, 1)
    for wrong in (([], []), ([1], [1, 0])):
        with pytest.raises(ValueError, match="give pairs"):
            paired_bootstrap(*wrong)
