"""Lines that cannot be answered as they are, and the one line that counts them at the end."""

import sys
from collections.abc import Iterable
from enum import Enum
from typing import Any, Optional

from pet_fairseq.predict.lines import Line, check_bytes

FIRST = 5  # how many lines of a kind are named


class Bad(Enum):
    """What is wrong with a line, in the words that follow the number of such lines."""

    EMPTY = "empty"
    CUT = "cut"
    SPLIT = "split"
    SKIPPED = "skipped"
    BROKEN = "with broken bytes"
    # in pairs of a line and its translation
    LONG = "too long"
    UNANSWERED = "without a translation"
    ENDLESS = "with a translation that was cut"
    REPETITIVE = "with a translation that repeats itself"
    COPIED = "copied"
    UNBALANCED = "of unlike lengths"


def broken_bytes(line: Line, strict: bool) -> tuple[Bad, ...]:
    """What is wrong with the bytes of a line, nothing if they are UTF-8.

    Raises:
        UserError: with `strict`, they are not UTF-8.
    """
    if strict:
        check_bytes(line)
    return () if line.broken is None else (Bad.BROKEN,)


class BadLines:
    """Counts the lines of a text, and by kind those that are bad; its size does not grow."""

    def __init__(self) -> None:
        self.lines = 0
        self.bad = 0
        self.counts = dict.fromkeys(Bad, 0)
        self.first: dict[Bad, list[int]] = {kind: [] for kind in Bad}

    def add(self, kinds: Iterable[Bad] = ()) -> None:
        """Count the next line, which is bad in these ways."""
        self.lines += 1
        kinds = set(kinds)
        self.bad += bool(kinds)
        for kind in kinds:
            self.counts[kind] += 1
            if len(self.first[kind]) < FIRST:
                self.first[kind].append(self.lines)

    def join(self, more: "BadLines", lines_before: int) -> None:
        """Count the lines of another text; lines_before: how many stand before its first one."""
        self.lines += more.lines
        self.bad += more.bad
        for kind in Bad:
            self.counts[kind] += more.counts[kind]
            self.first[kind] += [lines_before + number for number in more.first[kind]]
            del self.first[kind][FIRST:]

    def record(self) -> dict[str, Any]:
        """The counts, as JSON has them."""
        kinds = [kind for kind in Bad if self.counts[kind]]
        return {
            "lines": self.lines,
            "bad": self.bad,
            "counts": {kind.name.lower(): self.counts[kind] for kind in kinds},
            "first": {kind.name.lower(): self.first[kind] for kind in kinds},
        }

    @classmethod
    def from_record(cls, content: dict[str, Any]) -> "BadLines":
        """The counts of `record`; raises KeyError, TypeError or ValueError for anything else."""
        read = cls()
        read.lines, read.bad = int(content["lines"]), int(content["bad"])
        for name, number in dict(content["counts"]).items():
            read.counts[Bad[name.upper()]] = int(number)
            read.first[Bad[name.upper()]] = list(map(int, content["first"][name]))
        return read

    def summary(self) -> Optional[str]:
        """Such as "3 of 1,000 lines: 2 empty (lines 7, 9), 1 cut (line 5)"; None if all is well."""
        if not self.bad:
            return None
        kinds = [self._describe(kind) for kind in Bad if self.counts[kind]]
        return f"{self.bad:,} of {self.lines:,} lines: {', '.join(kinds)}"

    def _describe(self, kind: Bad) -> str:
        count, first = self.counts[kind], self.first[kind]
        names = ", ".join(map(str, first)) + (", ..." if count > len(first) else "")
        return f"{count:,} {kind.value} (line{'s' if count > 1 else ''} {names})"


def report(bad_lines: BadLines, command: str) -> None:
    """Print on standard error how many lines were bad, if any was, in the name of a command."""
    summary = bad_lines.summary()
    if summary is not None:
        print(f"pet-fairseq {command}: {summary}", file=sys.stderr)
