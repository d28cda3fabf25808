"""Tables in Markdown: the first columns are text, aligned left, the others numbers."""

from collections.abc import Iterable, Sequence


def table_row(cells: Iterable[str]) -> str:
    """One line of a table, without its end; bars in the cells are escaped."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def table_head(header: Sequence[str], text_columns: int = 1) -> str:
    """The two lines above the rows, for tables that are printed while they are measured."""
    numbers = len(header) - text_columns
    return f"{table_row(header)}\n{table_row(['---'] * text_columns + ['---:'] * numbers)}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1) -> str:
    """A whole table with the end of its last line."""
    lines = [table_head(header, text_columns), *map(table_row, rows)]
    return "\n".join(lines) + "\n"
