"""The report of `pet-fairseq compress`: its first line, tables, samples and the plot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import matplotlib
from matplotlib.figure import Figure

from pet_fairseq.compress.engine import measure_engine
from pet_fairseq.compress.forms import Row, forms_section, read_rows
from pet_fairseq.compress.layout import PRECISION, TRIMMED, Layout
from pet_fairseq.compress.measure import (
    CTRANSLATE2,
    FAIRSEQ,
    FORMS,
    ROUGE,
    InEngine,
    Measurements,
    measure,
)
from pet_fairseq.files import write_figure, write_json, write_lines, write_text
from pet_fairseq.markdown import table
from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.results.report.plots import use_log_sizes
from pet_fairseq.results.report.tables import spread

matplotlib.use("Agg")

MEGABYTE = 1e6
SAMPLES = 10
MARKERS = {CTRANSLATE2: "o", FAIRSEQ: "s"}
AGREEMENT = (
    "the teacher's own translations of held-out text: BLEU says how well the student agrees with "
    "it, and nothing about the quality of either; give --test-pair for that"
)


def write_report(
    out: Path,
    teacher: Path,
    reference: Optional[Path],
    no_ctranslate2: Optional[str] = None,
    device: str = "cpu",
    agreement: bool = False,
    source: Optional[Path] = None,
    comet: Optional[str] = None,
    with_forms: bool = False,
    rouge: bool = False,
    made: Optional[Sequence[str]] = None,
) -> str:
    """Write report.md, report.json, report.png and the translations; returns the first line.

    Args:
        out: the folder that `pet-fairseq compress` made.
        reference, source: raw text of the test set, None for that of the data.
        no_ctranslate2: why both were measured in fairseq; None if they were in CTranslate2.
        device: the one that fairseq-generate ran on, cpu or cuda.
        agreement: whether the references are the teacher's own translations.
        comet: a model of COMET's that scores, too.
        with_forms: whether the student is there in forms that were asked for.
        rouge: whether ROUGE scores, too.
        made: as for `measure`.
    Raises:
        UserError: a file that cannot be read, or that does not fit the others.
    """
    engine = CTRANSLATE2 if no_ctranslate2 is None else FAIRSEQ
    layout = Layout(out)
    measured = measure(layout, teacher, reference, engine, device, source, comet, rouge, made)
    reference_name = str(reference) if reference else "the target side of the data, detokenised"
    if agreement:
        reference_name = AGREEMENT
    rows = read_rows(layout.forms) if with_forms else []
    text = to_markdown(measured, teacher, reference_name, no_ctranslate2, rows)
    write_translations(measured, layout.translations)
    write_plot(measured, layout.report_plot)
    write_json(layout.report_json, to_json(measured) | forms_json(rows))
    write_text(layout.report, text)
    return text.splitlines()[0]


def first_line(measured: Measurements) -> str:
    """Size, BLEU and speed of teacher and student, in the same engine."""
    before, after = (model.engines[measured.engine] for model in measured.both.values())
    speeds: Any = (before.sentences_per_second, after.sentences_per_second)  # timed in this engine
    return (
        f"{megabytes(before)} MB -> {megabytes(after)} MB "
        f"({format_ratio(before.bytes / after.bytes)} times smaller), "
        f"BLEU {before.scores.bleu:.1f} -> {after.scores.bleu:.1f} "
        f"({round(after.scores.bleu, 1) - round(before.scores.bleu, 1):+.1f}), "
        f"{format_speed(speeds[0])} -> {format_speed(speeds[1])} sentences/s "
        f"({format_ratio(speeds[1] / speeds[0])} times) "
        f"in {measured.engine} on {measured.timing.where}."
    )


def megabytes(model: InEngine) -> str:
    """The size of a model in megabytes: one decimal, below 1 MB two."""
    size = model.bytes / MEGABYTE
    return f"{size:.1f}" if size >= 1 else f"{size:.2f}"


def to_markdown(
    measured: Measurements,
    teacher: Path,
    reference: str,
    no_ctranslate2: Optional[str],
    forms: Sequence[Row] = (),
) -> str:
    """The report as Markdown."""
    parts = [first_line(measured), difference_line(measured), checkpoint_line(measured)]
    if no_ctranslate2 is not None:
        parts.append(f"Measured in fairseq: {no_ctranslate2}.")
    parts += [
        "![size and BLEU](report.png)",
        table(["", "teacher", "student"], main_rows(measured)),
        "\n".join(f"* {note}" for note in notes(measured, teacher, reference)),
        *(forms_section(forms) if forms else []),
        "## Samples",
        table(["source", "reference", "teacher", "student"], sample_rows(measured), text=range(4)),
        "## Files",
        list_files(measured, forms),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def difference_line(measured: Measurements) -> str:
    """What the student's translations gain or lose, and whether that may be chance."""
    cells = [f"{name} {each.text()}" for name, each in measured.differences.items()]
    return (
        f"Student minus teacher: {', '.join(cells)}. In brackets: 95% intervals of a paired "
        "bootstrap over the test sentences; a difference whose interval holds 0 may be chance."
    )


