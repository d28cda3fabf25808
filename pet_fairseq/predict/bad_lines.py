"""Lines that cannot be answered as they are, and the one line that counts them at the end."""

import sys
from collections.abc import Iterable
from enum import Enum
from typing import Optional

from pet_fairseq.predict.lines import Line, check_bytes

FIRST = 5  # how many lines of a kind are named


class Bad(Enum):
    """What is wrong with a line, in the words that follow the number of such lines."""

    EMPTY = "empty"
    CUT = "cut"
    SPLIT = "split"
    SKIPPED = "skipped"
    BROKEN = "with broken bytes"


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
