"""The report as Markdown, with a few sentences and their translations, and as JSON."""

from collections.abc import Callable
from typing import NamedTuple, Optional

from pet_fairseq.markdown import table
from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.results.bleu import BLEU_TEST_SAMPLES
from pet_fairseq.results.fairseq_output import read_output
from pet_fairseq.results.report.compare import (
    Comparison,
    PairedScore,
    paired_differences,
    paired_scores,
)
from pet_fairseq.results.report.measure import Run
from pet_fairseq.results.report.plots import over_rate
from pet_fairseq.results.report.scoring import Scorer
from pet_fairseq.results.report.seed_groups import RunGroup
from pet_fairseq.statistics import Sample

SENTENCES = 3  # of the test set whose translations are shown
MOST_ROWS = 6  # of the report whose translations are shown


def to_markdown(comparison: Comparison, more_notes: list[str]) -> str:
    """The report: the main table and its plot, further tables if they say more, notes, samples."""
    scorer, groups = comparison.scorer, comparison.groups
    plot = f"![{scorer.name} over the compression rate]({over_rate(scorer)})"
    text = _group_table(_main_columns(comparison), groups) + f"\n{plot}\n"
    if comparison.beams != comparison.main_beams:
        text += f"\n{scorer.name} by beam size:\n\n"
        text += _group_table(_beam_columns(comparison.beams), groups)
    paired = _paired_table(comparison)
    if paired:
        text += (
            f"\nDifferences from {comparison.baseline.name} of the same seed, mean ± half of its "
            "95% confidence interval; smaller ones cannot be seen with so few seeds:\n\n"
            f"{paired}"
        )
    notes = _notes(comparison) + _tests(comparison)
    notes += [f"missing: {what}" for group in groups for what in _missing(group)]
    notes += more_notes
    text += "\n" + "".join(f"* {note}\n" for note in notes)
    samples = sample_tables(comparison, scorer.reference)
    return text + (f"\nTranslations, beam {comparison.beam}:\n\n{samples}" if samples else "")


class Column(NamedTuple):
    """A column of a table of groups."""

    title: str
    cell: Callable[[RunGroup], str]


def _main_columns(comparison: Comparison) -> list[Column]:
    beam, beams, name = comparison.beam, comparison.main_beams, comparison.scorer.name
    columns = [
        Column("run", lambda group: group.title),
        Column("seeds", lambda group: str(len(group.runs))),
        Column("layer parameters", lambda group: _number(group.sizes.layer_parameters, ",d")),
        Column("active", lambda group: _number(group.sizes.active_parameters, ",d")),
        Column("rate %", lambda group: _number(comparison.rate(group), ".2f")),
        Column("all parameters", lambda group: _number(group.sizes.parameters, ",d")),
        Column("checkpoint MB", lambda group: _number(group.sizes.checkpoint_bytes, ".2f", 1e6)),
        *(_score_column(f"{name} beam {b}", b) for b in beams),
    ]
    if beam is not None:
        to, finer = f"to {comparison.baseline.name}", comparison.scorer.finer_name
        columns += [
            Column(f"{to}, beam {beam}", lambda g: _number(comparison.difference(g), "+.2f")),
            Column(f"{finer} beam {beam}", lambda g: _score(g, g.finer_score.get(beam))),
        ]
    if comparison.tokenised:
        scores = comparison.tokenised
        title = f"tokenised BLEU, beam {beam}"
        columns.append(Column(title, lambda group: _number(scores.get(group.name), ".2f")))
    columns += [_speed_column(comparison, b) for b in beams]
    minutes = Column("training min", lambda group: _number(group.training_seconds, ".1f", 60))
    return [*columns, minutes]


def _beam_columns(beams: list[int]) -> list[Column]:
    title = Column("run", lambda group: group.title)
    return [title, *(_score_column(f"beam {beam}", beam) for beam in beams)]


def _score_column(title: str, beam: int) -> Column:
    return Column(title, lambda group: _score(group, group.score.get(beam)))


def _speed_column(comparison: Comparison, beam: int) -> Column:
    """Sentences a second, and their ratio to the teacher's."""

    def cell(group: RunGroup) -> str:
        speed, ratio = group.sentences_per_second.get(beam), comparison.speedup(group, beam)
        if speed is None:
            return "-"
        return format_speed(speed) + (f" ({format_ratio(ratio)}x)" if ratio is not None else "")

    return Column(f"sentences/s beam {beam}", cell)


def _group_table(columns: list[Column], groups: list[RunGroup]) -> str:
    """A row for each group."""
    cells = [[column.cell(group) for column in columns] for group in groups]
    return table([column.title for column in columns], cells)


