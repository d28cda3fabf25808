"""The report as Markdown and as JSON."""

from typing import Optional

from pet_fairseq.markdown import table
from pet_fairseq.results.report.compare import SAMPLES, Comparison
from pet_fairseq.results.report.measure import Run
from pet_fairseq.results.report.plots import over_rate
from pet_fairseq.results.report.samples import sample_tables
from pet_fairseq.results.report.scoring import Scorer, Scoring
from pet_fairseq.results.report.seed_differences import Score, paired_difference, paired_scores
from pet_fairseq.results.report.seed_groups import RunGroup
from pet_fairseq.rounding import format_ratio, format_speed


def to_markdown(comparison: Comparison, scorer: Scorer, more_notes: list[str]) -> str:
    """The report: the main table and its plot, further tables if they say more, notes, samples."""
    scoring = comparison.scoring
    plot = f"![{scoring.name} over the compression rate]({over_rate(scoring)})"
    text = _main_table(comparison) + f"\n{plot}\n"
    if comparison.beams != comparison.main_beams:
        text += f"\n{scoring.name} by beam size:\n\n" + _beam_table(comparison)
    paired = _paired_table(comparison)
    if paired:
        text += (
            f"\nDifferences from {comparison.baseline.name} of the same seed, mean ± half of its "
            "95% confidence interval; smaller ones cannot be seen with so few seeds:\n\n"
            f"{paired}"
        )
    notes = _notes(comparison, scorer) + _tests(comparison)
    notes += [f"missing: {what}" for group in comparison.groups for what in _missing(group)]
    notes += more_notes
    text += "\n" + "".join(f"* {note}\n" for note in notes)
    samples = sample_tables(comparison, scorer.reference)
    return text + (f"\nTranslations, beam {comparison.beam}:\n\n{samples}" if samples else "")


def _main_table(comparison: Comparison) -> str:
    beams, beam = comparison.main_beams, comparison.beam
    header = ["run", "seeds", "layer parameters", "active", "rate %", "all parameters"]
    header += ["checkpoint MB", *(f"{comparison.scoring.name} beam {b}" for b in beams)]
    header += [f"to {comparison.baseline.name}, beam {beam}"] if beam is not None else []
    header += [f"tokenised BLEU, beam {beam}"] if comparison.tokenised else []
    header += [*(f"sentences/s beam {b}" for b in beams), "training min"]
    return table(header, [_main_cells(group, comparison) for group in comparison.groups])


def _main_cells(group: RunGroup, comparison: Comparison) -> list[str]:
    beams = comparison.main_beams
    difference = _number(comparison.difference(group), "+.2f")
    tokenised = comparison.tokenised.get(group.name)
    return [
        group.title,
        str(len(group.runs)),
        _number(group.sizes.layer_parameters, ",d"),
        _number(group.sizes.active_parameters, ",d"),
        _number(comparison.rate(group), ".2f"),
        _number(group.sizes.parameters, ",d"),
        _number(group.sizes.checkpoint_bytes, ".2f", 1e6),
        *(_score(group, beam) for beam in beams),
        *([difference] if comparison.beam is not None else []),
        *([_number(tokenised, ".2f")] if comparison.tokenised else []),
        *(_speed(group, beam, comparison) for beam in beams),
        _number(group.training_seconds, ".1f", 60),
    ]


def _beam_table(comparison: Comparison) -> str:
    beams = comparison.beams
    header = ["run", *(f"beam {beam}" for beam in beams)]
    lines = [[group.title, *(_score(group, beam) for beam in beams)] for group in comparison.groups]
    return table(header, lines)


def _paired_table(comparison: Comparison) -> str:
    """A row for each group with two or more seeds in common with the baseline; "" without any."""
    scores = paired_scores(comparison.scoring, comparison.beam)
    others = [group for group in comparison.groups if group is not comparison.baseline]
    lines = [_paired_cells(group, comparison.baseline, scores) for group in others]
    if not any(lines):
        return ""
    return table(["run", "seeds", *(score.name for score in scores)], list(filter(None, lines)))


def _paired_cells(group: RunGroup, baseline: RunGroup, scores: list[Score]) -> list[str]:
    """A row of the table; no cells without two seeds in common."""
    differences = [paired_difference(group, baseline, score) for score in scores]
    seeds = max((difference.seeds for difference in differences if difference), default=0)
    if not seeds:
        return []
    cells = [
        "-" if d is None else f"{d.mean:+.{score.digits}f} ± {d.half_width:.{score.digits}f}"
        for d, score in zip(differences, scores)
    ]
    return [group.title, str(seeds), *cells]


def _number(value: Optional[float], form: str, unit: float = 1) -> str:
    if value is None:
        return "-"
    return format(value if unit == 1 else value / unit, form)