def checkpoint_line(measured: Measurements) -> str:
    sizes: list[Any] = [model.sizes for model in measured.both.values()]
    rate = 100 * sizes[1].layer_parameters / sizes[0].layer_parameters
    known = [size.checkpoint_bytes for size in sizes if size.checkpoint_bytes is not None]
    megabytes = " and ".join(f"{size / MEGABYTE:.1f}" for size in known)
    have = "the checkpoints have" if len(known) == len(sizes) else "the student's checkpoint has"
    return (
        f"The student has {rate:.1f}% of the teacher's layer parameters. In float32, as fairseq "
        f"trains them, {have} {megabytes} MB."
    )


def main_rows(measured: Measurements) -> list[list[str]]:
    models = measured.both.values()

    def row(title: str, form: str, values) -> list[str]:
        return [title, *("-" if value is None else format(value, form) for value in values)]

    rows = [
        row("layer parameters", ",d", (m.sizes.layer_parameters for m in models)),
        row("all parameters", ",d", (m.sizes.parameters for m in models)),
    ]
    for engine in measured.student.engines:
        inside = [m.engines.get(engine) for m in models]
        rows.append(row(f"MB in {engine}", ".2f", (m and m.bytes / MEGABYTE for m in inside)))
        rows.append(row(f"BLEU in {engine}", ".2f", (m and m.scores.bleu for m in inside)))
        rows.append(row(f"chrF in {engine}", ".2f", (m and m.scores.chrf for m in inside)))
        speeds = [None if m is None else m.sentences_per_second for m in inside]
        if any(speeds):
            cells = ["-" if speed is None else format_speed(speed) for speed in speeds]
            rows.append([f"sentences/s in {engine}", *cells])
    if measured.comet:
        title = f"COMET x 100 in {measured.engine}"
        rows.append(row(title, ".2f", map(measured.comet.get, measured.both)))
    for kind, scores in measured.rouge.items():
        title = f"{ROUGE[kind]} in {measured.engine}"
        rows.append(row(title, ".2f", map(scores.get, measured.both)))
    return rows


def notes(measured: Measurements, teacher: Path, reference: str) -> list[str]:
    """Notes on how the figures were measured."""
    lines = [
        f"{len(measured.references):,} test sentences, beam {measured.beam}; sacreBLEU "
        f"{measured.signature}; chrF {measured.chrf_signature}",
        f"reference: {reference}",
    ]
    if measured.comet_model is not None:
        lines.append(f"COMET by {measured.comet_model}, times 100")
    if measured.rouge:
        lines.append("ROUGE: F-measures of rouge-score in percent, as pet-fairseq score rouge")
    if measured.unknown_words:
        lines.append(
            f"{measured.unknown_words:,} words of that reference are lost, because the dictionary "
            "does not know them; give --reference FILE, the raw text, for the true BLEU"
        )
    lines.append(
        f"speeds: the models in turn, median of {measured.timing.rounds} rounds over the whole "
        f"test set, in {measured.engine} on {measured.timing.where}"
    )
    if measured.engine == FAIRSEQ and CTRANSLATE2 in measured.timings:
        alone = measured.timings[CTRANSLATE2]
        lines.append(
            f"in {CTRANSLATE2} the student alone: median of {alone.rounds} rounds on "
            f"{alone.where}; not to be compared with a speed in fairseq"
        )
    if measured.training_minutes is not None:
        lines.append(f"training took {measured.training_minutes:.1f} minutes")
    if teacher.is_dir():
        precision = measure_engine(teacher).precision
        lines.append(
            f"the teacher is in CTranslate2 with weights in {precision}, as it was given, and "
            "taught by its translations alone"
        )
    if TRIMMED in (teacher.name, teacher.parent.name):
        lines.append(
            "the teacher is compared as it taught, with the pieces that --vocabulary left it; with "
            "a number of pieces it may be far below the whole one, whose translations pet-fairseq "
            "translate shows"
        )
    return [*lines, f"teacher: {teacher}"]


