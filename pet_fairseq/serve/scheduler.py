"""Chooses a server's next ratio from the waiting texts and a promised latency; needs no fairseq.

The ratio is the smallest at which all texts that wait now would be answered within the target, less
some headroom; if none is fast enough, the fastest. The cost of a batch at each ratio is measured
beforehand; how fast the machine and the texts of the moment are is learned from every batch,
whatever its ratio, so that no estimate grows old while another ratio is in use.
"""

from typing import NamedTuple


class Cost(NamedTuple):
    """Seconds at one ratio: for a batch, however small, and for each token in it."""

    batch: float
    token: float

    def seconds(self, tokens: int, batches: int = 1) -> float:
        return batches * self.batch + tokens * self.token


def choose_ratio(seconds: dict[int, float], oldest_wait: float, target: float) -> int:
    """The smallest ratio that keeps the promise.

    Args:
        seconds: by ratio, for everything that waits, the next batch included.
        oldest_wait: seconds that the oldest request has waited. target: seconds from arrival to
            answer.
    """
    for ratio in sorted(seconds):
        if oldest_wait + seconds[ratio] <= target:
            return ratio
    return min(seconds, key=seconds.__getitem__)


class RatioScheduler:
    """Chooses ratios, and keeps a running estimate of how fast batches are now.

    Args:
        costs: by ratio, as measured at the start.
        target: seconds from arrival to answer that are promised for nearly all requests.
        batch_tokens: the most tokens of a batch.
        headroom: share of the target to aim at; texts that come while a batch runs need the rest.
        memory: weight of the newest batch in the running estimate, in (0, 1].
    """

    def __init__(
        self,
        costs: dict[int, Cost],
        target: float,
        batch_tokens: int,
        headroom: float = 0.7,
        memory: float = 0.2,
    ):
        if not target > 0:
            raise ValueError(f"target {target}: give seconds above 0")
        self.costs = dict(costs)
        self.target = target
        self.batch_tokens = batch_tokens
        self.headroom = headroom
        self.memory = memory
        # running means; a large batch says more about the speed than a small one
        self.expected = self.taken = self.costs[self.ratios[0]].seconds(batch_tokens)

    @property
    def ratios(self) -> list[int]:
        return sorted(self.costs)

    @property
    def pace(self) -> float:
        """How long batches take now over how long they took when they were measured."""
        return self.taken / self.expected

    def choose(self, waiting_tokens: int, oldest_wait: float) -> int:
        """The ratio for the next batch; waiting_tokens: of all waiting texts, its own included."""
        return choose_ratio(
            self.estimates(waiting_tokens), oldest_wait, self.headroom * self.target
        )

    def estimates(self, tokens: int) -> dict[int, float]:
        """Seconds for a number of tokens, by ratio."""
        batches = -(-tokens // self.batch_tokens)
        return {k: self.pace * cost.seconds(tokens, batches) for k, cost in self.costs.items()}

    def observe(self, ratio: int, tokens: int, seconds: float) -> None:
        """Take into account how long a batch took at a ratio."""
        self.expected += self.memory * (self.costs[ratio].seconds(tokens) - self.expected)
        self.taken += self.memory * (seconds - self.taken)