def _paired_table(comparison: Comparison) -> str:
    """A row for each group with two or more seeds in common with the baseline; "" without any."""
    scores = paired_scores(comparison.scorer, comparison.beam)
    others = [group for group in comparison.groups if group is not comparison.baseline]
    lines = [_paired_cells(group, comparison.baseline, scores) for group in others]
    if not any(lines):
        return ""
    return table(["run", "seeds", *(score.name for score in scores)], list(filter(None, lines)))


def _paired_cells(group: RunGroup, baseline: RunGroup, scores: list[PairedScore]) -> list[str]:
    """A row of the table; no cells without two seeds in common."""
    differences = [paired_differences(group, baseline, score) for score in scores]
    seeds = max((len(sample.values) for sample in differences if sample), default=0)
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


def _score(group: RunGroup, score: Optional[Sample]) -> str:
    """A group's score over its seeds, and their number if some have none."""
    if score is None:
        return "-"
    seeds = len(score.values)
    return score.text() + (f" ({seeds} of {len(group.runs)})" if seeds < len(group.runs) else "")


def _notes(comparison: Comparison) -> list[str]:
    """Notes on how the columns were measured."""
    scorer = comparison.scorer
    notes = [f"{len(scorer.reference):,} test sentences; {scorer.note}"]
    if comparison.tokenised:
        notes.append(
            "tokenised BLEU: of the H and T lines of fairseq-generate, in the data's own tokens "
            "and case, mean over seeds; comparable only with data prepared in the same way"
        )
    if _several_seeds(comparison):
        notes.append(
            f"rows with several seeds: {scorer.name} and {scorer.finer_name} are their mean ± "
            "sample standard deviation, training time their mean; sizes and title are the first "
            "seed's; (1 of 2): one of two seeds has this beam"
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
        f"{comparison.beam}: p = {p:.4f} ({BLEU_TEST_SAMPLES} samples)"
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


# --- translations ---------------------------------------------------------------------------------


def sample_tables(comparison: Comparison, reference: list[str]) -> str:
    """A table for each of a few sentences, with their translations by the first rows.

    It is "" without translations at the comparison's beam.
    """
    beam = comparison.beam
    groups = [g for g in comparison.groups if beam in g.runs[0].outputs][:MOST_ROWS]
    if beam is None or not groups:
        return ""
    outputs = [read_output(group.runs[0].outputs[beam][0]) for group in groups]
    texts = [("source", outputs[0].sources), ("reference", reference)]
    texts += [(group.title, output.hypotheses) for group, output in zip(groups, outputs)]
    texts = [(name, lines) for name, lines in texts if lines]  # no sources with --quiet
    return "\n".join(
        table([f"sentence {i + 1}", ""], [[name, lines[i]] for name, lines in texts], text=(0, 1))
        for i in spread(len(reference), SENTENCES)
    )


def spread(number: int, most: int) -> list[int]:
    """Indices of up to `most` of `number` lines, evenly spread."""
    indices = {(2 * i + 1) * number // (2 * most) for i in range(most)}
    return sorted(index for index in indices if index < number)


# --- JSON -----------------------------------------------------------------------------------------


def to_json(comparison: Comparison) -> list[dict]:
    """The aggregated values of each group and, under "runs", those of each of its seeds."""
    return [_json_group(group, comparison) for group in comparison.groups]


def _json_group(group: RunGroup, comparison: Comparison) -> dict:
    scorer = comparison.scorer
    return {
        "name": group.name,
        "title": group.title,
        "seeds": len(group.runs),
        **group.sizes._asdict(),
        "rate_percent": comparison.rate(group),
        scorer.key: {beam: score.mean for beam, score in group.score.items()},
        f"{scorer.key}_spread": {beam: score.deviation for beam, score in group.score.items()},
        scorer.finer_key: {beam: score.mean for beam, score in group.finer_score.items()},
        "baseline": comparison.baseline.name,
        "beam_compared": comparison.beam,
        f"{scorer.key}_difference": comparison.difference(group),
        "p_value": comparison.p_values.get(group.name),
        "tokenised_bleu": comparison.tokenised.get(group.name),
        "sentences_per_second": group.sentences_per_second,
        "speedup": {beam: comparison.speedup(group, beam) for beam in group.score},
        "training_seconds": group.training_seconds,
        "missing": group.missing,
        "runs": [_json_run(run, scorer) for run in group.runs],
    }


def _json_run(run: Run, scorer: Scorer) -> dict:
    return {
        "name": run.name,
        **run.sizes._asdict(),
        scorer.key: run.score,
        scorer.finer_key: run.finer_score,
        "validation_nll_bits": run.validation.nll,
        "validation_kl_bits": run.validation.kl,
        "sentences_per_second": run.sentences_per_second,
        "training_seconds": run.training_seconds,
        "missing": run.missing,
    }