def sample_rows(measured: Measurements) -> list[list[str]]:
    """Some sentences from all over the test set, with reference and translations."""
    translations = [m.engines[measured.engine].translations for m in measured.both.values()]
    texts = (measured.sources, measured.references, *translations)
    return [[text[i] for text in texts] for i in spread(len(measured.sources), SAMPLES)]


def list_files(measured: Measurements, forms: Sequence[Row] = ()) -> str:
    """The models in the folder, a line each."""
    lines = ["`training/checkpoint_best.pt`: the student, for fairseq with `--user-dir`"]
    lines += [f"`{form}/`: {FORMS[form]}" for form in measured.student_forms]
    if CTRANSLATE2 in measured.student.engines:
        lines.append(f"`ctranslate2/`: the same in {PRECISION}, for `ctranslate2.Translator`")
    listed = ("ctranslate2", *measured.student_forms)
    others = [row.form for row in forms if row.form not in listed]
    lines += [f"`{form}/`: the same as pet-fairseq export --to {form} writes it" for form in others]
    if measured.teacher_is_exported:
        lines.append("`teacher/`: the teacher, exported as far as it can be, to compare with")
    lines.append("`translations/`: what was scored as text: source, reference, teacher, student")
    return "\n".join(f"* {line}" for line in lines)


def to_json(measured: Measurements) -> dict:
    """All figures and the first line, without the sentences."""
    models = {
        name: {
            **model.sizes._asdict(),
            "engines": {
                engine: {
                    "bytes": inside.bytes,
                    **inside.scores._asdict(),
                    "sentences_per_second": inside.sentences_per_second,
                }
                for engine, inside in model.engines.items()
            },
            **({"comet": measured.comet[name]} if measured.comet else {}),
            **{kind: scores[name] for kind, scores in measured.rouge.items()},
        }
        for name, model in measured.both.items()
    }
    return {
        "summary": first_line(measured),
        "engine": measured.engine,
        "where": measured.timing.where,
        "beam": measured.beam,
        "rounds": measured.timing.rounds,
        "sentences": len(measured.references),
        "signature": measured.signature,
        "chrf_signature": measured.chrf_signature,
        "unknown_reference_words": measured.unknown_words,
        "training_minutes": measured.training_minutes,
        **({"comet_model": measured.comet_model} if measured.comet else {}),
        "differences": {name: each._asdict() for name, each in measured.differences.items()},
        **models,
    }


def write_translations(measured: Measurements, folder: Path) -> None:
    """Write the texts that were scored, a sentence a line, for other tools."""
    translations = {
        model: each.engines[measured.engine].translations for model, each in measured.both.items()
    }
    texts = {"source": measured.sources, "reference": measured.references, **translations}
    folder.mkdir(exist_ok=True)
    for name, lines in texts.items():
        write_lines(folder / f"{name}.txt", lines)


def forms_json(rows: Sequence[Row]) -> dict:
    """What report.json has of the forms that were asked for."""
    return {"forms": {row.form: row._asdict() for row in rows}} if rows else {}


def write_plot(measured: Measurements, path: Path) -> None:
    """Plot BLEU over size: a line from the teacher to the student in each engine."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for i, engine in enumerate(measured.student.engines):
        inside = {n: m.engines[engine] for n, m in measured.both.items() if engine in m.engines}
        points = inside.values()
        sizes, scores = [p.bytes / MEGABYTE for p in points], [p.scores.bleu for p in points]
        axes.plot(sizes, scores, color=f"C{i}", marker=MARKERS[engine], label=engine)
        for name, size, score in zip(inside, sizes, scores):
            axes.annotate(name, (size, score), xytext=(6, 6), textcoords="offset points")
    use_log_sizes(axes)
    axes.margins(0.2)
    axes.set(xlabel="MB of the exported model", ylabel=f"BLEU (beam {measured.beam})")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    write_figure(path, figure)
