"""Tables in Markdown.

`text` lists the columns that hold text, counted from 0; the others hold numbers and are
right-aligned. The library tabulate would not do: it escapes no bars, pads every cell to the longest
one, and cannot print a table row by row.
"""

from collections.abc import Collection, Iterable, Sequence


def table_row(cells: Iterable[str]) -> str:
    """One line of a table, without its end; bars in the cells are escaped."""
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def table_head(header: Sequence[str], text: Collection[int] = (0,)) -> str:
    """The two lines above the rows, for tables that are printed row by row."""
    rule = ["---" if column in text else "---:" for column in range(len(header))]
    return f"{table_row(header)}\n{table_row(rule)}"


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], text: Collection[int] = (0,)
) -> str:
    """A whole table; its last line ends in a line break, too."""
    return "".join(f"{line}\n" for line in [table_head(header, text), *map(table_row, rows)])


def aligned_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], text: Collection[int] = (0,)
) -> str:
    """A whole table with its columns padded to equal widths, to be read on a terminal."""
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    rule = ["-" * w if i in text else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    lines = [
        [c.ljust(w) if i in text else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        for row in cells
    ]
    return "".join(f"{table_row(line)}\n" for line in [lines[0], rule, *lines[1:]])
