"""Imported by the fuzz_*.py beside it: makes wrong inputs, out of right ones or out of nothing."""

import json
import random
import string
from collections.abc import Callable, Sequence
from pathlib import Path

Read = Callable[[], object]
Prepare = Callable[[Path], Callable[[random.Random], Read]]

# what breaks readers of text: huge numbers, foreign ones, near-numbers, half and control characters
ODD = (
    *("", " ", "\n", "\t", "\0", "\x85", "\u2028", "\ufeff", "é", "٣", "²", "\ud800", "%s"),
    *("0", "1", "2", "3", "9", "-1", "+1", "1.5", "1_0", "1e9", "1e999", "nan", "inf", "-0"),
    *("9" * 30, "9" * 5000, "{", "}", "[", "]", "[" * 5000, '"', "'", "\\", "/", ",", "=", ":"),
    *("null", "true", "{}", "[]", "NaN", "None", "../..", "/dev/null", "*"),
)


def soup(draw: random.Random, words: Sequence[str]) -> str:
    """Up to 12 of a reader's own words, some of them odd ones."""
    number = draw.randint(0, 12)
    return "".join(draw.choice(ODD if draw.random() < 0.15 else words) for _ in range(number))


def damaged(draw: random.Random, data: bytes) -> bytes:
    """Bytes that were cut, flipped, repeated, left out or mixed, in one to four places."""
    for _ in range(draw.randint(1, 4)):
        start, end = sorted(draw.randint(0, len(data)) for _ in range(2))
        change = draw.randrange(7)
        if change == 0:
            data = data[:start]
        elif change == 1 and data:
            at = draw.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
        elif change == 2:
            data = data[:start] + draw.randbytes(draw.randint(1, 20)) + data[start:]
        elif change == 3:
            data = data[:start] + data[end:]
        elif change == 4:
            data = data[:end] + data[start : min(end, start + 1000)] + data[end:]
        elif change == 5:
            data = data[:start] + draw.choice(ODD).encode("utf-8", "replace") + data[start:]
        else:
            data = data[:start] + bytes(min(end - start, 1000)) + data[end:]
    return data


def odd_value(draw: random.Random, depth: int = 0) -> object:
    """Some value that JSON can hold."""
    kind = draw.randrange(7 if depth < 3 else 5)
    if kind < 2:
        return draw.choice((None, True, False, 0, 1, -1, 10**30, 1e308, float("nan"), 2.5))
    if kind < 5:
        return draw.choice(ODD)[:100]
    values = [odd_value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    return values if kind == 5 else {draw.choice(string.ascii_letters): v for v in values}


def changed(draw: random.Random, value: object) -> object:
    """A JSON value of which a part has another value or is missing."""
    if not isinstance(value, (dict, list)) or not value or draw.random() < 0.2:
        return odd_value(draw)
    copy = dict(value) if isinstance(value, dict) else list(value)
    key = draw.choice(list(copy)) if isinstance(copy, dict) else draw.randrange(len(copy))
    if draw.random() < 0.3:
        del copy[key]
    else:
        copy[key] = changed(draw, copy[key])
    return copy


def damaged_json(draw: random.Random, value: object) -> bytes:
    """Text that is almost this JSON value, in its form or in its content."""
    if draw.random() < 0.5:
        return damaged(draw, json.dumps(value).encode())
    return json.dumps(changed(draw, value)).encode("utf-8", "replace")


def from_file(path: Path, make: Callable[[random.Random], bytes], read: Callable[[], object]):
    """A reader of a file whose content is made anew for every input."""

    def prepare_input(draw: random.Random) -> Read:
        path.write_bytes(make(draw))
        return read

    return prepare_input
