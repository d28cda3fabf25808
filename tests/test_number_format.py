"""How speeds and ratios are rounded."""

import pytest

from pet_fairseq.number_format import format_ratio, format_speed


@pytest.mark.parametrize(
    "value, speed, ratio",
    [
        (1917.4, "1,920", "1,900"),
        (999.6, "1,000", "1,000"),
        (832.0, "832", "830"),
        (41.26, "41.3", "41"),
        (9.996, "10.0", "10"),
        (2.349, "2.35", "2.3"),
        (1.0, "1.00", "1.0"),
        (0.0834, "0.0834", "0.083"),
        (0.0, "0", "0"),
        (float("inf"), "inf", "inf"),
    ],
)
def test_significant_digits(value, speed, ratio):
    assert (format_speed(value), format_ratio(value)) == (speed, ratio)
