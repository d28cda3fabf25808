"""The costs of batches at each ratio, measured on this machine before the server listens."""

import statistics
import time

from pet_fairseq.predict.predictor import Predictor
from pet_fairseq.serve.scheduler import Cost

LENGTH = 128  # tokens of a text
ROUNDS = 7
WARM_UP = 2  # rounds whose times do not count
PATIENCE = 20.0  # seconds after which no new round begins


def measure_costs(model: Predictor, ratios: list[int], batch_tokens: int) -> dict[int, Cost]:
    """The cost of a batch and of a token by ratio: the line through one text and a full batch.

    Each batch runs a few times, in turn with the others, and the median of its times counts. For a
    slow model fewer rounds have to do: none begins after PATIENCE seconds.
    """
    length = min(LENGTH, model.max_tokens)
    text = model.random_text(length)
    batches = [[text], [text] * max(1, batch_tokens // length)]
    cases = [(ratio, batch) for ratio in ratios for batch in batches]
    start = time.perf_counter()
    rounds = []
    while len(rounds) < WARM_UP + ROUNDS:
        if rounds and time.perf_counter() - start > PATIENCE:
            break
        rounds.append([seconds(model, batch, ratio) for ratio, batch in cases])
    counted = rounds[min(WARM_UP, len(rounds) - 1) :]
    medians = [statistics.median(times) for times in zip(*counted)]
    small, large = (length * len(batch) for batch in batches)
    return {
        ratio: fit_line(small, medians[2 * i], large, medians[2 * i + 1])
        for i, ratio in enumerate(ratios)
    }


def seconds(model: Predictor, batch: list, ratio: int) -> float:
    """How long a batch takes; its answers are on the CPU, so the device has finished, too."""
    start = time.perf_counter()
    model.warm_up(batch, ratio)
    return time.perf_counter() - start


def fit_line(small: int, small_seconds: float, large: int, large_seconds: float) -> Cost:
    """The cost of a batch and of a token, from the times of two batches of different sizes."""
    if large == small:
        return Cost(0.0, small_seconds / small)
    token = max(large_seconds - small_seconds, 0.0) / (large - small)
    return Cost(max(small_seconds - token * small, 0.0), token)
