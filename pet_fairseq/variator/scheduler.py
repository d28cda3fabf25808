"""Which ratio a server uses next, from what waits and a promise about latency (no fairseq here).

The ratio is the smallest at which everything that waits now would be answered within the target; if
none is fast enough, the largest. How fast each ratio is, is learned from the batches as they run.
"""

from typing import Dict, List


def choose_ratio(
    seconds_per_token: Dict[int, float], waiting_tokens: int, oldest_wait: float, target: float
) -> int:
    """The smallest ratio that keeps the promise.

    Args:
        seconds_per_token: by ratio. waiting_tokens: in the queue, the next batch included.
        oldest_wait: seconds that the oldest request has waited. target: seconds from arrival to
            answer.
    """
    for ratio in sorted(seconds_per_token):
        if oldest_wait + waiting_tokens * seconds_per_token[ratio] <= target:
            return ratio
    return max(seconds_per_token)


class RatioScheduler:
    """Chooses ratios, and keeps a running estimate of what each of them costs.

    Args:
        relative_costs: time of a token by ratio, relative to ratio 1 (FLOPs are a good start).
        target: seconds from arrival to answer that are promised for nearly all requests.
        headroom: share of the target to aim at; what comes while a batch runs needs the rest.
        memory: weight of the newest batch in the running estimate, in (0, 1].
    """

    def __init__(
        self,
        relative_costs: Dict[int, float],
        target: float,
        headroom: float = 0.7,
        memory: float = 0.2,
    ):
        if not target > 0:
            raise ValueError(f"target {target}: give seconds above 0")
        self.relative_costs = dict(relative_costs)
        self.target = target
        self.headroom = headroom
        self.memory = memory
        self.seconds_per_token: Dict[int, float] = {}  # of the ratios that have run

    @property
    def ratios(self) -> List[int]:
        return sorted(self.relative_costs)

    def choose(self, waiting_tokens: int, oldest_wait: float) -> int:
        """The ratio for the next batch."""
        if not self.seconds_per_token:
            return self.ratios[0]  # nothing is known yet
        return choose_ratio(
            self.estimates(), waiting_tokens, oldest_wait, self.headroom * self.target
        )

    def observe(self, ratio: int, tokens: int, seconds: float) -> None:
        """A batch of so many tokens took so long."""
        found = seconds / max(tokens, 1)
        known = self.seconds_per_token.get(ratio, found)
        self.seconds_per_token[ratio] = known + self.memory * (found - known)

    def estimates(self) -> Dict[int, float]:
        """Seconds per token of every ratio; of those that never ran from the ones that did."""
        per_cost = [s / self.relative_costs[k] for k, s in self.seconds_per_token.items()]
        base = sum(per_cost) / len(per_cost)
        return {
            k: self.seconds_per_token.get(k, base * cost) for k, cost in self.relative_costs.items()
        }
