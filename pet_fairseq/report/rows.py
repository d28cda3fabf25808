"""Rows of a report: runs of the same kind that differ in their seed only.

The folders NAME.seed1, NAME.seed2, ... make the row NAME, any other folder a row of its own.
"""

import re
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Tuple

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text
from pet_fairseq.report.checkpoint import UNKNOWN, Sizes
from pet_fairseq.report.measure import Run, is_run
from pet_fairseq.report.outputs import output_key

SEED = re.compile(r"(.+)\.seed(\d+)")


@dataclass
class Row:
    """One or more runs, the first seed first, and what they have in common."""

    name: str
    title: str
    runs: List[Run]
    sizes: Sizes = UNKNOWN  # of the first seed
    training_seconds: Optional[float] = None  # mean
    bleu: Dict[int, float] = field(default_factory=dict)  # by beam, mean
    bleu_spread: Dict[int, Optional[float]] = field(default_factory=dict)  # by beam
    sentences_per_second: Dict[int, float] = field(default_factory=dict)  # by beam, median
    missing: List[str] = field(default_factory=list)  # seeds; each run names its own files


def row_name(folder: str) -> str:
    """A run's name without its seed."""
    match = SEED.fullmatch(folder)
    return match[1] if match else folder


def find_rows(runs: Path) -> Dict[str, List[Path]]:
    """Folders of the finished runs by row, in the order of names and seeds.

    Raises:
        UserError: no such folder, no run in it, or a run both with and without a seed.
    """
    if not runs.is_dir():
        raise UserError(f"{runs}: no such folder")
    found = defaultdict(list)
    for folder in sorted(filter(is_run, runs.iterdir()), key=_seed_key):
        found[row_name(folder.name)].append(folder)
    if not found:
        raise UserError(f"{runs}: holds no run (a folder with checkpoint_best.pt); train one first")
    for name, folders in found.items():
        if folders[0].name == name and len(folders) > 1:
            raise UserError(
                f"{folders[0]}: has no seed in its name, but {folders[1].name} has; rename it to "
                f"{name}.seed<K> if it is the same kind of run, else to another name"
            )
    return dict(found)


def _seed_key(folder: Path) -> Tuple[str, int]:
    match = SEED.fullmatch(folder.name)
    return (match[1], int(match[2])) if match else (folder.name, -1)


def row_order(runs: Path, first: str) -> List[str]:
    """Names in order.txt, else only the row that comes first; a row or one of its runs a line."""
    order = runs / "order.txt"
    lines = read_text(order, "order").splitlines() if order.is_file() else [first]
    return [line.strip() for line in lines if line.strip()]


def make_row(name: str, title: str, runs: List[Run]) -> Row:
    """Aggregate runs.

    Raises:
        UserError: runs whose models are not of the same size.
    """
    check_same_sizes(runs)
    row = Row(name, title, runs)
    row.sizes = next((run.sizes for run in runs if run.sizes != UNKNOWN), UNKNOWN)
    seconds = [run.training_seconds for run in runs if run.training_seconds is not None]
    row.training_seconds = statistics.fmean(seconds) if seconds else None
    for beam in sorted({beam for run in runs for beam in run.bleu}):
        scores = [run.bleu[beam] for run in runs if beam in run.bleu]
        speeds = [speed for run in runs for speed in run.sentences_per_second.get(beam, [])]
        row.bleu[beam] = statistics.fmean(scores)
        row.bleu_spread[beam] = statistics.stdev(scores) if len(scores) > 1 else None
        row.sentences_per_second[beam] = statistics.median(speeds)
    return row


def check_same_sizes(runs: List[Run]) -> None:
    """Raises UserError if two runs of a row compute with different numbers of parameters."""
    known = [run for run in runs if run.sizes != UNKNOWN]
    for run in known[1:]:
        if run.sizes.common != known[0].sizes.common:
            raise UserError(
                f"runs {known[0].name} and {run.name} differ in size ({_say(known[0])} against "
                f"{_say(run)}), so they are not seeds of one model; rename one of them"
            )


def _say(run: Run) -> str:
    return f"{run.sizes.layer_parameters:,} layer parameters of {run.sizes.parameters:,}"


def check_same_test_set(runs: Iterable[Run]) -> None:
    """Raises UserError if two runs translated different test sets."""
    known = [run for run in runs if run.targets is not None]
    for run in known[1:]:
        if run.targets != known[0].targets:
            raise UserError(
                f"runs {known[0].name} and {run.name} translated different test sets; generate "
                "both with the same data"
            )


def name_missing_outputs(runs: List[Run]) -> None:
    """Note in `missing` each output (a beam, a repeat) that other runs have and a run lacks."""
    everything = sorted({name for run in runs for name in run.output_names}, key=output_key)
    for run in runs:
        if run.outputs:  # else it is noted that it has none
            present = set(run.output_names)
            run.missing += [name for name in everything if name not in present]


def name_missing_seeds(rows: List[Row], teacher: Row) -> None:
    """Note rows with fewer seeds than the row with most; one teacher is enough."""
    most = max(rows, key=lambda row: len(row.runs))
    for row in rows:
        enough = 1 if row is teacher and len(row.runs) == 1 else len(most.runs)
        if len(row.runs) < enough:
            row.missing.append(f"seeds: it has {len(row.runs)}, `{most.name}` has {enough}")
