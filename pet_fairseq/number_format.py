"""How measured speeds, and ratios of measurements, are rounded wherever they are shown.

Repeated measurements of one model differ by some percent, so more digits would say nothing.
"""

import math

SPEED_DIGITS, RATIO_DIGITS = 3, 2


def format_speed(value: float) -> str:
    """A speed with three significant digits: 1,920, 832, 41.3."""
    return significant(value, SPEED_DIGITS)


def format_ratio(value: float) -> str:
    """How many times as much, with two significant digits: 12, 2.3, 0.85."""
    return significant(value, RATIO_DIGITS)


def significant(value: float, digits: int) -> str:
    """A number rounded to significant digits, with commas between thousands."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, decimals)}f}"
