"""The report on a folder of runs: reads them, compares them, writes Markdown, JSON and plots."""

from itertools import chain
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines, write_json, write_text
from pet_fairseq.results.report import plots
from pet_fairseq.results.report.compare import Comparison, p_values, tokenised_scores
from pet_fairseq.results.report.measure import measure_run
from pet_fairseq.results.report.scoring import SCORERS, Scorer
from pet_fairseq.results.report.seed_groups import (
    TEACHER,
    RunGroup,
    check_same_test_set,
    find_groups,
    make_group,
    name_missing_outputs,
    name_missing_seeds,
    read_title,
)
from pet_fairseq.results.report.tables import to_json, to_markdown
from pet_fairseq.runs import read_order


def write_report(
    runs: Path,
    reference: Path,
    teacher: str = TEACHER,
    baseline: Optional[str] = None,
    significance: bool = False,
    score: str = "bleu",
    tokenised: bool = False,
) -> str:
    """Write report.md, report.json and plots into a folder of runs, and return the Markdown.

    Groups of runs are in the order of order.txt (one name on each line) if the folder has one, else
    the teacher comes first.

    Args:
        reference: raw target text of the test set, or what else the score takes.
        teacher: the group with which sizes and speeds are compared.
        baseline: the group with whose score the others are compared, by default the teacher.
        significance: add paired bootstrap tests of BLEU against the baseline.
        score: a name in SCORERS.
        tokenised: add BLEU of the tokenised translations.
    Raises:
        UserError: no runs, no teacher, no baseline, no reference, or runs that cannot be compared.
    """
    _check_options(reference, significance, score, tokenised)
    lines = read_lines(reference, "--reference")
    scorer = SCORERS[score](lines, reference)
    folders = find_groups(runs, teacher)
    _check_name(teacher, "--teacher", folders, runs)
    _check_name(baseline or teacher, "--baseline", folders, runs)
    groups = measure_groups(folders, scorer)
    by_name = {group.name: group for group in groups}
    name_missing_seeds(groups)
    comparison = Comparison(groups, by_name[teacher], by_name[baseline or teacher], scorer)
    if tokenised:
        comparison.tokenised = tokenised_scores(comparison)
    if significance:
        comparison.p_values = p_values(comparison, lines)
    notes = [f"missing: run `{name}`, named in order.txt" for name in missing_names(runs, folders)]
    if teacher != TEACHER:
        notes.append(f"`{teacher}` stands for the teacher in sizes and speeds")
    if significance and not comparison.p_values:
        notes.append("paired bootstrap: not possible, no other row has a beam of the baseline")
    text = to_markdown(comparison, notes)
    write_json(runs / "report.json", to_json(comparison))
    plots.write_plots(comparison, runs)
    write_text(runs / "report.md", text)
    return text


def _check_options(reference: Path, significance: bool, score: str, tokenised: bool) -> None:
    if not reference.is_file():
        raise UserError(f"--reference {reference}: no such file; give the test set's target text")
    if significance and score != "bleu":
        raise UserError(f"--significance: tests BLEU only; leave it out with --score {score}")
    if tokenised and score != "bleu":
        raise UserError(f"--tokenised-bleu: not beside --score {score}; leave one of them out")


def missing_names(runs: Path, folders: dict[str, list[Path]]) -> list[str]:
    """The names in order.txt that are neither those of groups nor of runs, each once."""
    there = {*folders, *(folder.name for seeds in folders.values() for folder in seeds)}
    return [name for name in dict.fromkeys(read_order(runs)) if name not in there]


def measure_groups(folders: dict[str, list[Path]], scorer: Scorer) -> list[RunGroup]:
    """Measure every run, and aggregate the seeds of each group.

    Raises:
        UserError: as `measure_run`; different test sets, or seeds of different sizes.
    """
    runs = {name: [measure_run(f, scorer) for f in seeds] for name, seeds in folders.items()}
    everything = list(chain.from_iterable(runs.values()))
    check_same_test_set(everything)
    name_missing_outputs(everything)
    return [make_group(name, read_title(folders[name][0], name), runs[name]) for name in runs]


def _check_name(name: str, option: str, folders: dict[str, list[Path]], runs: Path) -> None:
    if name not in folders:
        raise UserError(
            f"{option} {name}: {runs} has no finished run of that name; give one of "
            f"{', '.join(folders)}"
        )
