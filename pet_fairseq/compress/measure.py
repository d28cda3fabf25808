"""Size, scores and speed of teacher and student, from what the stages of `compress` made."""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Optional

import torch

from pet_fairseq.compress.engine import measure_engine
from pet_fairseq.compress.layout import MODELS, PRECISION, Layout
from pet_fairseq.errors import UserError
from pet_fairseq.export.fairseq import MODEL as FAIRSEQ_FILE
from pet_fairseq.files import read_lines
from pet_fairseq.predict.speed.detokenise import read_set
from pet_fairseq.predict.speed.translate import BEAM, Speeds, read_speeds, speeds_file
from pet_fairseq.results.bleu import cached_bleu, cached_chrf, score_difference
from pet_fairseq.results.comet import load_comet
from pet_fairseq.results.fairseq_output import read_output
from pet_fairseq.results.report.checkpoint import Sizes, measure_sizes, training_seconds
from pet_fairseq.results.score.rouge import f_measures, load_scorer
from pet_fairseq.statistics import Difference, paired_bootstrap

CTRANSLATE2, FAIRSEQ = f"CTranslate2 {PRECISION}", "fairseq"
FORMS = {
    "fairseq": "the same for stock fairseq",
    "marian": f"the same in {PRECISION} for Marian and Bergamot",
}
ROUGE = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}  # in reports
FILES = {CTRANSLATE2: ("ctranslate2", "model.bin"), FAIRSEQ: ("fairseq", FAIRSEQ_FILE)}


class Scores(NamedTuple):
    """Of a model's translations, by sacreBLEU."""

    bleu: float
    chrf: float


@dataclass(frozen=True)
class InEngine:
    """A model in one engine.

    Attributes:
        bytes: of its file for that engine.
        sentences_per_second: the median; None where it was not timed under equal conditions.
    """

    bytes: int
    scores: Scores
    translations: list[str]
    sentences_per_second: Optional[float] = None


@dataclass(frozen=True)
class Measured:
    """A model: the sizes of its checkpoint, and its measurements by engine."""

    sizes: Sizes
    engines: dict[str, InEngine]


@dataclass(frozen=True)
class Timing:
    """How models were timed: on which hardware, such as "2 CPU cores", and how often."""

    where: str
    rounds: int


@dataclass(frozen=True)
class Measurements:
    """Both models on one test set.

    Attributes:
        engine: the one in which both are compared.
        timings: by engine; the student alone was timed in CTranslate2 if both were in fairseq.
        signature, chrf_signature: sacreBLEU's.
        unknown_words: words of the reference that its dictionary lacks, so that they are lost.
        training_minutes: of the student, its warm-up included; None if no checkpoint has the time.
        student_forms: those of FORMS that the folder has.
        teacher_is_exported: whether the folder has the teacher, too; not all can be exported.
        differences: student minus teacher in that engine, by the name of the score.
        comet: COMET's scores there, times 100, by model; empty if it is not asked for.
        comet_model: the one that gave them.
        rouge: ROUGE there in percent, by its kind and by model; empty if it is not asked for.
    """

    teacher: Measured
    student: Measured
    engine: str
    timings: dict[str, Timing]
    beam: int
    sources: list[str]
    references: list[str]
    signature: str
    unknown_words: int
    training_minutes: Optional[float]
    teacher_is_exported: bool = True
    chrf_signature: str = ""
    differences: dict[str, Difference] = field(default_factory=dict)
    comet: dict[str, float] = field(default_factory=dict)
    comet_model: Optional[str] = None
    rouge: dict[str, dict[str, float]] = field(default_factory=dict)
    student_forms: tuple[str, ...] = ("fairseq",)

    @property
    def both(self) -> dict[str, Measured]:
        return dict(zip(MODELS, (self.teacher, self.student)))

    @property
    def timing(self) -> Timing:
        """How both models were timed, in the engine in which they are compared."""
        return self.timings[self.engine]


Score = Callable[[list[str], Path], Scores]


