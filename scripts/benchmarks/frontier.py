#!/usr/bin/env python3
"""What a byte buys: bytes and speed against BLEU, for the finished runs of a translation recipe.

For each run: size and BLEU (fairseq-generate) in 32 bits a weight, and packed in 8 and in 4; size,
BLEU and sentences a second in CTranslate2 int8. Sizes include everything, dictionaries too. A row's
first seed is timed in turn with the teacher, which gives their ratio in each round; a first round
warms up, the median of the others counts. Sentences a second are that ratio times the teacher's, so
that rows measured on different days compare.

Each figure is kept in OUT/cells once it is measured: the same command again measures only what is
missing or belongs to a changed checkpoint. OUT gets frontier.md, frontier.csv and two plots.

    python scripts/benchmarks/frontier.py RUNS [--rows frontier tenth_kd] [--beam 5] [--out FOLDER]
"""

import argparse
import logging
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Optional

from frontier_cells import (
    BITS,
    ENGINE,
    HALF,
    Bench,
    Cell,
    Choices,
    measure,
    stored_in,
    timed_on,
)
from frontier_plots import Trade, plot_size_trades, plot_speed_trades
from harness import processor

import pet_fairseq
from pet_fairseq.errors import UserError
from pet_fairseq.files import check_folder, write_csv, write_text
from pet_fairseq.markdown import table
from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.recipes.translation.rows import BY_NAME, GROUPS, is_finished
from pet_fairseq.results.report.seed_groups import find_groups, read_title
from pet_fairseq.runner.fairseq_commands import BEST
from pet_fairseq.statistics import Sample

MEGABYTE = 10**6


# --- figures --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """The cells of runs that differ in their seed, the first seed first."""

    name: str
    title: str
    runs: list[dict[str, Cell]]


@dataclass(frozen=True)
class Column:
    """A figure of the table, read from a cell.

    Attributes:
        name: in the CSV file, beside NAME_spread. title: in the table.
        show: writes the figure for the table.
    """

    name: str
    title: str
    show: Callable[[float], str]
    form: str
    read: Callable[[Cell], Optional[float]]

    def of(self, row: Row) -> Optional[Sample]:
        """The figure of each seed that has it; None if none has."""
        read = (self.read(run.get(self.form, {})) for run in row.runs)
        figures = [figure for figure in read if figure is not None]
        return Sample(figures) if figures else None


two_decimals = "{:.2f}".format


def megabytes(cell: Cell) -> Optional[float]:
    return cell["bytes"] / MEGABYTE if "bytes" in cell else None


def bleu(cell: Cell) -> Optional[float]:
    return cell.get("bleu")


def times_teacher(cell: Cell) -> Optional[float]:
    """How many times as fast as the teacher in the same round, the median over rounds."""
    if "seconds" not in cell:
        return None
    return statistics.median(t / s for t, s in zip(cell["teacher_seconds"], cell["seconds"]))


def teacher_speed(rows: Iterable[Row], form: str) -> float:
    """The teacher's sentences a second, the median of all rounds; 0 where there were none."""
    cells = [run[form] for row in rows for run in row.runs if "seconds" in run.get(form, {})]
    speeds = [cell["sentences"] / taken for cell in cells for taken in cell["teacher_seconds"]]
    return statistics.median(speeds) if speeds else 0.0


def columns(rows: Sequence[Row], threads: Iterable[int]) -> list[Column]:
    """All columns: bits, the engine, its speeds."""
    chosen = []
    for bits in BITS:
        form = stored_in(bits)
        chosen += [
            Column(f"mb_{bits}", f"{form}: MB", two_decimals, form, megabytes),
            Column(f"bleu_{bits}", "BLEU", two_decimals, form, bleu),
        ]
    chosen += [
        Column("mb_int8", f"{ENGINE}: MB", two_decimals, ENGINE, megabytes),
        Column("mb_int8_float16", "int8_float16: MB", two_decimals, HALF, megabytes),
        Column("bleu_int8", "BLEU", two_decimals, ENGINE, bleu),
    ]
    for number in threads:
        form = timed_on(number)
        speed = speed_beside(teacher_speed(rows, form))
        chosen += [
            Column(f"speed_{number}", f"{form}: sentences/s", format_speed, form, speed),
            Column(f"times_teacher_{number}", "times", format_ratio, form, times_teacher),
        ]
    return chosen


def speed_beside(teacher: float) -> Callable[[Cell], Optional[float]]:
    """A function that reads sentences a second from a cell; `teacher`: the teacher's speed."""

    def speed(cell: Cell) -> Optional[float]:
        times = times_teacher(cell)
        return None if times is None else times * teacher

    return speed


# --- what is written ------------------------------------------------------------------------------


def markdown(rows: Iterable[Row], shown: Sequence[Column]) -> str:
    def cell(row: Row, column: Column) -> str:
        figure = column.of(row)
        return figure.text(column.show) if figure else "-"

    header = ["model", "row", "seeds", *(column.title for column in shown)]
    lines = (
        [row.title, f"`{row.name}`", str(len(row.runs)), *(cell(row, c) for c in shown)]
        for row in rows
    )
    return table(header, lines, text=(0, 1))


def write_figures(rows: Iterable[Row], shown: Sequence[Column], path: Path) -> None:
    """Write the CSV file: each figure's mean and standard deviation."""
    names = (name for column in shown for name in (column.name, f"{column.name}_spread"))
    lines = []
    for row in rows:
        figures = [column.of(row) for column in shown]
        values = ((f.mean, f.deviation) if f else (None, None) for f in figures)
        lines.append([row.name, row.title, len(row.runs), *chain.from_iterable(values)])
    write_csv(path, ["row", "title", "seeds", *names], lines)


