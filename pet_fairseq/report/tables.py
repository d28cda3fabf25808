"""The report on a folder of runs: Markdown, JSON and plots."""

import json
import os
from pathlib import Path
from typing import Dict, List, Optional

from sacrebleu.significance import PairedTest

from pet_fairseq.errors import UserError
from pet_fairseq.report.measure import Run, bleu_metric, measure_run
from pet_fairseq.report.plots import plot_bleu_over_rate, plot_speed


def write_report(
    runs: Path, reference: Path, teacher: str = "teacher", significance: bool = False
) -> str:
    """Write report.md, report.json and two plots into a folder of runs; returns the Markdown.

    Rows follow order.txt (a run's name a line) if the folder has one, else the teacher comes first.

    Raises:
        UserError: no runs, no teacher, no reference, or runs with different test sets.
    """
    if not reference.is_file():
        raise UserError(f"--reference {reference}: no such file; give the test set's target text")
    lines = reference.read_text(encoding="utf-8").rstrip("\n").split("\n")
    names = run_names(runs, teacher)
    present = [name for name in names if is_run(runs / name)]
    if teacher not in present:
        raise UserError(f"--teacher {teacher}: {runs} has no finished run of that name")
    measured = [measure_run(runs / name, lines) for name in present]
    check_same_test_set(measured)
    baseline = next(run for run in measured if run.name == teacher)
    tests = bootstrap(measured, baseline, lines) if significance else {}
    text = to_markdown(measured, baseline, len(lines), tests)
    text += "".join(f"* missing: run `{name}`\n" for name in names if name not in present)
    _write(runs / "report.json", json.dumps(to_json(measured, baseline, tests), indent=1))
    plot_bleu_over_rate(measured, baseline, runs / "bleu_over_rate.png")
    plot_speed(measured, runs / "sentences_per_second.png")
    _write(runs / "report.md", text)
    return text


def run_names(runs: Path, teacher: str) -> List[str]:
    """Names of the runs that a report should hold, in its order.

    Raises:
        UserError: no such folder, or no run in it.
    """
    if not runs.is_dir():
        raise UserError(f"{runs}: no such folder")
    found = sorted(path.name for path in runs.iterdir() if is_run(path))
    if not found:
        raise UserError(f"{runs}: holds no run (a folder with checkpoint_best.pt); train one first")
    order = runs / "order.txt"
    first = order.read_text().split() if order.is_file() else [teacher]
    return first + [name for name in found if name not in first]


def is_run(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    return (folder / "checkpoint_best.pt").exists() or any(folder.glob("generate.beam*.txt"))


def check_same_test_set(runs: List[Run]) -> None:
    """Raises UserError if two runs translated different test sets."""
    seen: Optional[Run] = None
    for run in runs:
        if run.targets is None:
            continue
        if seen is not None and run.targets != seen.targets:
            raise UserError(f"runs {seen.name} and {run.name} translated different test sets")
        seen = run


def rate(run: Run, teacher: Run) -> Optional[float]:
    """Compression rate in percent (PET, section 4.1.3)."""
    if run.layer_parameters is None or not teacher.layer_parameters:
        return None
    return 100 * run.layer_parameters / teacher.layer_parameters


def bootstrap(runs: List[Run], teacher: Run, reference: List[str]) -> Dict[str, float]:
    """p-values of paired bootstrap tests against the teacher, at the largest common beam."""
    beams = set.intersection(*(set(run.hypotheses) for run in runs if run.hypotheses))
    if not beams or not teacher.hypotheses:
        return {}
    beam = max(beams)
    systems = [(r.name, r.hypotheses[beam]) for r in [teacher, *runs] if r.hypotheses]
    systems = [systems[0]] + [s for s in systems[1:] if s[0] != teacher.name]
    if len(systems) < 2:
        return {}
    test = PairedTest(systems, {"BLEU": bleu_metric()}, [reference], test_type="bs", n_samples=1000)
    _, results = test()
    return {name: r.p_value for (name, _), r in zip(systems, results["BLEU"]) if r.p_value}


def to_markdown(runs: List[Run], teacher: Run, sentences: int, tests: Dict[str, float]) -> str:
    beams = sorted({beam for run in runs for beam in run.bleu})
    header = ["run", "layer parameters", "rate %", "all parameters", "checkpoint MB"]
    header += [f"BLEU beam {b}" for b in beams] + [f"to teacher, beam {b}" for b in beams[-1:]]
    header += [f"sentences/s beam {b}" for b in beams] + ["training min"]
    rows = [header, ["---"] + ["---:"] * (len(header) - 1)]
    rows += [_row(run, teacher, beams) for run in runs]
    text = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    metric = bleu_metric()
    if any(run.hypotheses for run in runs):
        metric.corpus_score(["a"], [["a"]])  # the signature knows the number of references then
    text += f"\n* {sentences:,} test sentences; sacreBLEU {metric.get_signature()}\n"
    repeats = max(run.repeats for run in runs)
    text += f"* sentences/s: median of {repeats} runs of fairseq-generate, (ratio to the teacher)\n"
    text += "* rate: layer parameters over the teacher's; checkpoint without optimizer state\n"
    for name, p in tests.items():
        text += f"* paired bootstrap, {name} against {teacher.name}: p = {p:.4f}\n"
    for run in runs:
        text += "".join(
            f"* missing: {run.name}/{what}, its row is incomplete\n" for what in run.missing
        )
    return text


def _row(run: Run, teacher: Run, beams: List[int]) -> List[str]:
    difference = None
    if beams and beams[-1] in run.bleu and beams[-1] in teacher.bleu:
        difference = run.bleu[beams[-1]] - teacher.bleu[beams[-1]]
    return [
        run.title,
        _number(run.layer_parameters, ",d"),
        _number(rate(run, teacher), ".2f"),
        _number(run.parameters, ",d"),
        _number(run.checkpoint_bytes, ".2f", 1e6),
        *(_number(run.bleu.get(b), ".2f") for b in beams),
        *([_number(difference, "+.2f")] if beams else []),
        *(_speed(run, teacher, b) for b in beams),
        _number(run.training_seconds, ".1f", 60),
    ]


def _number(value: Optional[float], form: str, unit: float = 1) -> str:
    if value is None:
        return "-"
    return format(value if unit == 1 else value / unit, form)


def _speed(run: Run, teacher: Run, beam: int) -> str:
    ours, theirs = (r.sentences_per_second.get(beam) for r in (run, teacher))
    if ours is None:
        return "-"
    return f"{ours:.0f}" + (f" ({ours / theirs:.2f}x)" if theirs else "")


def to_json(runs: List[Run], teacher: Run, tests: Dict[str, float]) -> List[dict]:
    hidden = ("hypotheses", "targets")
    rows = []
    for run in runs:
        row = {key: value for key, value in vars(run).items() if key not in hidden}
        row["rate_percent"] = rate(run, teacher)
        row["p_value_against_teacher"] = tests.get(run.name)
        rows.append(row)
    return rows


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
