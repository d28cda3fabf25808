"""The figures of /metrics, in Prometheus' text format."""

import math
from collections import Counter, deque

QUANTILES = (0.5, 0.95, 0.99)
PREFIX = "pet_fairseq"


class Window:
    """The values of the last seconds.

    Args:
        seconds: how long a value counts. max_values: how many are kept, the newest ones.
    """

    def __init__(self, seconds: float = 60.0, max_values: int = 10_000):
        self.seconds = seconds
        self.values: deque[tuple[float, float]] = deque(maxlen=max_values)

    def add(self, value: float, now: float) -> None:
        self.values.append((now, value))

    def quantiles(self, shares: tuple[float, ...], now: float) -> list[float]:
        """For each share the smallest value that so many values do not exceed; NaN without any."""
        while self.values and self.values[0][0] < now - self.seconds:
            self.values.popleft()
        ordered = sorted(value for _, value in self.values)
        if not ordered:
            return [math.nan] * len(shares)
        return [ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in shares]


class Metrics:
    """Counts since the start, and latencies of the last minute.

    Args:
        target: promised latency in seconds; ratio: in use at the start.
    """

    def __init__(self, target: float, ratio: int):
        self.target = target
        self.ratio = ratio
        self.requests: Counter = Counter()  # by status
        self.batches: Counter = Counter()  # by ratio
        self.tokens: Counter = Counter()  # by ratio
        self.latency = Window()
        self.latency_sum = 0.0
        self.latency_count = 0

    def count_request(self, status: int) -> None:
        self.requests[status] += 1

    def count_batch(self, ratio: int, tokens: int) -> None:
        self.ratio = ratio
        self.batches[ratio] += 1
        self.tokens[ratio] += tokens

    def count_answer(self, seconds: float, now: float) -> None:
        """Count a request that was answered so many seconds after it came."""
        self.latency.add(seconds, now)
        self.latency_sum += seconds
        self.latency_count += 1

    def text(self, waiting: int, waiting_tokens: int, now: float) -> str:
        """The page for Prometheus; waiting: texts in the queue, waiting_tokens: their tokens."""
        quantiles = zip(QUANTILES, self.latency.quantiles(QUANTILES, now))
        latency = {f'{{quantile="{share}"}}': value for share, value in quantiles}
        latency |= {"_sum": self.latency_sum, "_count": self.latency_count}
        families: list[tuple[str, str, str, dict[str, float]]] = [
            ("ratio", "gauge", "compression ratio of the last batch", {"": self.ratio}),
            ("queue_texts", "gauge", "texts that wait", {"": waiting}),
            ("queue_tokens", "gauge", "tokens that wait", {"": waiting_tokens}),
            ("target_seconds", "gauge", "latency that is promised", {"": self.target}),
            ("requests_total", "counter", "requests by status", labelled("status", self.requests)),
            ("batches_total", "counter", "batches by ratio", labelled("ratio", self.batches)),
            ("tokens_total", "counter", "tokens by ratio", labelled("ratio", self.tokens)),
            (
                "latency_seconds",
                "summary",
                "from arrival to answer; quantiles over the last minute",
                latency,
            ),
        ]
        return "".join(family(*parts) for parts in families)


def labelled(label: str, counts: Counter) -> dict[str, float]:
    return {f'{{{label}="{key}"}}': counts[key] for key in sorted(counts)}


def family(name: str, kind: str, description: str, values: dict[str, float]) -> str:
    """One metric with its values by suffix."""
    name = f"{PREFIX}_{name}"
    head = f"# HELP {name} {description}\n# TYPE {name} {kind}\n"
    return head + "".join(f"{name}{suffix} {number(v)}\n" for suffix, v in values.items())


def number(value: float) -> str:
    return "NaN" if math.isnan(value) else str(value)
