"""The report on a folder of runs: Markdown, JSON and plots."""

import json
import os
from pathlib import Path
from typing import Dict, List, Optional

from sacrebleu.significance import PairedTest

from pet_fairseq.errors import UserError
from pet_fairseq.report.measure import Run, bleu_metric, measure_run, read_text
from pet_fairseq.report.plots import plot_bleu_over_rate, plot_speed, speed_form

SAMPLES = 1000  # of the paired bootstrap


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
    # only the last line's end: an empty last sentence counts
    lines = read_text(reference, "--reference").removesuffix("\n").split("\n")
    names = run_names(runs, teacher)
    present = [name for name in names if is_run(runs / name)]
    if teacher not in present:
        raise UserError(
            f"--teacher {teacher}: {runs} has no finished run of that name; give one of "
            f"{', '.join(present)}"
        )
    measured = [measure_run(runs / name, lines) for name in present]
    check_same_test_set(measured)
    name_missing_outputs(measured)
    baseline = next(run for run in measured if run.name == teacher)
    tests = bootstrap(measured, baseline, lines) if significance else {}
    text = to_markdown(measured, baseline, len(lines), tests)
    if significance and not tests:
        text += "* paired bootstrap: not possible, no other run has the teacher's largest beam\n"
    absent = [name for name in names if name not in present]
    text += "".join(f"* missing: run `{name}`, named in order.txt\n" for name in absent)
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
    wanted = read_text(order, "order").splitlines() if order.is_file() else [teacher]
    named = [name.strip() for name in wanted if name.strip()]
    return list(dict.fromkeys(named + found))  # each once, in this order


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
            raise UserError(
                f"runs {seen.name} and {run.name} translated different test sets; generate both "
                "with the same data"
            )
        seen = run


def name_missing_outputs(runs: List[Run]) -> None:
    """Note in `missing` each output (a beam, a repeat) that other runs have and a run lacks."""
    everything = sorted({name for run in runs for name in run.outputs})
    for run in runs:
        if run.outputs:  # else it is noted that it has none
            run.missing += [name for name in everything if name not in run.outputs]


def rate(run: Run, teacher: Run) -> Optional[float]:
    """Compression rate in percent (PET, section 4.1.3)."""
    if run.layer_parameters is None or not teacher.layer_parameters:
        return None
    return 100 * run.layer_parameters / teacher.layer_parameters


def bootstrap(runs: List[Run], teacher: Run, reference: List[str]) -> Dict[str, float]:
    """p-values of paired bootstrap tests against the teacher, at the teacher's largest beam.

    Runs without that beam are left out.
    """
    beam = max(teacher.hypotheses, default=None)
    others = [r for r in runs if r is not teacher and beam in r.hypotheses]
    if not others:
        return {}
    systems = [(r.name, r.hypotheses[beam]) for r in [teacher, *others]]
    test = PairedTest(
        systems, {"BLEU": bleu_metric()}, [reference], test_type="bs", n_samples=SAMPLES
    )
    _, results = test()
    return {r.name: result.p_value for r, result in zip(others, results["BLEU"][1:])}


def to_markdown(runs: List[Run], teacher: Run, sentences: int, tests: Dict[str, float]) -> str:
    beams = sorted({beam for run in runs for beam in run.bleu})
    header = ["run", "layer parameters", "rate %", "all parameters", "checkpoint MB"]
    header += [f"BLEU beam {b}" for b in beams] + [f"to teacher, beam {b}" for b in beams[-1:]]
    header += [f"sentences/s beam {b}" for b in beams] + ["training min"]
    rows = [header, ["---"] + ["---:"] * (len(header) - 1)]
    rows += [_row(run, teacher, beams) for run in runs]
    text = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    metric = bleu_metric()
    metric.corpus_score(["a"], [["a"]])  # the signature knows the number of references then
    text += f"\n* {sentences:,} test sentences; sacreBLEU {metric.get_signature()}\n"
    repeats = max(run.repeats for run in runs)
    text += f"* sentences/s: median of {repeats} runs of fairseq-generate, (ratio to the teacher)\n"
    text += "* rate: layer parameters over the teacher's; checkpoint without optimizer state\n"
    for name, p in tests.items():
        beam = max(teacher.hypotheses)
        text += f"* paired bootstrap, {name} against {teacher.name}, beam {beam}: p = {p:.4f} "
        text += f"({SAMPLES} samples)\n"
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
        run.title.replace("|", "\\|"),
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
    return format(ours, speed_form(ours)) + (f" ({ours / theirs:.2f}x)" if theirs else "")


def to_json(runs: List[Run], teacher: Run, tests: Dict[str, float]) -> List[dict]:
    hidden = ("hypotheses", "targets", "outputs")
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
