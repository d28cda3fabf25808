"""Which lines are counted as bad, and how they are named."""

import pytest

from pet_fairseq.predict.bad_lines import Bad, BadLines


def summary(*lines):
    found = BadLines()
    for kinds in lines:
        found.add(kinds)
    return found.summary()


def test_nothing_is_said_of_good_lines():
    assert summary() is None and summary((), (), ()) is None


def test_each_line_is_counted_once_and_each_kind_for_itself():
    lines = [()] * 999_000
    lines[17] = (Bad.BROKEN, Bad.CUT)
    lines[998_000] = (Bad.CUT,)
    lines[3] = (Bad.EMPTY,)
    assert summary(*lines) == (
        "3 of 999,000 lines: 1 empty (line 4), 2 cut (lines 18, 998001), "
        "1 with broken bytes (line 18)"
    )


@pytest.mark.parametrize("count, names", [(5, "1, 2, 3, 4, 5"), (6, "1, 2, 3, 4, 5, ...")])
def test_only_the_first_are_named(count, names):
    expected = f"{count} of {count} lines: {count} skipped (lines {names})"
    assert summary(*[(Bad.SKIPPED,)] * count) == expected
