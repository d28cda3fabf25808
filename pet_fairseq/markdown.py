"""Tables in Markdown.

`text` says which columns hold text, by their numbers from 0 on; the others hold numbers, which are
aligned at the right.
"""

from collections.abc import Collection, Iterable, Sequence


def table_row(cells: Iterable[str]) -> str:
    """One line of a table, without its end; bars in the cells are escaped."""
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def table_head(header: Sequence[str], text: Collection[int] = (0,)) -> str:
    """The two lines above the rows, for tables that are printed while they are measured."""
    rule = ["---" if column in text else "---:" for column in range(len(header))]
    return f"{table_row(header)}\n{table_row(rule)}"


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], text: Collection[int] = (0,)
) -> str:
    """A whole table with the end of its last line."""
    return "".join(f"{line}\n" for line in [table_head(header, text), *map(table_row, rows)])


def aligned_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], text: Collection[int] = (0,)
) -> str:
    """The same with columns as wide as their widest cell, for wide tables on a terminal."""
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    rule = ["-" * w if i in text else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    lines = [
        [c.ljust(w) if i in text else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        for row in cells
    ]
    return "".join(f"{table_row(line)}\n" for line in [lines[0], rule, *lines[1:]])
