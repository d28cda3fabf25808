"""Tables of scores: over the seeds of runs, and over several tasks (Variator, Table 1).

For tasks each folder is one task with one seed, as its recipe or `pet-fairseq plugins` left it:
plugins.json, and for each run result.json. Folders that are given under one name are seeds of one
task.
"""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import write_text
from pet_fairseq.markdown import table
from pet_fairseq.runs import SCORES, read_result, row_name, seed_of
from pet_fairseq.statistics import Sample, paired_bootstrap

FURTHER = ("f1", "matthews")  # shown beside the first score of a task

# --- over seeds -----------------------------------------------------------------------------------


def write_seeds_table(runs: Path, names: list[str]) -> str:
    """Write RUNS/table.md from all RUNS/NAME.seed<N>/result.json, and return the table.

    Raises:
        UserError: a name without a finished run, or a result.json without scores.
    """
    by_name = {name: read_seeds(runs, name) for name in names}
    columns = [score for score in SCORES if any(score in scores for scores in by_name.values())]
    rows = [
        [
            name,
            str(max(len(sample.values) for sample in scores.values())),
            *(scores[column].text() if column in scores else "-" for column in columns),
        ]
        for name, scores in by_name.items()
    ]
    text = table(["run", "seeds", *columns], rows)
    write_text(runs / "table.md", text)
    return text


def read_seeds(runs: Path, name: str) -> dict[str, Sample]:
    """A row's scores over its seeds, by the score's name.

    Raises:
        UserError: no finished run of that name, or a result.json without scores.
    """
    paths = [folder / "result.json" for folder in sorted(runs.glob("*.seed*"))]
    seeds = [path for path in paths if path.is_file() and _is_seed(path.parent.name, name)]
    if not seeds:
        raise UserError(f"{runs}: no scores of {name}; finish its runs or leave it out")
    results = [read_result(path).scores for path in seeds]
    return {
        score: Sample([result[score] for result in results if score in result])
        for score in SCORES
        if any(score in result for result in results)
    }


def _is_seed(run: str, row: str) -> bool:
    return seed_of(run) is not None and row_name(run) == row


# --- over tasks: what is read ---------------------------------------------------------------------


class TaskRun(NamedTuple):
    """A task with one seed: rows of plugins.json by name, and which sentences each got right."""

    folder: Path
    length: int
    rows: dict[str, dict]
    hits: dict[str, Sequence[int]]

    def score(self, name: str, measure: str) -> Optional[float]:
        """A score of a run; None without it."""
        return self.rows[name]["scores"].get(measure) if name in self.rows else None


Tasks = dict[str, list[TaskRun]]  # seeds by the task's name


def write_tasks_table(words: list[str], backbone: str, out: Optional[Path] = None) -> str:
    """Compare the runs of several tasks; returns Markdown, which is also written to `out`.

    Args:
        words: TASK=FOLDER, several for one task if it has several seeds.
        backbone: the run that the others started from.
    Raises:
        UserError: no such folder, no results in it, or tasks that have no such run.
    """
    tasks = read_tasks(words)
    every = [run for runs in tasks.values() for run in runs]
    for run in every:
        if backbone not in run.rows:
            raise UserError(f"{run.folder}: no run {backbone}; give --backbone NAME")
    names = list(dict.fromkeys(name for run in every for name in run.rows))
    parts = [scores_table(tasks, names, backbone), differences_table(tasks, names, backbone)]
    text = "\n".join(filter(None, parts))
    if out is not None:
        write_text(out, text)
    return text


def read_tasks(words: list[str]) -> Tasks:
    """The folders by task.

    Raises:
        UserError: a word of another form, or a folder without results.
    """
    tasks: Tasks = {}
    for word in words:
        name, _, folder = word.partition("=")
        if not (name and folder):
            raise UserError(f"{word}: give TASK=FOLDER, for example sst2=runs/glue/sst2/classes")
        tasks.setdefault(name, []).append(read_run(Path(folder)))
    return tasks