def measure(
    layout: Layout,
    teacher: Path,
    reference: Optional[Path],
    engine: str,
    device: str,
    source: Optional[Path] = None,
    comet: Optional[str] = None,
    rouge: bool = False,
    made: Optional[Sequence[str]] = None,
) -> Measurements:
    """Measure both models, from the files of a folder.

    Args:
        reference, source: raw text, None for that of the data.
        engine: in which both are compared, CTRANSLATE2 or FAIRSEQ.
        device: the one that fairseq-generate ran on, and COMET runs on, cpu or cuda.
        comet: a model of COMET's that scores, too. rouge: whether ROUGE does.
        made: the student's folders that count, since the folder may have more of an earlier run:
            its forms, and that of its warm-up; None for all that are there.
    Raises:
        UserError: a file that cannot be read, or translations that do not fit the reference.
    """
    test = read_set(layout.test, reference, source)
    bleu, chrf = cached_bleu(test.references), cached_chrf(test.references)
    has_speeds = engine == CTRANSLATE2 or speeds_file(layout.speed).is_file()
    speeds = read_speeds(layout.speed) if has_speeds else None

    def is_made(name: str) -> bool:
        return made is None or name in made

    def score(translations: list[str], path: Path) -> Scores:
        check_number(translations, test.references, path)
        return Scores(*(m.corpus_score(translations, None).score for m in (bleu, chrf)))

    def measure_model(model: str, checkpoint: Path) -> Measured:
        sizes = sizes_of(checkpoint)
        engines = {}
        if outputs(layout, model):
            file = exported(layout, model, FAIRSEQ)
            counts = file.is_file() and (model == "teacher" or is_made("fairseq"))
            size = file.stat().st_size if counts else sizes.checkpoint_bytes
            engines[FAIRSEQ] = in_fairseq(layout, model, size, score, engine == FAIRSEQ)
        if speeds is not None and model in speeds.seconds:
            engines[CTRANSLATE2] = in_ctranslate2(layout, model, speeds, score)
        return Measured(sizes, engines)

    timings = {}
    if engine == FAIRSEQ:
        timings[FAIRSEQ] = Timing(name_device(device), len(outputs(layout, "teacher")))
    if speeds is not None:
        rounds = len(speeds.seconds["student"])
        timings[CTRANSLATE2] = Timing(cores(speeds.threads), rounds)
    both = measure_model("teacher", teacher), measure_model("student", layout.student)
    before, after = (model.engines[engine].translations for model in both)
    differences = {
        name: score_difference(metric, after, before)
        for name, metric in (("BLEU", bleu), ("chrF", chrf))
    }
    scored: dict[str, list[float]] = {}
    if comet is not None:
        by_comet = load_comet(comet, gpus=int(device == "cuda"))
        texts = zip(MODELS, (before, after))
        scored = {name: by_comet(test.sources, text, test.references) for name, text in texts}
        differences["COMET"] = paired_bootstrap(scored["student"], scored["teacher"])
    by_rouge = {} if not rouge else rouge_of(test.references, dict(zip(MODELS, (before, after))))
    for kind, values in by_rouge.items():
        differences[ROUGE[kind]] = paired_bootstrap(values["student"], values["teacher"])
    return Measurements(
        *both,
        engine,
        timings,
        BEAM,
        sources=test.sources,
        references=test.references,
        signature=str(bleu.get_signature()),
        unknown_words=test.unknown_words,
        training_minutes=training_minutes(layout, is_made(layout.warmup.parent.name)),
        teacher_is_exported=any(exported(layout, "teacher", kind).is_file() for kind in FILES),
        chrf_signature=str(chrf.get_signature()),
        differences=differences,
        comet={model: statistics.fmean(each) for model, each in scored.items()},
        comet_model=comet,
        rouge={
            kind: {model: statistics.fmean(each) for model, each in values.items()}
            for kind, values in by_rouge.items()
        },
        student_forms=tuple(
            form for form in FORMS if is_made(form) and layout.exported("student", form).is_dir()
        ),
    )


def rouge_of(
    references: Sequence[str], translations: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, list[float]]]:
    """Each sentence's ROUGE in percent, by its kind and by model."""
    scorer = load_scorer()
    found = {
        model: f_measures(scorer, zip(references, texts)) for model, texts in translations.items()
    }
    return {kind: {model: each[kind] for model, each in found.items()} for kind in ROUGE}


def sizes_of(path: Path) -> Sizes:
    """The sizes of a checkpoint, or of a folder in CTranslate2, which is none."""
    if not path.is_dir():
        return measure_sizes(path)[0]
    figures = measure_engine(path)
    return Sizes(figures.layer_parameters, figures.layer_parameters, figures.parameters)


def check_number(translations: list[str], references: list[str], path: Path) -> None:
    """Raise UserError if a file has not as many translations as there are references."""
    if len(translations) != len(references):
        raise UserError(
            f"{path}: {len(translations)} translations for {len(references)} references; give "
            "--reference the text of this test set"
        )


def training_minutes(layout: Layout, warmed_up: bool) -> Optional[float]:
    """The time of all trainings; None if no checkpoint tells."""
    bests = [*([layout.warmup] if warmed_up else []), layout.student]
    lasts = [path.with_name("checkpoint_last.pt") for path in bests]
    known = [seconds for path in lasts if (seconds := training_seconds(path)) is not None]
    return sum(known) / 60 if known else None


def cores(number: int) -> str:
    return f"{number} CPU core{'s' if number > 1 else ''}"


def name_device(device: str) -> str:
    return "a GPU" if device == "cuda" else cores(torch.get_num_threads())


def outputs(layout: Layout, model: str) -> list[Path]:
    """The files with what fairseq-generate printed for a model, the first run first."""
    numbered = (layout.generated(model, repeat) for repeat in itertools.count(1))
    return list(itertools.takewhile(Path.is_file, numbered))


def in_fairseq(
    layout: Layout, model: str, size: Optional[int], score: Score, timed: bool
) -> InEngine:
    """A model in fairseq; `timed`: whether its runs were timed under equal conditions."""
    paths = outputs(layout, model)
    runs = [read_output(path) for path in paths]
    translations = runs[0].hypotheses
    speed = statistics.median(run.sentences_per_second for run in runs)
    assert size is not None, "a checkpoint was measured, whose bytes are known"
    return InEngine(size, score(translations, paths[0]), translations, speed if timed else None)


def in_ctranslate2(layout: Layout, model: str, speeds: Speeds, score: Score) -> InEngine:
    path = layout.speed / f"{model}.txt"
    translations = read_lines(path, "translations")
    size = exported(layout, model, CTRANSLATE2).stat().st_size
    speed = speeds.sentences_per_second[model]
    return InEngine(size, score(translations, path), translations, speed)


def exported(layout: Layout, model: str, engine: str) -> Path:
    """The file of a model for an engine."""
    folder, name = FILES[engine]
    return layout.exported(model, folder) / name
