"""How many updates of a training fit into some hours, estimated from the log of a short one."""

import math
import re
import statistics
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.results.fairseq_output import NUMBER

FIGURES = {
    name: re.compile(rf"train_inner .*\b{name}={NUMBER}") for name in ("num_updates", "wall", "ups")
}
FEWEST = 100  # updates; fewer are not worth a training


def check_hours(hours: float) -> None:
    """Raises UserError if hours are not a finite number above 0."""
    if not 0 < hours < math.inf:
        raise UserError(f"--hours {hours:g}: give a number above 0 that is finite")


def updates_for(log: Path, hours: float, share: float, at_least: int = 1) -> int:
    """How many updates fit into a share of the hours, or `at_least` as many.

    Args:
        log: what fairseq-train printed in a short training. share: 1 for all of the hours.
    Raises:
        UserError: a log without speeds, too few hours, or endless ones.
    """
    check_hours(hours)
    text = log.read_text(encoding="utf-8", errors="replace")
    numbers, walls, speeds = (
        [float(value) for value in pattern.findall(text)] for pattern in FIGURES.values()
    )
    if len(numbers) < 2:
        raise UserError(
            f"{log}: has no speeds; give the log of a fairseq-train that printed at least two"
        )
    seconds = walls[-1] - walls[0]  # rounded to whole seconds: too inexact for a short time
    speed = (numbers[-1] - numbers[0]) / seconds if seconds >= 20 else statistics.median(speeds[1:])
    total = speed * 3600 * hours
    if total < FEWEST:
        raise UserError(
            f"--hours {hours:g}: room for {int(total)} updates at {speed:.2g} a second; give more"
        )
    return max(at_least, int(share * total))