def read_run(folder: Path) -> TaskRun:
    """What is there of a task with one seed.

    Raises:
        UserError: there is no plugins.json, or none that can be used.
    """
    path = folder / "plugins.json"
    if not path.is_file():
        raise UserError(f"{path}: no such file; make it by pet-fairseq plugins {folder}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = {row["name"]: row for row in content["rows"]}
        numbers = [[row["trained"], *row["scores"].values()] for row in rows.values()]
        # a sum that fails is no number; Matthews' correlation may be below 0
        usable = all(len(some) > 1 and sum(map(abs, some)) >= 0 for some in numbers)
        length = int(content["length"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        usable = False
    if not usable:
        raise UserError(f"{path}: not as pet-fairseq plugins writes it; make it again")
    return TaskRun(folder, length, rows, {name: read_hits(folder / name) for name in rows})


def read_hits(run: Path) -> Sequence[int]:
    """Which sentences a run got right, 1 or 0; none if it has no result, or one without them.

    Raises:
        UserError: its result has no scores.
    """
    path = run / "result.json"
    return read_result(path).hits if path.is_file() else ()


# --- over tasks: what is shown --------------------------------------------------------------------


class Column(NamedTuple):
    """A score of a task, over its seeds."""

    title: str
    runs: list[TaskRun]
    measure: str
    averaged: bool  # the first of its task, which counts in the average

    def scores(self, name: str) -> list[float]:
        """Those of a model, of the seeds that have it."""
        return [score for run in self.runs if (score := run.score(name, self.measure)) is not None]


def score_columns(tasks: Tasks, backbone: str) -> list[Column]:
    """The first score of each task, and those of FURTHER that it has."""
    columns = []
    for task, runs in tasks.items():
        first, *others = runs[0].rows[backbone]["scores"]
        columns.append(Column(task, runs, first, averaged=True))
        further = [measure for measure in others if measure in FURTHER]
        columns += [Column(f"{task} {measure}", runs, measure, False) for measure in further]
    return columns


def scores_table(tasks: Tasks, names: list[str], backbone: str) -> str:
    """A row for each model: its scores on each task, their mean, what it trains and computes."""
    columns = score_columns(tasks, backbone)
    titles = (column.title for column in columns)
    header = ["model", *titles, "average", "trained parameters %", "FLOPs %"]
    rows = [
        [
            name,
            *(mean_cell(column.scores(name)) for column in columns),
            average_cell([column.scores(name) for column in columns if column.averaged]),
            *share_cells(tasks, name, backbone),
        ]
        for name in names
    ]
    lengths = ", ".join(f"{name} {runs[0].length}" for name, runs in tasks.items())
    return (
        f"{table(header, rows)}\nTrained parameters and FLOPs are those of the whole model over "
        f"the backbone's; FLOPs for one text, by its number of tokens: {lengths}.\n"
    )


def mean_cell(values: list[float]) -> str:
    """The mean over seeds; of several also their standard deviation, and how many they are."""
    if not values:
        return "-"
    return Sample(values).text() + (f" ({len(values)})" if len(values) > 1 else "")


def average_cell(by_task: list[list[float]]) -> str:
    """The mean over all tasks, if the model has each."""
    return f"{statistics.fmean(map(statistics.fmean, by_task)):.2f}" if all(by_task) else "-"


def share_cells(tasks: Tasks, name: str, backbone: str) -> list[str]:
    """Trained parameters and multiply-adds over the backbone's, in percent, means over tasks."""
    if name == backbone:
        return ["-", "-"]
    runs = [run for some in tasks.values() for run in some if name in run.rows]
    trained = [run.rows[name]["trained"] / run.rows[backbone]["trained"] for run in runs]
    given = (run.rows[name].get("whole_cost") for run in runs)
    costs = [cost for cost in given if cost is not None]
    cost = "-" if len(costs) < len(runs) else f"{100 * statistics.fmean(costs):.1f}"
    return [f"{100 * statistics.fmean(trained):.1f}", cost]


def differences_table(tasks: Tasks, names: list[str], backbone: str) -> str:
    """Differences to the backbone with their 95% intervals, if single sentences are known."""
    rows = [
        [name, *(difference_cell(runs, name, backbone) for runs in tasks.values())]
        for name in names
        if name != backbone
    ]
    if all(cell == "-" for _, *cells in rows for cell in cells):
        return ""
    return (
        f"Accuracy minus that of {backbone}, with the 95% interval of a paired bootstrap over "
        "sentences, each of which counts by its mean over seeds:\n\n"
        f"{table(['model', *tasks], rows)}"
    )


def difference_cell(runs: list[TaskRun], name: str, backbone: str) -> str:
    """The difference on a task over the seeds in which single sentences are known of both."""
    known = [run for run in runs if run.hits.get(name) and run.hits[backbone]]
    sides = [[run.hits[side] for run in known] for side in (name, backbone)]
    if len({len(hits) for side in sides for hits in side}) != 1:
        return "-"
    ours, theirs = ([statistics.fmean(some) for some in zip(*side)] for side in sides)
    result = paired_bootstrap(ours, theirs)
    low, high = 100 * result.low, 100 * result.high
    return f"{100 * result.mean:+.2f} [{low:+.2f}, {high:+.2f}], p {result.p:.3f}"
