"""How long a student is trained: from the size of the training set to epochs and updates."""

import math

MOST_EPOCHS = 50  # students still learn from their teacher after 15 (docs/results/bytes.md)
SMALL_TEXT = 1_000_000  # tokens
FEWEST_UPDATES = 1_000


def default_epochs(tokens: int) -> float:
    """How often a training set is read.

    MOST_EPOCHS times up to SMALL_TEXT tokens, and from there on in inverse proportion to the cube
    root of the tokens: eight times the text is read half as often, which takes four times as long.

    Args:
        tokens: of the longer side of each pair, since they fill the batches.
    """
    return MOST_EPOCHS * min(1.0, (SMALL_TEXT / tokens) ** (1 / 3))


def updates_per_epoch(tokens: int, max_tokens: int, devices: int = 1) -> int:
    """About how many updates read a training set once.

    Args:
        max_tokens: of a batch. devices: each has a batch of its own in every update.
    """
    return math.ceil(tokens / (max_tokens * devices))


def default_updates(tokens: int, max_tokens: int, devices: int = 1) -> int:
    """How many updates read a training set `default_epochs` times, at least FEWEST_UPDATES."""
    epochs = default_epochs(tokens) * updates_per_epoch(tokens, max_tokens, devices)
    return max(FEWEST_UPDATES, round(epochs))
