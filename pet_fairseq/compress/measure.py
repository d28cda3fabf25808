"""Size, scores and speed of teacher and student, from what the stages of `compress` made."""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Optional, Union

import torch
from sacrebleu.metrics import BLEU, CHRF

from pet_fairseq.compress.engine import measure_engine
from pet_fairseq.compress.layout import MODELS, PRECISION, Layout
from pet_fairseq.errors import UserError
from pet_fairseq.export.fairseq import MODEL as FAIRSEQ_FILE
from pet_fairseq.files import read_lines
from pet_fairseq.predict.speed.detokenise import TextSet, read_set
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
LOW_BLEU = 3.0  # below it something may be wrong with what was given
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


Metric = Union[BLEU, CHRF]


class Scorer:
    """sacreBLEU's scores of translations of one test set.

    Attributes:
        metrics: by the names of their scores.
    """

    def __init__(self, references: list[str]):
        self.references = references
        self.metrics: dict[str, Metric] = {
            "BLEU": cached_bleu(references),
            "chrF": cached_chrf(references),
        }

    def scores(self, translations: list[str], path: Path) -> Scores:
        """Score the translations of a file.

        Raises:
            UserError: there are more or fewer than references.
        """
        check_number(translations, self.references, path)
        return Scores(*(m.corpus_score(translations, None).score for m in self.metrics.values()))

    def differences(self, ours: list[str], theirs: list[str]) -> dict[str, Difference]:
        """Our scores minus theirs, by name."""
        return {name: score_difference(m, ours, theirs) for name, m in self.metrics.items()}


def describe_teacher(translations: Path, test: Path, reference: Optional[Path] = None) -> str:
    """A line with the teacher's scores, which is shown before a student is trained from it.

    Args:
        translations: what fairseq-generate printed. test: the folder of the test set.
        reference: raw text, None for that of the data.
    Raises:
        UserError: a file that cannot be read, or that does not fit the others.
    """
    references = read_set(test, reference, None).references
    found = Scorer(references).scores(read_output(translations).hypotheses, translations)
    line = f"teacher: BLEU {found.bleu:.1f}, chrF {found.chrf:.1f} on {len(references)} sentences"
    if found.bleu < LOW_BLEU:
        line += (
            "; that is low: if it should be more, stop here, and check the order of source and "
            "target, the languages and the subword model"
        )
    return line


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
    scorer = Scorer(test.references)
    has_speeds = engine == CTRANSLATE2 or speeds_file(layout.speed).is_file()
    speeds = read_speeds(layout.speed) if has_speeds else None
    timings = timings_of(layout, engine, device, speeds)
    warmup = layout.warmup.parent.name
    made = (*FORMS, warmup) if made is None else made
    both = {
        model: measure_model(layout, model, checkpoint, engine, scorer, speeds, made)
        for model, checkpoint in zip(MODELS, (teacher, layout.student))
    }
    translations = {model: each.engines[engine].translations for model, each in both.items()}
    by_sentence = sentence_scores(test, translations, comet, rouge, device)
    means = {
        name: {model: statistics.fmean(each) for model, each in scores.items()}
        for name, scores in by_sentence.items()
    }
    return Measurements(
        both["teacher"],
        both["student"],
        engine,
        timings,
        BEAM,
        sources=test.sources,
        references=test.references,
        signature=str(scorer.metrics["BLEU"].get_signature()),
        unknown_words=test.unknown_words,
        training_minutes=training_minutes(layout, warmup in made),
        teacher_is_exported=any(exported(layout, "teacher", kind).is_file() for kind in FILES),
        chrf_signature=str(scorer.metrics["chrF"].get_signature()),
        differences={
            **scorer.differences(translations["student"], translations["teacher"]),
            **{
                name: paired_bootstrap(scores["student"], scores["teacher"])
                for name, scores in by_sentence.items()
            },
        },
        comet=means.get("COMET", {}),
        comet_model=comet,
        rouge={kind: means[name] for kind, name in ROUGE.items() if rouge},
        student_forms=tuple(
            form for form in FORMS if form in made and layout.exported("student", form).is_dir()
        ),
    )


def measure_model(
    layout: Layout,
    model: str,
    checkpoint: Path,
    engine: str,
    scorer: Scorer,
    speeds: Optional[Speeds],
    made: Sequence[str],
) -> Measured:
    """One of both models; the other arguments are those of `measure`, or what it read."""
    sizes = sizes_of(checkpoint)
    engines = {}
    if outputs(layout, model):
        file = exported(layout, model, FAIRSEQ)
        counts = file.is_file() and (model == "teacher" or "fairseq" in made)
        size = file.stat().st_size if counts else sizes.checkpoint_bytes
        engines[FAIRSEQ] = in_fairseq(layout, model, size, scorer, timed=engine == FAIRSEQ)
    if speeds is not None and model in speeds.seconds:
        engines[CTRANSLATE2] = in_ctranslate2(layout, model, speeds, scorer)
    return Measured(sizes, engines)


def timings_of(
    layout: Layout, engine: str, device: str, speeds: Optional[Speeds]
) -> dict[str, Timing]:
    """How models were timed, by engine."""
    timings = {}
    if engine == FAIRSEQ:
        timings[FAIRSEQ] = Timing(name_device(device), len(outputs(layout, "teacher")))
    if speeds is not None:
        timings[CTRANSLATE2] = Timing(cores(speeds.threads), len(speeds.seconds["student"]))
    return timings


def sentence_scores(
    test: TextSet,
    translations: Mapping[str, list[str]],
    comet: Optional[str],
    rouge: bool,
    device: str,
) -> dict[str, dict[str, list[float]]]:
    """Each sentence's COMET and ROUGE, as far as they are asked for, by name and by model."""
    found = {}
    if comet is not None:
        score = load_comet(comet, gpus=int(device == "cuda"))
        found["COMET"] = {
            model: score(test.sources, texts, test.references)
            for model, texts in translations.items()
        }
    return found | (rouge_of(test.references, translations) if rouge else {})


def rouge_of(
    references: Sequence[str], translations: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, list[float]]]:
    """Each sentence's ROUGE in percent, by its name in reports and by model."""
    scorer = load_scorer()
    found = {
        model: f_measures(scorer, zip(references, texts)) for model, texts in translations.items()
    }
    return {
        name: {model: each[kind] for model, each in found.items()} for kind, name in ROUGE.items()
    }


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
    layout: Layout, model: str, size: Optional[int], scorer: Scorer, timed: bool
) -> InEngine:
    """A model in fairseq; `timed`: whether its runs were timed under equal conditions."""
    paths = outputs(layout, model)
    runs = [read_output(path) for path in paths]
    translations = runs[0].hypotheses
    speed = statistics.median(run.sentences_per_second for run in runs)
    assert size is not None, "a checkpoint was measured, whose bytes are known"
    scores = scorer.scores(translations, paths[0])
    return InEngine(size, scores, translations, speed if timed else None)


def in_ctranslate2(layout: Layout, model: str, speeds: Speeds, scorer: Scorer) -> InEngine:
    path = layout.speed / f"{model}.txt"
    translations = read_lines(path, "translations")
    size = exported(layout, model, CTRANSLATE2).stat().st_size
    speed = speeds.sentences_per_second[model]
    return InEngine(size, scorer.scores(translations, path), translations, speed)


def exported(layout: Layout, model: str, engine: str) -> Path:
    """The file of a model for an engine."""
    folder, name = FILES[engine]
    return layout.exported(model, folder) / name
