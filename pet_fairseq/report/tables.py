"""The report as Markdown and as JSON."""

from typing import List, Optional

from pet_fairseq.markdown import table
from pet_fairseq.report.compare import SAMPLES, Comparison
from pet_fairseq.report.measure import Run, cached_bleu
from pet_fairseq.report.plots import speed_form
from pet_fairseq.report.rows import Row


def to_markdown(comparison: Comparison, reference: List[str]) -> str:
    """The main table, BLEU by beam if there are more than the main beams, and notes."""
    text = _main_table(comparison)
    if comparison.beams != comparison.main_beams:
        text += "\nBLEU by beam size:\n\n" + _beam_table(comparison)
    notes = _notes(comparison, reference) + _tests(comparison)
    notes += [f"missing: {what}" for row in comparison.rows for what in _missing(row)]
    return text + "\n" + "".join(f"* {note}\n" for note in notes)


def _main_table(comparison: Comparison) -> str:
    beams, beam = comparison.main_beams, comparison.beam
    header = ["run", "seeds", "layer parameters", "active", "rate %", "all parameters"]
    header += ["checkpoint MB", *(f"BLEU beam {b}" for b in beams)]
    header += [f"to {comparison.baseline.name}, beam {beam}"] if beam is not None else []
    header += [*(f"sentences/s beam {b}" for b in beams), "training min"]
    return table(header, [_main_row(row, comparison) for row in comparison.rows])


def _main_row(row: Row, comparison: Comparison) -> List[str]:
    beams = comparison.main_beams
    difference = _number(comparison.difference(row), "+.2f")
    return [
        row.title,
        str(len(row.runs)),
        _number(row.sizes.layer_parameters, ",d"),
        _number(row.sizes.active_parameters, ",d"),
        _number(comparison.rate(row), ".2f"),
        _number(row.sizes.parameters, ",d"),
        _number(row.sizes.checkpoint_bytes, ".2f", 1e6),
        *(_bleu(row, beam) for beam in beams),
        *([difference] if comparison.beam is not None else []),
        *(_speed(row, beam, comparison) for beam in beams),
        _number(row.training_seconds, ".1f", 60),
    ]


def _beam_table(comparison: Comparison) -> str:
    beams = comparison.beams
    header = ["run", *(f"beam {beam}" for beam in beams)]
    rows = [[row.title, *(_bleu(row, beam) for beam in beams)] for row in comparison.rows]
    return table(header, rows)


def _number(value: Optional[float], form: str, unit: float = 1) -> str:
    if value is None:
        return "-"
    return format(value if unit == 1 else value / unit, form)


def _bleu(row: Row, beam: int) -> str:
    """A row's mean and spread, and of how many seeds if not of all."""
    spread, seeds = row.bleu_spread.get(beam), sum(beam in run.bleu for run in row.runs)
    text = _number(row.bleu.get(beam), ".2f") + (f" ± {spread:.2f}" if spread is not None else "")
    return text + (f" ({seeds} of {len(row.runs)})" if 0 < seeds < len(row.runs) else "")


def _speed(row: Row, beam: int, comparison: Comparison) -> str:
    speed, ratio = row.sentences_per_second.get(beam), comparison.speedup(row, beam)
    if speed is None:
        return "-"
    return format(speed, speed_form(speed)) + (f" ({ratio:.2f}x)" if ratio is not None else "")


def _notes(comparison: Comparison, reference: List[str]) -> List[str]:
    """How the columns were measured."""
    signature = cached_bleu(reference).get_signature()
    notes = [f"{len(reference):,} test sentences; sacreBLEU {signature}"]
    if _several_seeds(comparison):
        notes.append(
            "rows with several seeds: BLEU is their mean ± sample standard deviation, training "
            "time their mean; sizes and title are the first seed's; (1 of 2): of one seed"
        )
    for row in comparison.rows:
        stored = sorted({run.sizes.layer_parameters or 0 for run in row.runs})
        if len(stored) > 1:
            notes.append(
                f"{row.name}: {stored[0]:,} to {stored[-1]:,} layer parameters stored, by seed"
            )
    counts = [
        sum(len(run.sentences_per_second.get(beam, [])) for run in row.runs)
        for row in comparison.rows
        for beam in row.bleu
    ]
    if counts:
        low, high = min(counts), max(counts)
        number = str(low) if low == high else f"{low} to {high}"
        notes.append(
            f"sentences/s: median of {number} runs of fairseq-generate, (ratio to the teacher)"
        )
    notes.append(
        "layer parameters: stored; active: used by one forward pass, shared ones in every layer; "
        "rate: stored ones over the teacher's; checkpoint without optimizer state"
    )
    return notes


def _several_seeds(comparison: Comparison) -> bool:
    return any(len(row.runs) > 1 for row in comparison.rows)


def _tests(comparison: Comparison) -> List[str]:
    first = ", first seeds" if _several_seeds(comparison) else ""
    return [
        f"paired bootstrap, {name} against {comparison.baseline.name}{first}, beam "
        f"{comparison.beam}: p = {p:.4f} ({SAMPLES} samples)"
        for name, p in comparison.p_values.items()
    ]


def _missing(row: Row) -> List[str]:
    """What a row and its runs lack, a line each."""
    lines = [f"{row.name}/{what}" for what in row.missing]
    for run in row.runs:
        if run.missing:
            files = ", ".join(f"{run.name}/{what}" for what in run.missing)
            lines.append(f"{files}; the row is incomplete")
    return lines


def to_json(comparison: Comparison) -> List[dict]:
    """A list of rows; each holds what was aggregated and, under "runs", the values of each seed."""
    return [_json_row(row, comparison) for row in comparison.rows]


def _json_row(row: Row, comparison: Comparison) -> dict:
    return {
        "name": row.name,
        "title": row.title,
        "seeds": len(row.runs),
        **row.sizes._asdict(),
        "rate_percent": comparison.rate(row),
        "bleu": row.bleu,
        "bleu_spread": row.bleu_spread,
        "baseline": comparison.baseline.name,
        "beam_compared": comparison.beam,
        "bleu_difference": comparison.difference(row),
        "p_value": comparison.p_values.get(row.name),
        "sentences_per_second": row.sentences_per_second,
        "speedup": {beam: comparison.speedup(row, beam) for beam in row.bleu},
        "training_seconds": row.training_seconds,
        "missing": row.missing,
        "runs": [_json_run(run) for run in row.runs],
    }


def _json_run(run: Run) -> dict:
    return {
        "name": run.name,
        **run.sizes._asdict(),
        "bleu": run.bleu,
        "sentences_per_second": run.sentences_per_second,
        "training_seconds": run.training_seconds,
        "missing": run.missing,
    }
