"""Size, BLEU and speed of teacher and student, from the stages of `pet-fairseq compress`."""

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import torch

from pet_fairseq.compress.layout import MODELS, Layout
from pet_fairseq.compress.translate import SPEEDS
from pet_fairseq.decoding.export import MODEL as FAIRSEQ_FILE
from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines, read_text
from pet_fairseq.results.bleu import cached_bleu
from pet_fairseq.results.fairseq_output import read_output
from pet_fairseq.results.report.checkpoint import Sizes, measure_sizes, training_seconds

CTRANSLATE2, FAIRSEQ = "CTranslate2 int8", "fairseq"
FILES = {CTRANSLATE2: ("ctranslate2", "model.bin"), FAIRSEQ: ("fairseq", FAIRSEQ_FILE)}


@dataclass(frozen=True)
class InEngine:
    """A model in one engine.

    Attributes:
        bytes: of its file for that engine.
        sentences_per_second: the median; None where it was not timed under equal conditions.
    """

    bytes: int
    bleu: float
    translations: list[str]
    sentences_per_second: Optional[float] = None


@dataclass(frozen=True)
class Measured:
    """A model: the sizes of its checkpoint, and its measurements by engine."""

    sizes: Sizes
    engines: dict[str, InEngine]


@dataclass(frozen=True)
class Timing:
    """How a model was timed: on which hardware, and how often."""

    where: str
    rounds: int


@dataclass(frozen=True)
class Measurements:
    """Both models on one test set.

    Attributes:
        engine: the one in which both are compared.
        where: the hardware on which they were timed, such as "2 CPU cores".
        signature: sacreBLEU's.
        unknown_words: words of the reference that its dictionary lacks, so that they are lost.
        training_minutes: of the student, its warm-up included; None if no checkpoint has the time.
        teacher_is_exported: whether the folder has the teacher, too; not all can be exported.
        student_alone: how the student was timed in CTranslate2, where its teacher could not be.
    """

    teacher: Measured
    student: Measured
    engine: str
    where: str
    beam: int
    rounds: int
    sources: list[str]
    references: list[str]
    signature: str
    unknown_words: int
    training_minutes: Optional[float]
    teacher_is_exported: bool = True
    student_alone: Optional[Timing] = None

    @property
    def both(self) -> dict[str, Measured]:
        return dict(zip(MODELS, (self.teacher, self.student)))


def measure(
    out: Path, teacher: Path, reference: Optional[Path], engine: str, beam: int, device: str
) -> Measurements:
    """Measure both models, from the files of the folder `out`.

    Args:
        reference: raw target text, None for the target side of the data.
        engine: CTRANSLATE2 or FAIRSEQ.
        device: the one that fairseq-generate ran on, cpu or cuda.
    Raises:
        UserError: a checkpoint that cannot be read, or translations that do not fit the reference.
    """
    layout = Layout(out)
    references = read_lines(reference or layout.test / "reference.txt", "--reference")
    bleu = cached_bleu(references)
    about = json.loads(read_text(layout.test / "about.json", "test set"))
    speeds: dict = {"seconds": {}}
    if engine == CTRANSLATE2 or (layout.speed / SPEEDS).is_file():
        speeds = json.loads(read_text(layout.speed / SPEEDS, "speeds"))

    def measure_model(model: str, checkpoint: Path) -> Measured:
        sizes, _ = measure_sizes(checkpoint)
        engines = {FAIRSEQ: _in_fairseq(layout, model, sizes, bleu, references, engine)}
        if model in speeds["seconds"]:
            engines[CTRANSLATE2] = _in_ctranslate2(layout, model, speeds, bleu, references)
        return Measured(sizes, engines)

    seconds = [
        training_seconds(path.with_name("checkpoint_last.pt"))
        for path in (layout.warmup, layout.student)
    ]
    known = [value for value in seconds if value is not None]
    in_ctranslate2 = None
    if "student" in speeds["seconds"]:
        in_ctranslate2 = Timing(_cores(speeds["threads"]), len(speeds["seconds"]["student"]))
    if engine == FAIRSEQ:
        timing = Timing(_name_device(device), len(_outputs(layout, "teacher")))
    else:
        assert in_ctranslate2 is not None, "both models were timed there"
        timing = in_ctranslate2
    return Measurements(
        measure_model("teacher", teacher),
        measure_model("student", layout.student),
        engine,
        where=timing.where,
        beam=beam,
        rounds=timing.rounds,
        sources=read_lines(layout.test / "source.txt", "test set"),
        references=references,
        signature=str(bleu.get_signature()),
        unknown_words=0 if reference else about["unknown_reference_words"],
        training_minutes=sum(known) / 60 if known else None,
        teacher_is_exported=any(_file(layout, "teacher", kind).is_file() for kind in FILES),
        student_alone=in_ctranslate2 if engine == FAIRSEQ else None,
    )


def _cores(number: int) -> str:
    return f"{number} CPU core{'s' if number > 1 else ''}"


def _name_device(device: str) -> str:
    return "a GPU" if device == "cuda" else _cores(torch.get_num_threads())


def _outputs(layout: Layout, model: str) -> list[Path]:
    """The files with what fairseq-generate printed for a model, the first run first."""
    repeat, paths = 1, []
    while (path := layout.generated(model, repeat)).is_file():
        paths.append(path)
        repeat += 1
    return paths


def _in_fairseq(
    layout: Layout, model: str, sizes: Sizes, bleu, references: list[str], engine: str
) -> InEngine:
    outputs = [read_output(path) for path in _outputs(layout, model)]
    hypotheses = _checked(outputs[0].hypotheses, references, layout.generated(model, 1))
    speed = statistics.median(output.sentences_per_second for output in outputs)
    file = _file(layout, model, FAIRSEQ)
    size = file.stat().st_size if file.is_file() else sizes.checkpoint_bytes
    assert size is not None, "a checkpoint was measured, whose bytes are known"
    return InEngine(
        size,
        bleu.corpus_score(hypotheses, None).score,
        hypotheses,
        speed if engine == FAIRSEQ else None,
    )


def _in_ctranslate2(
    layout: Layout, model: str, speeds: dict, bleu, references: list[str]
) -> InEngine:
    path = layout.speed / f"{model}.txt"
    hypotheses = _checked(read_lines(path, "translations"), references, path)
    return InEngine(
        _file(layout, model, CTRANSLATE2).stat().st_size,
        bleu.corpus_score(hypotheses, None).score,
        hypotheses,
        speeds["sentences_per_second"][model],
    )


def _file(layout: Layout, model: str, engine: str) -> Path:
    folder, name = FILES[engine]
    return layout.exported(model, folder) / name


def _checked(hypotheses: list[str], references: list[str], path: Path) -> list[str]:
    if len(hypotheses) != len(references):
        raise UserError(
            f"{path}: {len(hypotheses)} translations for {len(references)} references; give "
            "--reference the text of this test set"
        )
    return hypotheses
