"""How many updates of a training fit into a time, by the log of a short one."""

import re
import statistics
from pathlib import Path

from pet_fairseq.errors import UserError

NUMBER = {
    name: re.compile(rf"train_inner .*\b{name}=([\d.]+)") for name in ("num_updates", "wall", "ups")
}
FEWEST = 100  # updates that are worth a training


def updates_for(log: Path, hours: float, share: float) -> int:
    """How many updates a share of the hours has room for, by the log of a short training.

    Raises:
        UserError: a log without speeds, or a time that is too short.
    """
    text = log.read_text(encoding="utf-8", errors="replace")
    numbers, walls, speeds = (
        [float(value) for value in pattern.findall(text)] for pattern in NUMBER.values()
    )
    if len(numbers) < 2:
        raise UserError(f"{log}: has no speeds; it has to be fairseq-train's, of two lines or more")
    seconds = walls[-1] - walls[0]  # whole seconds: too rough for a short time
    speed = (numbers[-1] - numbers[0]) / seconds if seconds >= 20 else statistics.median(speeds[1:])
    total = speed * 3600 * hours
    if total < FEWEST:
        raise UserError(
            f"--hours {hours:g}: room for {int(total)} updates at {speed:.2g} a second; give more"
        )
    return max(1, int(share * total))