def plot(rows: Sequence[Row], shown: Sequence[Column], args: argparse.Namespace) -> None:
    by_name = {column.name: column for column in shown}

    def trades(pairs: Iterable[tuple[str, str, str]]) -> list[Trade]:
        """The points of a plot, of each form's name, x and BLEU."""
        points = []
        for row in rows:
            for form, x, y in pairs:
                cost, bleu = by_name[x].of(row), by_name[y].of(row)
                if cost and bleu:
                    points.append(Trade(row.title, form, cost.mean, bleu.mean, bleu.deviation))
        return points

    stored = [(stored_in(bits), f"mb_{bits}", f"bleu_{bits}") for bits in BITS]
    sizes = trades([*stored, (ENGINE, "mb_int8", "bleu_int8")])
    label = "MB, everything counted"
    plot_size_trades(sizes, label, args.out / "bleu_over_megabytes.png")
    speeds = trades([(timed_on(n), f"speed_{n}", "bleu_int8") for n in args.threads])
    label = f"sentences/s, {ENGINE}, beam {args.beam}"
    plot_speed_trades(speeds, label, args.out / "bleu_over_speed.png")


def notes(rows: Iterable[Row], left_out: Sequence[str], args: argparse.Namespace) -> str:
    """How it was measured, and what is missing."""
    lines = [
        f"Beam: {args.beam}. Speeds: {ENGINE} on {processor()}, the whole test set in turn with "
        f"the teacher; rounds: {args.rounds}, seeds of a row that were timed: {args.timed_seeds}.\n"
    ]
    for row in rows:
        refused = {form: cell.get("refused") for form, cell in row.runs[0].items()}
        lines += [f"- `{row.name}`, {form}: {why}" for form, why in refused.items() if why]
    if left_out:
        lines.append(f"- no finished run, left out: {', '.join(left_out)}")
    return "\n".join(lines) + "\n"


def write(rows: Sequence[Row], left_out: Sequence[str], args: argparse.Namespace) -> str:
    """Write table and plots; returns the table with its notes."""
    shown = columns(rows, args.threads)
    text = f"{markdown(rows, shown)}\n{notes(rows, left_out, args)}"
    write_text(args.out / "frontier.md", text)
    write_figures(rows, shown, args.out / "frontier.csv")
    plot(rows, shown, args)
    return text


# --- the command ----------------------------------------------------------------------------------


def finished_runs(runs: Path) -> dict[str, list[Path]]:
    """The folders of finished runs by row, in the order of the recipe."""
    groups = find_groups(runs, "teacher")
    return {name: list(filter(is_finished, folders)) for name, folders in groups.items()}


def choose_rows(names: Optional[Sequence[str]], finished: dict[str, list[Path]]) -> list[str]:
    """The rows that names of rows and groups mean; all without names.

    Raises:
        UserError: a name that is neither.
    """
    chosen = [row for name in names or finished for row in GROUPS.get(name, (name,))]
    for name in names or ():
        if name not in GROUPS and name not in finished:
            raise UserError(
                f"--rows {name}: there is no run of it; give some of {', '.join(finished)}, or a "
                f"group: {', '.join(GROUPS)}"
            )
    return list(dict.fromkeys(chosen))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, metavar="RUNS", help="folder of a recipe's runs")
    parser.add_argument(
        "--rows",
        nargs="+",
        metavar="ROW",
        help=f"rows, or groups of them: {', '.join(GROUPS)} (default: all that are there)",
    )
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N")
    parser.add_argument("--rounds", type=int, default=5, help="how many rounds are timed")
    parser.add_argument(
        "--timed-seeds", type=int, default=1, metavar="N", help="how many seeds of a row are timed"
    )
    parser.add_argument(
        "--teacher", default="teacher", metavar="ROW", help="the row that speeds are relative to"
    )
    parser.add_argument(
        "--data", type=Path, metavar="BIN", help="default: data/bin in RUNS or beside it"
    )
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="default: lower/test.LANG beside BIN, or else raw/test.LANG",
    )
    for option in ("--remove-bpe", "--tokenizer"):
        parser.add_argument(option, metavar="NAME", help="as for pet-fairseq compress")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="default: RUNS/frontier.beamN for beam N"
    )
    args = parser.parse_args()
    for number in (args.beam, args.rounds, args.timed_seeds, *args.threads):
        if number < 1:
            parser.error(f"{number}: give 1 or more")
    args.out = args.out or args.runs / f"frontier.beam{args.beam}"
    own = args.runs / "data" / "bin"
    args.data = args.data or (own if own.is_dir() else args.runs.parent / "data" / "bin")
    return args


def main() -> None:
    logging.basicConfig()  # before fairseq-generate lets everything be logged into its output
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")  # hydra's
    args = parse()
    pet_fairseq.register()
    finished = finished_runs(args.runs)
    names = choose_rows(args.rows, finished)
    if not finished.get(args.teacher):
        raise UserError(f"--teacher {args.teacher}: no finished run of it in {args.runs}")
    check_folder(args.out / "cells", "--out")
    choices = Choices(
        args.data,
        args.reference,
        args.remove_bpe,
        args.tokenizer,
        args.beam,
        args.threads,
        args.rounds,
    )
    rows = []
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(choices, finished[args.teacher][0] / BEST, Path(work))
        for name in names:
            folders = finished.get(name, [])
            cells = [
                measure(bench, run, number < args.timed_seeds, args.out / f"cells/{run.name}.json")
                for number, run in enumerate(folders)
            ]
            if cells:
                title = BY_NAME[name].title if name in BY_NAME else name
                rows.append(Row(name, read_title(folders[0], title), cells))
    print(write(rows, [name for name in names if not finished.get(name)], args), end="")


if __name__ == "__main__":
    main()
