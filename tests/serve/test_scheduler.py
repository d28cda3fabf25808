"""The scheduler on a simulated server whose batches take known times."""

import random

import pytest

from pet_fairseq.serve.scheduler import Cost, RatioScheduler, choose_ratio

SHARES = {1: 1.0, 2: 0.7, 4: 0.5, 8: 0.4}
COSTS = {k: Cost(0.002, 0.001 * share) for k, share in SHARES.items()}
TOKENS = 20
BATCH = 160
TARGET = 0.5


@pytest.mark.parametrize(
    "waiting, oldest, expected",
    [
        *((0, 0.0, 1), (500, 0.0, 1), (501, 0.0, 2), (1000, 0.0, 4), (1001, 0.0, 8)),
        *((9999, 0.0, 8), (100, 0.4, 1), (101, 0.4, 2), (100, 0.46, 8), (0, 0.6, 1)),
    ],
)
def test_smallest_ratio_that_keeps_the_promise(waiting, oldest, expected):
    seconds = {k: waiting * 0.001 * share for k, share in SHARES.items()}
    assert choose_ratio(seconds, oldest, 0.5) == expected


def test_a_ratio_that_is_slower_is_never_the_way_out():
    assert choose_ratio({1: 3.0, 2: 2.0, 4: 2.5}, 0.0, 1.0) == 2


def test_small_batches_cost_too():
    scheduler = RatioScheduler({1: Cost(0.1, 0.0), 2: Cost(0.05, 0.0)}, 1.0, 100, headroom=0.5)
    assert scheduler.estimates(100) == {1: pytest.approx(0.1), 2: pytest.approx(0.05)}
    assert scheduler.estimates(101) == {1: pytest.approx(0.2), 2: pytest.approx(0.1)}
    assert [scheduler.choose(n, 0.0) for n in (500, 501, 1000)] == [1, 2, 2]


def test_every_batch_tells_about_every_ratio():
    scheduler = RatioScheduler(COSTS, TARGET, BATCH, memory=0.5)
    assert scheduler.pace == 1
    for _ in range(50):
        scheduler.observe(8, 100, 3 * COSTS[8].seconds(100))
    assert scheduler.estimates(100) == {
        k: pytest.approx(3 * cost.seconds(100)) for k, cost in COSTS.items()
    }
    for _ in range(50):
        scheduler.observe(1, 10, COSTS[1].seconds(10))
    assert scheduler.pace == pytest.approx(1)


def test_a_large_batch_says_more_than_a_small_one():
    paces = []
    for tokens in (5, 150):
        scheduler = RatioScheduler(COSTS, TARGET, BATCH)
        scheduler.observe(1, tokens, 2 * COSTS[1].seconds(tokens))
        paces.append(scheduler.pace)
    assert 1 < paces[0] < paces[1] < 2


def test_target():
    with pytest.raises(ValueError, match="target 0: give seconds above 0"):
        RatioScheduler(COSTS, 0, BATCH)


def simulate(rate, scheduler=None, requests=3000, pace=1.0):
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
        batch, queue = queue[: BATCH // TOKENS], queue[BATCH // TOKENS :]
        tokens = len(batch) * TOKENS
        seconds = pace * COSTS[ratio].seconds(tokens) * draw.uniform(0.9, 1.1)
        if scheduler:
            scheduler.observe(ratio, tokens, seconds)
        clock += seconds
        used[ratio] += len(batch)
        answered += [clock - arrived for arrived in batch]
    return sorted(answered)[int(0.95 * len(answered))], used


@pytest.mark.parametrize("pace", [1.0, 2.0])
def test_keeps_the_promise_where_the_plain_model_breaks_it(pace):
    """The plain model can answer 49 requests a second, ratio 8 can answer 120; or half of that."""
    plain, _ = simulate(70 / pace, pace=pace)
    kept, used = simulate(70 / pace, RatioScheduler(COSTS, TARGET, BATCH), pace=pace)
    assert plain > 5 * TARGET
    assert kept <= TARGET
    assert sum(used[k] for k in (2, 4, 8)) > 0


def test_low_load_needs_no_compression():
    kept, used = simulate(10, RatioScheduler(COSTS, TARGET, BATCH))
    assert kept <= TARGET
    assert used == {1: 3000, 2: 0, 4: 0, 8: 0}


def test_ratio_1_comes_back_after_a_hiccup():
    """A few batches that took 50 times as long must not keep the plain model out for good."""
    scheduler = RatioScheduler(COSTS, TARGET, BATCH)
    for _ in range(5):
        scheduler.observe(1, 100, 50 * COSTS[1].seconds(100))
    assert scheduler.choose(100, 0.0) > 1
    _, used = simulate(10, scheduler)
    assert used[1] > 0.97 * 3000
