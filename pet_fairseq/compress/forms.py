"""The student in the forms of `pet-fairseq compress --to`: what each weighs, gives and takes."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Optional

from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_training_parser, parse_args_and_arch
from omegaconf import OmegaConf

from pet_fairseq.checkpoints.saving import new_state, save_state
from pet_fairseq.checkpoints.text_files import SUBWORD_FILES, TARGET_MODEL, copy_files
from pet_fairseq.compress.layout import PRECISION
from pet_fairseq.devices import usable_cores
from pet_fairseq.errors import UserError
from pet_fairseq.export.export import ONLY_FOR, export
from pet_fairseq.files import atomic_folder, read_text, write_json, write_lines
from pet_fairseq.huggingface.writer import NO_OPTIMIZER
from pet_fairseq.markdown import table
from pet_fairseq.number_format import format_speed
from pet_fairseq.predict.commands import TRANSLATE
from pet_fairseq.predict.engine import Engine, FairseqEngine
from pet_fairseq.predict.long_lines import split_to_fit
from pet_fairseq.predict.speed.detokenise import read_set
from pet_fairseq.predict.speed.translate import BATCH, Translate, take_turns
from pet_fairseq.predict.translate import open_engine
from pet_fairseq.results.bleu import cached_bleu, cached_chrf
from pet_fairseq.runner.fairseq_options import Options

FILE = "forms.json"
MEGABYTE = 1e6
NOT_READ = {"marian": ("model.npz",)}  # by the engine that is timed: Marian's own file


class Row(NamedTuple):
    """The student in one form.

    Attributes:
        bytes: of all files that the engine reads.
        in_fairseq: whether fairseq computes it, because `translate` imports the form.
        sentences_per_second: the median over the rounds.
    """

    form: str
    precision: str
    bytes: int
    in_fairseq: bool
    bleu: float
    chrf: float
    sentences_per_second: float


def precision_of(form: str) -> Optional[str]:
    """The precision in which a form is written, None for one that has no choice."""
    return PRECISION if form in ONLY_FOR["precision"] else None


# --- before the training --------------------------------------------------------------------------


def check_forms(forms: Sequence[str], data: Path, texts: Path, options: Options) -> None:
    """Export a student that has learned nothing in each form, and open it; print what it lacks.

    Args:
        data: fairseq-preprocess's folder. options: of the task and of the student.
        texts: a folder in which the subword model may be, too.
    Raises:
        UserError: a form cannot hold the student, or its package is missing.
    """
    if not forms:
        return
    with TemporaryDirectory(prefix="pet-fairseq-") as name:
        checkpoint = Path(name, "student.pt")
        save_untrained(data, options, checkpoint)
        files = map(texts.joinpath, (*SUBWORD_FILES, TARGET_MODEL))
        found = {file.name: file for file in files if file.is_file()}
        copy_files(found, checkpoint.parent)  # export looks there
        for form in forms:
            try:
                out = Path(name, form)
                lacks = export(str(checkpoint), str(data), form, out, precision=precision_of(form))
                open_form(out, data, beam=1)
            except UserError as error:
                line = str(error).replace(f"CHECKPOINT {checkpoint}", "the student")
                line = line.removeprefix(f"--to {form}: ")
                raise UserError(f"--to {form}: {line}") from error
            if lacks is not None:
                print(f"--to {form}: {lacks}")


def save_untrained(data: Path, options: Options, path: Path) -> None:
    """Write a checkpoint of a student with random weights; options: as for `check_forms`."""
    words = [str(data), "--task", "translation", *map(str, options)]
    cfg = convert_namespace_to_omegaconf(parse_args_and_arch(get_training_parser(), words))
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    container = OmegaConf.to_container(cfg, enum_to_str=True)
    save_state(new_state(container, model.state_dict(), [NO_OPTIMIZER], {}), path)


# --- after the training ---------------------------------------------------------------------------


def compare_forms(
    forms: Mapping[str, Path],
    data: Path,
    test: Path,
    reference: Optional[Path],
    beam: int,
    rounds: int,
    out: Path,
    source: Optional[Path] = None,
) -> None:
    """Translate the test set with each form in turn; write the translations and forms.json.

    Args:
        forms: folders of `pet-fairseq export`, by form. data: fairseq-preprocess's folder.
        test: a folder of `write_set`. reference, source: raw text, None for that of the test set.
        rounds: how often each form is timed. out: a new folder.
    Raises:
        UserError: a form cannot be opened, or translations do not fit the reference.
    """
    texts = read_set(test, reference, source)
    engines = {form: open_form(folder, data, beam) for form, folder in forms.items()}
    pieces_of = {
        form: [segment(engine, text) for text in texts.sources] for form, engine in engines.items()
    }
    asked = [i for i, each in enumerate(zip(*pieces_of.values())) if all(each)]
    sources = {form: [pieces[i] for i in asked] for form, pieces in pieces_of.items()}
    translators = {form: translator(engine) for form, engine in engines.items()}
    found, seconds = take_turns(translators, sources, rounds)
    bleu, chrf = cached_bleu(texts.references), cached_chrf(texts.references)
    rows = []
    with atomic_folder(out) as folder:
        for form, engine in engines.items():
            lines = [""] * len(texts.sources)
            for i, pieces in zip(asked, found[form]):
                lines[i] = engine.detokenise(pieces)
            write_lines(folder / f"{form}.txt", lines)
            rows.append(
                Row(
                    form,
                    precision_of(form) or "fp32",
                    bytes=folder_bytes(forms[form], NOT_READ.get(form, ())),
                    in_fairseq=isinstance(engine, FairseqEngine),
                    bleu=bleu.corpus_score(lines, None).score,
                    chrf=chrf.corpus_score(lines, None).score,
                    sentences_per_second=len(asked) / statistics.median(seconds[form]),
                )
            )
        write_json(folder / FILE, [row._asdict() for row in rows])


def open_form(folder: Path, data: Path, beam: int) -> Engine:
    """The engine with which `pet-fairseq translate` opens a folder, on all cores."""
    words = [str(folder), "--device", "cpu", "--beam", str(beam), "--threads", str(usable_cores())]
    return open_engine(TRANSLATE.parse([*words, "--data", str(data)]), [])


def segment(engine: Engine, text: str) -> list[str]:
    """The pieces of a text, as many as the engine reads; none if there is nothing in it."""
    pieces = split_to_fit(engine, text, "cut")[0]
    return pieces[0] if pieces else []


def translator(engine: Engine) -> Translate:
    """A function that translates sentences in pieces into lines of pieces."""
    return lambda sentences: [best for best, *_ in engine.translate(sentences, BATCH)]


def folder_bytes(folder: Path, without: Sequence[str] = ()) -> int:
    """The size of all files in a folder, but for those of the names `without`."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name not in without)
    return sum(file.stat().st_size for file in files)


