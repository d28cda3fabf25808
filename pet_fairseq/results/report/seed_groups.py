"""Groups of runs that differ only in their seed: each is one row of the report's table."""

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text
from pet_fairseq.results.fairseq_output import output_key
from pet_fairseq.results.report.checkpoint import UNKNOWN, Sizes
from pet_fairseq.results.report.measure import Run, is_run
from pet_fairseq.runs import read_order, row_name, seed_of
from pet_fairseq.statistics import Sample

TEACHER = "teacher"  # the name of its run


@dataclass
class RunGroup:
    """One or more runs, in the order of their seeds, and what is said of them together."""

    name: str
    title: str
    runs: list[Run]
    sizes: Sizes = UNKNOWN  # of the first seed
    training_seconds: Optional[float] = None  # mean
    score: dict[int, Sample] = field(default_factory=dict)  # by beam, a value for each seed
    finer_score: dict[int, Sample] = field(default_factory=dict)  # the same
    sentences_per_second: dict[int, float] = field(default_factory=dict)  # by beam, median
    missing: list[str] = field(default_factory=list)  # seeds; each run names its own files


def find_groups(runs: Path, first: str) -> dict[str, list[Path]]:
    """The folders of the finished runs by group, each group's in the order of their seeds.

    Groups are in the order of order.txt, others after them by name; without that file the group
    `first` comes first.

    Raises:
        UserError: no such folder, no run in it, or a name both with and without a seed.
    """
    if not runs.is_dir():
        raise UserError(f"{runs}: no such folder")
    groups: dict[str, list[Path]] = defaultdict(list)
    for folder in sorted(filter(is_run, runs.iterdir()), key=_seed_key):
        groups[row_name(folder.name)].append(folder)
    if not groups:
        raise UserError(f"{runs}: holds no run (a folder with checkpoint_best.pt); train one first")
    for name, folders in groups.items():
        if folders[0].name == name and len(folders) > 1:
            raise UserError(
                f"{folders[0]}: has no seed in its name, but {folders[1].name} has; rename it to "
                f"{name}.seed<K> if it is the same kind of run, else to another name"
            )
    order = map(row_name, read_order(runs) or [first])
    return {name: groups[name] for name in dict.fromkeys([*order, *groups]) if name in groups}


def _seed_key(folder: Path) -> tuple[str, int]:
    seed = seed_of(folder.name)
    return row_name(folder.name), -1 if seed is None else seed


def read_title(folder: Path, name: str) -> str:
    """The text of a run's name.txt on one line, or the group's name."""
    file = folder / "name.txt"
    return (" ".join(read_text(file, "title").split()) if file.is_file() else "") or name


def make_group(name: str, title: str, runs: list[Run]) -> RunGroup:
    """Aggregate the runs of a group.

    Raises:
        UserError: runs whose models are not of the same size.
    """
    check_same_sizes(runs)
    group = RunGroup(name, title, runs)
    group.sizes = next((run.sizes for run in runs if run.sizes != UNKNOWN), UNKNOWN)
    seconds = [run.training_seconds for run in runs if run.training_seconds is not None]
    group.training_seconds = statistics.fmean(seconds) if seconds else None
    for beam in sorted({beam for run in runs for beam in run.score}):
        having = [run for run in runs if beam in run.score]
        group.score[beam] = Sample([run.score[beam] for run in having])
        group.finer_score[beam] = Sample([run.finer_score[beam] for run in having])
        speeds = [speed for run in having for speed in run.sentences_per_second[beam]]
        group.sentences_per_second[beam] = statistics.median(speeds)
    return group


def check_same_sizes(runs: list[Run]) -> None:
    """Raises UserError if two runs of a group compute with different numbers of parameters."""
    known = [run for run in runs if run.sizes != UNKNOWN]
    for run in known[1:]:
        if run.sizes.common != known[0].sizes.common:
            raise UserError(
                f"runs {known[0].name} and {run.name} differ in size ({_size_of(known[0])} against "
                f"{_size_of(run)}), so they are not seeds of one model; rename one of them"
            )


def _size_of(run: Run) -> str:
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


def name_missing_outputs(runs: list[Run]) -> None:
    """Note in each run's `missing` the outputs (a beam, a repeat) that only other runs have."""
    everything = sorted({name for run in runs for name in run.output_names}, key=output_key)
    for run in runs:
        if run.outputs:  # else `measure_run` has noted that it has none
            present = set(run.output_names)
            run.missing += [name for name in everything if name not in present]


def name_missing_seeds(groups: list[RunGroup]) -> None:
    """Note in `missing` if a group has fewer seeds than the largest group.

    The teacher needs only one, unlike a row that stands for it; so does an ensemble, which has
    several seeds in it.
    """
    most = max(groups, key=lambda group: len(group.runs))
    for group in groups:
        single = group.name == TEACHER or group.runs[0].members > 1
        enough = 1 if single and len(group.runs) == 1 else len(most.runs)
        if len(group.runs) < enough:
            group.missing.append(f"seeds: it has {len(group.runs)}, `{most.name}` has {enough}")
