"""The scheduler on a simulated server whose batches take known times."""

import random

import pytest

from pet_fairseq.variator.scheduler import RatioScheduler, choose_ratio

COSTS = {1: 1.0, 2: 0.7, 4: 0.5, 8: 0.4}
SECONDS_PER_TOKEN = 0.001
TOKENS = 20
BATCH = 8
TARGET = 0.5


@pytest.mark.parametrize(
    "waiting, oldest, expected",
    [
        *((0, 0.0, 1), (500, 0.0, 1), (501, 0.0, 2), (1000, 0.0, 4), (1001, 0.0, 8)),
        *((9999, 0.0, 8), (100, 0.4, 1), (101, 0.4, 2), (100, 0.46, 8), (0, 0.6, 8)),
    ],
)
def test_smallest_ratio_that_keeps_the_promise(waiting, oldest, expected):
    costs = {k: c * SECONDS_PER_TOKEN for k, c in COSTS.items()}
    assert choose_ratio(costs, waiting, oldest, 0.5) == expected


def test_estimates_of_ratios_that_never_ran():
    scheduler = RatioScheduler(COSTS, TARGET, memory=0.5)
    assert scheduler.choose(10**9, 100.0) == 1  # nothing is known yet
    scheduler.observe(1, 100, 0.2)
    assert scheduler.estimates() == pytest.approx({k: 0.002 * c for k, c in COSTS.items()})
    scheduler.observe(1, 100, 0.4)
    assert scheduler.estimates()[1] == pytest.approx(0.003)
    scheduler.observe(8, 100, 0.1)
    assert scheduler.estimates()[8] == pytest.approx(0.001)
    with pytest.raises(ValueError, match="target 0: give seconds above 0"):
        RatioScheduler(COSTS, 0)


def simulate(rate, scheduler=None, requests=3000):
    """Poisson arrivals at one server; returns the 95th percentile and how often each ratio ran."""
    draw = random.Random(1)
    arrivals, now = [], 0.0
    for _ in range(requests):
        now += draw.expovariate(rate)
        arrivals.append(now)
    clock, answered, used = 0.0, [], dict.fromkeys(COSTS, 0)
    queue = []
    while arrivals or queue:
        if not queue:
            clock = max(clock, arrivals[0])
        while arrivals and arrivals[0] <= clock:
            queue.append(arrivals.pop(0))
        waiting = len(queue) * TOKENS
        ratio = scheduler.choose(waiting, clock - queue[0]) if scheduler else 1
        batch, queue = queue[:BATCH], queue[BATCH:]
        seconds = len(batch) * TOKENS * SECONDS_PER_TOKEN * COSTS[ratio]
        seconds *= draw.uniform(0.9, 1.1)
        if scheduler:
            scheduler.observe(ratio, len(batch) * TOKENS, seconds)
        clock += seconds
        used[ratio] += len(batch)
        answered += [clock - arrived for arrived in batch]
    return sorted(answered)[int(0.95 * len(answered))], used


def test_keeps_the_promise_where_the_plain_model_breaks_it():
    """The plain model can answer 50 requests a second, ratio 8 can answer 125."""
    plain, _ = simulate(rate=70)
    kept, used = simulate(70, RatioScheduler(COSTS, TARGET))
    assert plain > 5 * TARGET
    assert kept <= TARGET
    assert sum(used[k] for k in (2, 4, 8)) > 0


def test_low_load_needs_no_compression():
    kept, used = simulate(10, RatioScheduler(COSTS, TARGET))
    assert kept <= TARGET
    assert used == {1: 3000, 2: 0, 4: 0, 8: 0}