# --- in the report --------------------------------------------------------------------------------


def read_rows(folder: Path) -> list[Row]:
    """What `compare_forms` wrote.

    Raises:
        UserError: it cannot be read.
    """
    file = folder / FILE
    try:
        rows = json.loads(read_text(file, "forms"))
        return [Row(*(row[name] for name in Row._fields)) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{file}: cannot be read; remove {folder} and run again") from error


def forms_section(rows: Sequence[Row]) -> list[str]:
    """The paragraphs of the report on the forms that were asked for."""
    header = ["form", "weights", "MB of its folder", "BLEU", "chrF", "sentences/s"]
    cells = [
        [
            *(row.form, row.precision, f"{row.bytes / MEGABYTE:.2f}"),
            *(f"{row.bleu:.2f}", f"{row.chrf:.2f}", format_speed(row.sentences_per_second)),
        ]
        for row in rows
    ]
    notes = ["* in turn, each on all cores, from raw text, by pet-fairseq translate"]
    if any(row.form in NOT_READ for row in rows):
        notes.append(
            "* marian: in Bergamot, on one core; model.npz, which is Marian's, not counted"
        )
    if imported := [row.form for row in rows if row.in_fairseq]:
        notes.append(f"* {', '.join(imported)}: imported, and computed by fairseq")
    return [
        "## Forms",
        table(header, cells, text=range(2)),
        "\n".join(notes),
    ]