def _score(group: RunGroup, beam: int) -> str:
    """A group's mean score and its spread, and the number of seeds if some lack this beam."""
    spread, seeds = group.score_spread.get(beam), sum(beam in run.score for run in group.runs)
    text = _number(group.score.get(beam), ".2f")
    text += f" ± {spread:.2f}" if spread is not None else ""
    return text + (f" ({seeds} of {len(group.runs)})" if 0 < seeds < len(group.runs) else "")


def _speed(group: RunGroup, beam: int, comparison: Comparison) -> str:
    speed, ratio = group.sentences_per_second.get(beam), comparison.speedup(group, beam)
    if speed is None:
        return "-"
    return format_speed(speed) + (f" ({format_ratio(ratio)}x)" if ratio is not None else "")


def _notes(comparison: Comparison, scorer: Scorer) -> list[str]:
    """Notes on how the columns were measured."""
    notes = [f"{len(scorer.reference):,} test sentences; {scorer.note}"]
    if comparison.tokenised:
        notes.append(
            "tokenised BLEU: of the H and T lines of fairseq-generate, in the data's own tokens "
            "and case, mean over seeds; comparable only with data prepared in the same way"
        )
    if _several_seeds(comparison):
        notes.append(
            f"rows with several seeds: {comparison.scoring.name} is their mean ± sample standard "
            "deviation, training time their mean; sizes and title are the first seed's; (1 of 2): "
            "one of two seeds has this beam"
        )
    for group in comparison.groups:
        sizes = {run.sizes.layer_parameters for run in group.runs}
        stored = sorted(size for size in sizes if size is not None)
        if len(stored) > 1:
            notes.append(
                f"{group.name}: {stored[0]:,} to {stored[-1]:,} layer parameters stored, by seed"
            )
    counts = [
        sum(len(run.sentences_per_second.get(beam, [])) for run in group.runs)
        for group in comparison.groups
        for beam in group.score
    ]
    if counts:
        low, high = min(counts), max(counts)
        number = str(low) if low == high else f"{low} to {high}"
        notes.append(
            f"sentences/s: median of {number} runs of fairseq-generate (ratio to the teacher's)"
        )
    notes.append(
        "layer parameters: stored; active: used by one forward pass, shared ones in every layer; "
        "rate: stored ones over the teacher's; checkpoint without optimizer state"
    )
    return notes


def _several_seeds(comparison: Comparison) -> bool:
    return any(len(group.runs) > 1 for group in comparison.groups)


def _tests(comparison: Comparison) -> list[str]:
    first = ", first seeds" if _several_seeds(comparison) else ""
    return [
        f"paired bootstrap, {name} against {comparison.baseline.name}{first}, beam "
        f"{comparison.beam}: p = {p:.4f} ({SAMPLES} samples)"
        for name, p in comparison.p_values.items()
    ]


def _missing(group: RunGroup) -> list[str]:
    """A line for each thing that a group lacks, and one for each run that lacks something."""
    lines = [f"{group.name}/{what}" for what in group.missing]
    for run in group.runs:
        if run.missing:
            files = ", ".join(f"{run.name}/{what}" for what in run.missing)
            lines.append(f"{files}; the row is incomplete")
    return lines


def to_json(comparison: Comparison) -> list[dict]:
    """The aggregated values of each group and, under "runs", those of each of its seeds."""
    return [_json_group(group, comparison) for group in comparison.groups]


def _json_group(group: RunGroup, comparison: Comparison) -> dict:
    scoring = comparison.scoring
    return {
        "name": group.name,
        "title": group.title,
        "seeds": len(group.runs),
        **group.sizes._asdict(),
        "rate_percent": comparison.rate(group),
        scoring.key: group.score,
        f"{scoring.key}_spread": group.score_spread,
        "baseline": comparison.baseline.name,
        "beam_compared": comparison.beam,
        f"{scoring.key}_difference": comparison.difference(group),
        "p_value": comparison.p_values.get(group.name),
        "tokenised_bleu": comparison.tokenised.get(group.name),
        "sentences_per_second": group.sentences_per_second,
        "speedup": {beam: comparison.speedup(group, beam) for beam in group.score},
        "training_seconds": group.training_seconds,
        "missing": group.missing,
        "runs": [_json_run(run, scoring) for run in group.runs],
    }


def _json_run(run: Run, scoring: Scoring) -> dict:
    return {
        "name": run.name,
        **run.sizes._asdict(),
        scoring.key: run.score,
        scoring.finer_key: run.finer_score,
        "validation_nll_bits": run.validation.nll,
        "validation_kl_bits": run.validation.kl,
        "sentences_per_second": run.sentences_per_second,
        "training_seconds": run.training_seconds,
        "missing": run.missing,
    }
