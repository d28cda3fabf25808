"""The bias by distance of T5's attention against the paper's words."""

import math

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.nn.relative_bias import RelativeBias


def bucket(step, buckets, max_distance, both_ways):
    """By the paper's words: half of the buckets for single distances, the others by logarithm."""
    first = 0
    if both_ways:
        buckets //= 2
        first = buckets if step > 0 else 0
    distance = abs(step) if both_ways else max(-step, 0)
    single = buckets // 2
    if distance < single:
        return first + distance
    share = math.log(distance / single) / math.log(max_distance / single)
    return first + min(buckets - 1, single + int(share * (buckets - single) + 1e-6))


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 6), (9, 20), (4, 100)])
def test_buckets(buckets, max_distance, both_ways):
    bias = RelativeBias(3, buckets, max_distance, both_ways)
    steps = torch.arange(-2 * max_distance, 2 * max_distance + 1)
    rows = [bucket(step, buckets, max_distance, both_ways) for step in steps.tolist()]
    assert torch.equal(bias(steps), bias.weight[rows].T)
    assert max(rows) == (2 * (buckets // 2) if both_ways else buckets) - 1


def test_the_bias_of_positions():
    bias = RelativeBias(2, 8, 6, both_ways=True)
    for queries, keys in ((5, 5), (1, 4), (3, 9), (1, 1)):
        found = bias.between(queries, keys)
        assert found.shape == (2, queries, keys)
        for i in range(queries):
            for j in range(keys):
                step = j - (keys - queries + i)
                assert torch.equal(found[:, i, j], bias(torch.tensor(step)))
    groups = bias.between(2, 3, ((slice(0, 2),), (slice(0, 4, 3), slice(7, 8))))
    steps = torch.tensor([[0, 3, 7], [-1, 2, 6]])
    assert torch.equal(groups, bias(steps))


def test_tables_stay_in_whole_numbers():
    """Half precision and loading leave the buckets alone, and checkpoints do not hold them."""
    bias = RelativeBias(2, 32, 128, both_ways=True)
    assert list(bias.state_dict()) == ["weight"]
    assert bias.bfloat16()(torch.tensor(-7)).dtype == torch.bfloat16
    assert bias.bucket_of.dtype == torch.int64


@pytest.mark.parametrize(
    ("buckets", "max_distance", "both_ways"), [(3, 10, True), (1, 10, False), (8, 4, False)]
)
def test_too_few_buckets(buckets, max_distance, both_ways):
    with pytest.raises(UserError, match=f"--relative-buckets {buckets} and .* {max_distance}: "):
        RelativeBias(2, buckets, max_distance, both_ways)
