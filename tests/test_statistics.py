"""Means, intervals and the paired bootstrap, against what is known of them."""

import math
import random
import statistics

import pytest

from pet_fairseq.statistics import Sample, paired_bootstrap


def test_mean_and_deviation():
    sample = Sample([2.0, 4.0, 9.0])  # squares of -3, -1 and 4 over two degrees of freedom
    assert sample.mean == 5 and sample.deviation == pytest.approx(math.sqrt(26 / 2))
    assert sample.text() == "5.00 ± 3.61" and sample.text("{:.0f}".format) == "5 ± 4"
    assert Sample([0.1] * 3).deviation == 0
    one = Sample([2.0])
    assert (one.mean, one.deviation, one.half_width, one.text()) == (2.0, None, None, "2.00")
    assert Sample([1.0, math.inf]).text() == "inf ± nan"  # a perplexity can be infinite


@pytest.mark.parametrize("numbers", [2, 3, 10, 11, 40])
def test_half_of_the_interval(numbers):
    """95 of 100 such intervals hold the mean that the values were drawn around."""
    draw = statistics.NormalDist(5, 2).samples(4000 * numbers, seed=numbers)
    samples = [Sample(draw[i : i + numbers]) for i in range(0, len(draw), numbers)]
    inside = sum(abs(sample.mean - 5) <= sample.half_width for sample in samples)
    assert inside / 4000 == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    "freedom, value", [(1, 12.706), (2, 4.303), (9, 2.262), (10, 2.228), (30, 2.042), (120, 1.980)]
)
def test_students_t_of_tables(freedom, value):
    sample = Sample(range(freedom + 1))
    error = sample.deviation / math.sqrt(freedom + 1)
    assert sample.half_width / error == pytest.approx(value, abs=0.0005)


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
