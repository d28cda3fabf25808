"""The probabilities from which a teacher counts as confident: given, or measured on a sample."""

import logging
import math
from typing import Optional

from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.pet.simplified_loss import CLASSES

logger = logging.getLogger(__name__)

# the values of the thesis's released code; the thesis itself gives none
DEFAULT_THRESHOLDS = (0.9, 0.7)


def read_threshold(option: str, text: str) -> Optional[float]:
    """A threshold as a number, None for `auto`.

    Raises:
        UserError: not a number in (0, 1].
    """
    if text == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise UserError(f"{option} {text}: give a number above 0 and up to 1, or auto")
    return value


def fill_thresholds(
    given: tuple[Optional[float], Optional[float]],
    medians: tuple[Optional[float], Optional[float]],
) -> tuple[float, float]:
    """The thresholds: those given, else the medians, else (no token to measure) the defaults."""
    correct, wrong = (
        next(value for value in choices if value is not None)
        for choices in zip(given, medians, DEFAULT_THRESHOLDS)
    )
    return correct, wrong


def log_classes(thresholds: tuple[float, float], counts: Tensor, subset: str) -> None:
    """Log the share of each class in a sample; warn of a class without tokens.

    Args:
        thresholds: eps1 and eps2; counts: tokens of each class, [4];
            subset: the set of the data that the sample is from.
    """
    percent = 100.0 * counts / counts.sum()
    listing = ", ".join(f"{name} {share:.1f}%" for name, share in zip(CLASSES, percent.tolist()))
    logger.info(
        f"thresholds {thresholds[0]:.4f} (right) and {thresholds[1]:.4f} (wrong); the teacher on "
        f"{int(counts.sum()):,} tokens of the set {subset}: {listing}"
    )
    for i, (name, count) in enumerate(zip(CLASSES, counts.tolist())):
        if count == 0:
            option = "--confident-correct" if i < 2 else "--confident-wrong"
            logger.warning(
                f"{option} {thresholds[i // 2]:.4f}: no token of the sample is {name}; the student "
                "learns nothing about this class; try auto, or another teacher"
            )
