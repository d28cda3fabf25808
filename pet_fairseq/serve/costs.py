"""The costs of batches at each ratio, measured on this machine before the server listens."""

import time

import torch
from torch import Tensor

from pet_fairseq.serve.model import ServedModel
from pet_fairseq.serve.scheduler import Cost

SMALL, LENGTH, LARGE = 8, 128, 512  # tokens: of a small batch, of a text and of a large batch
ROUNDS = 5
PATIENCE = 10.0  # seconds after which no new round begins


def measure_costs(model: ServedModel, ratios: list[int], batch_tokens: int) -> dict[int, Cost]:
    """Seconds of a batch and of a token by ratio: the line through two batches of random words.

    Each batch runs a few times, in turn with the others, and its least time counts: whatever
    disturbs makes it longer.
    """
    length = min(LENGTH, model.max_tokens)
    number = max(1, min(LARGE, batch_tokens) // length)
    batches = {
        "small": [random_words(model, min(SMALL, length))],
        "large": [random_words(model, length)] * number,
    }
    least: dict[tuple, float] = {}
    start = time.perf_counter()
    for i in range(ROUNDS):
        if i and time.perf_counter() - start > PATIENCE:
            break
        for ratio in ratios:
            for size, texts in batches.items():
                taken = seconds(model, texts, ratio)
                least[size, ratio] = min(taken, least.get((size, ratio), taken))
    points = {size: sum(map(len, texts)) for size, texts in batches.items()}
    return {
        k: line(points["small"], least["small", k], points["large"], least["large", k])
        for k in ratios
    }


def random_words(model: ServedModel, length: int) -> Tensor:
    """A text of so many tokens: T."""
    words = model.dictionary
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(words.nspecial, len(words), (length,), generator=draw)
    tokens[-1] = words.eos()
    return tokens


def seconds(model: ServedModel, texts: list[Tensor], ratio: int) -> float:
    start = time.perf_counter()
    model.rehearse(texts, ratio)
    return time.perf_counter() - start


def line(small: int, small_seconds: float, large: int, large_seconds: float) -> Cost:
    """The cost of a batch and of a token from two batches of so many tokens."""
    if large == small:
        return Cost(0.0, small_seconds / small)
    token = max(large_seconds - small_seconds, 0.0) / (large - small)
    return Cost(max(small_seconds - token * small, 0.0), token)
