"""From what the user asks for to what is done: everything is checked, and every choice is made."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Optional, Union

import numpy as np
from fairseq.data import LanguagePairDataset
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks.translation import TranslationTask

from pet_fairseq.checkpoints.loading import load_task
from pet_fairseq.checkpoints.subsets import load_subset
from pet_fairseq.checkpoints.text_files import around_data
from pet_fairseq.compress.forms import check_forms
from pet_fairseq.compress.layout import Layout
from pet_fairseq.compress.mixture import train_sets
from pet_fairseq.compress.student import (
    Size,
    Student,
    check_size_options,
    check_wanted,
    choose_student,
)
from pet_fairseq.compress.teacher import (
    Teacher,
    check_same_dictionaries,
    read_engine_teacher,
    read_teacher,
    sharing_options,
)
from pet_fairseq.compress.training import (
    CROSS_ENTROPY,
    DEFAULT_FORM,
    METHODS,
    STUDENT_FORMS,
    TASK_WARMUP,
    Batch,
    Budget,
    Corpus,
    Method,
    StudentForm,
    cache_megabytes,
    check_hours,
    choose_batch,
    default_updates,
    updates_per_epoch,
)
from pet_fairseq.distillation.outputs import has_output_layer
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.export.marian import check_segmentation
from pet_fairseq.files import read_lines
from pet_fairseq.predict.ctranslate2 import MISSING, has_ctranslate2
from pet_fairseq.predict.speed.detokenise import TextStyle, find_style
from pet_fairseq.predict.text import find_subword_file
from pet_fairseq.results.comet import check_comet
from pet_fairseq.results.score.rouge import load_scorer
from pet_fairseq.runner.device import Device


@dataclass(frozen=True)
class Request:
    """What the user asks for.

    Attributes:
        data: the folder with all sets. more_data: folders with more of the training set; each epoch
            of fairseq reads the next one of all.
        updates, hours: how long to train, at most one of them. lr: the peak learning rate; None:
            by the student's width.
        max_tokens: how many are in memory at a time; None for those of a batch.
        test: a subset of the data, or a folder like it with a subset `test`.
        reference, source: raw text of the test set.
        agreement: whether the references are the teacher's own translations.
        shortlist: as for the export to CTranslate2. forms: in which the student is wanted besides.
        forms_tried: whether an untrained one was exported in them already.
        comet: a model of COMET's that scores, too. rouge: whether ROUGE does.
        student_form: what kind of Transformer the student is.
        remove_bpe, tokenizer: how tokens become text; None: as the teacher and its data show.
    """

    teacher: Path
    data: Path
    out: Path
    method: str
    size: Size
    device: Device
    updates: Optional[int] = None
    hours: Optional[float] = None
    lr: Optional[float] = None
    max_tokens: Optional[int] = None
    seed: int = 1
    test: str = "test"
    reference: Optional[Path] = None
    agreement: bool = False
    shortlist: Optional[int] = None
    remove_bpe: Optional[str] = None
    tokenizer: Optional[str] = None
    more_data: tuple[Path, ...] = ()
    source: Optional[Path] = None
    comet: Optional[str] = None
    rouge: bool = False
    student_form: str = DEFAULT_FORM
    forms: tuple[str, ...] = ()
    forms_tried: bool = False

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders with training sets."""
        return (self.data, *self.more_data)


@dataclass(frozen=True)
class Subset:
    """One set of a data folder."""

    data: Path
    name: str


@dataclass(frozen=True)
class Plan:
    """A request that is known to be valid, and what was chosen for it.

    Attributes:
        parts: how many parts of the training set a folder has, at most.
        cache: MiB for the teacher's features; None for a teacher whose features cannot be kept.
        engines: what each model is exported to.
    """

    request: Request
    layout: Layout
    teacher: Teacher
    method: Method
    student: Student
    test: Subset
    style: TextStyle
    budget: Budget
    batch: Batch
    parts: int
    cache: Optional[int]
    engines: dict[str, list[str]]


def make_plan(request: Request) -> Plan:
    """Check a request, and choose what it leaves open.

    Raises:
        UserError: names the option or the file that is wrong.
    """
    teacher, method, form = read_models(request)
    folders = [*around_data(request.data), folder_of(request.teacher)]
    if "marian" in form.engines:
        teacher = check_for_marian(teacher, request.data, folders)
    student = choose_student(teacher, method, request.size, form)
    test = find_test_set(request, teacher)
    style = find_style(
        teacher.trained, teacher.task, request.remove_bpe, request.tokenizer, folders=folders
    )
    style.decoder()  # refuses an unknown tokenizer now, not after the training
    corpus = check_corpus(request.folders, teacher)
    batch = choose_batch(request.device, teacher.max_positions, request.max_tokens)
    layout = Layout(request.out)
    engines = [e for e in form.engines if e != "ctranslate2" or has_ctranslate2()]
    if not request.forms_tried:
        options = (*teacher.languages, *student.options)
        check_forms(request.forms, request.data, folder_of(request.teacher), options)
    engines += [form for form in request.forms if form not in engines]
    return Plan(
        request,
        layout,
        teacher,
        method,
        student,
        test,
        style,
        budget=choose_budget(request, method, corpus, batch, layout.timing_log),
        batch=batch,
        parts=max(len(train_sets(folder, style.languages)) for folder in request.folders),
        cache=choose_cache(teacher, corpus),
        engines={"teacher": teacher.engines, "student": engines},
    )


def read_models(request: Request) -> tuple[Teacher, Method, StudentForm]:
    """The teacher, and how its student is made.

    Raises:
        UserError: a precision that does not hold the teacher's numbers; as `check_options`,
            `check_method`, and the reading of a teacher.
    """
    check_options(request)
    if request.teacher.is_dir():
        teacher = read_engine_teacher(request.teacher, request.data)
    else:
        teacher = read_teacher(request.teacher, request.data, request.more_data)
    if request.device.precision == "fp16" and not teacher.fits_float16:
        raise UserError(
            f"--precision fp16: TEACHER {teacher.path} has numbers that are too large for it; give "
            "fp32, or bf16 if the GPU has it"
        )
    method = check_method(request.method, teacher)
    form = STUDENT_FORMS[request.student_form]
    return teacher, replace(method, arch=form.archs.get(method.arch, method.arch)), form


def check_before_data(
    request: Request, keeps_words: bool, subword_models: Optional[Sequence[Path]]
) -> None:
    """Check what needs the teacher but no data, before it translates a text for hours.

    Args:
        request: its data is a folder with the teacher's dictionaries.
        keeps_words: whether the student will have all of the teacher's pieces; what it weighs
            depends on that, so that megabytes say nothing yet if not.
        subword_models: the teacher's files; None if the student's will segment text in another way,
            so that it is not known yet which forms can hold it.
    Raises:
        UserError: as `make_plan`.
    """
    teacher, method, form = read_models(request)
    check_wanted(teacher, request.size)
    choose_batch(request.device, teacher.max_positions, request.max_tokens)
    if subword_models is None:
        return
    texts = folder_of(subword_models[0] if subword_models else request.teacher)
    if "marian" in form.engines:
        teacher = check_for_marian(teacher, request.data, [*around_data(request.data), texts])
    size = request.size if keeps_words else Size(request.size.rate)
    student = choose_student(teacher, method, size, form)
    check_forms(request.forms, request.data, texts, (*teacher.languages, *student.options))


def folder_of(path: Path) -> Path:
    """A folder itself, or that of a file."""
    return path if path.is_dir() else path.parent


def choose_budget(
    request: Request, method: Method, corpus: Corpus, batch: Batch, log: Path
) -> Budget:
    """How long to train; `log`: where the speed of a short training will stand, if need be."""
    sizes = (corpus.tokens, batch.tokens, request.device.count)
    per_epoch, folders = updates_per_epoch(*sizes), len(request.folders)
    if request.hours is None:
        updates = request.updates or default_updates(*sizes)
        return Budget(per_epoch, updates, folders=folders)
    trainings = 1 + TASK_WARMUP * method.warms_up
    return Budget(per_epoch, None, log, request.hours, trainings, folders)


def choose_cache(teacher: Teacher, corpus: Corpus) -> Optional[int]:
    """MiB for the teacher's features; None for a teacher whose features cannot be kept."""
    if teacher.model is None or not has_output_layer(teacher.model):
        return None
    return cache_megabytes(corpus, teacher.model.decoder.output_embed_dim)


# --- checks ---------------------------------------------------------------------------------------


def check_method(name: str, teacher: Teacher) -> Method:
    """The method of a name; of a teacher that only translates, its student learns from the text.

    Raises:
        UserError: it follows a Transformer's layers, and the teacher is none; or it begins with the
            teacher's distributions, and there are none.
    """
    method = METHODS[name]
    if teacher.model is None and method.warms_up:
        raise UserError(
            f"--method {name}: its student learns from distributions, and TEACHER {teacher.path} "
            "is in CTranslate2 and gives translations; give --method distil or deep-shallow"
        )
    if teacher.model is None:
        return replace(method, criterion=CROSS_ENTROPY)
    if method.criterion == "patient_kd" and not isinstance(teacher.model, TransformerModelBase):
        raise UserError(
            f"--method {name}: its student follows the layers of fairseq's transformer, and "
            f"TEACHER {teacher.path} is none; give --method pet"
        )
    return method


def check_for_marian(teacher: Teacher, data: Path, folders: list[Path]) -> Teacher:
    """The teacher of a student that goes to Marian, which has one matrix for all embeddings.

    Args:
        folders: where the subword model may be.
    Raises:
        UserError: the data have two dictionaries, or no SentencePiece model is there.
    """
    option = "--student-form marian"
    words = teacher.task.source_dictionary
    if words != teacher.task.target_dictionary:
        raise UserError(
            f"{option}: {data} has a dictionary for each language, and Marian one for both; give a "
            "teacher with data of fairseq-preprocess --joined-dictionary"
        )
    remedy = "put the SentencePiece model of the text there"
    check_segmentation(find_subword_file(words, folders, option, remedy))
    return replace(teacher, embedding_options=sharing_options(True, True))


def check_options(request: Union[Request, Namespace]) -> None:
    """Check what needs neither the teacher nor data; a Namespace has the options of a Request.

    Raises:
        UserError: a number is not positive, the student's size or the training's length is given in
            two ways, or what a score or an export needs is missing.
    """
    check_size_options(request.size)
    if request.comet is not None:
        check_comet(request.comet)
    if request.rouge:
        load_scorer()  # refuses a missing package
    if request.shortlist is not None:
        check_positive(shortlist=request.shortlist)
        if not has_ctranslate2():
            raise UserError(f"--shortlist {request.shortlist}: {MISSING}")
    if request.updates is not None and request.hours is not None:
        raise UserError("--updates and --hours: both say how long; give one of them")
    if request.updates is not None:
        check_positive(updates=request.updates)
    if request.hours is not None:
        check_hours(request.hours)
    if request.lr is not None and not 0 < request.lr < 1:
        raise UserError(f"--lr {request.lr:g}: give a peak learning rate between 0 and 1")
    if request.max_tokens is not None:
        check_positive(max_tokens=request.max_tokens)


def find_test_set(request: Request, teacher: Teacher) -> Subset:
    """The test set that the user names, a subset of the data before a folder of the same name.

    It has as many sentences as the reference, if one is given.

    Raises:
        UserError: there is none, it has other dictionaries than the data, it has no references, or
            a sentence of it is longer than the teacher reads.
    """
    given = Path(request.test)
    is_folder = request.test not in _subsets(request.data) and given.is_dir()
    test = Subset(given, "test") if is_folder else Subset(request.data, request.test)
    task = teacher.task
    if is_folder:
        task = load_task(teacher.trained["task"], request.test, "--test")
        check_same_dictionaries(task, teacher.task, f"--test {given}", request.data)
    option = f"--test {request.test}"
    dataset = _load(task, test.name, option, test.data)
    check_lengths(dataset, f"{option}: the {test.name} set", teacher.max_positions)
    if request.reference is None and dataset.tgt is None:
        raise UserError(f"{option}: has no target side; give --reference FILE")
    if request.reference is not None:
        if not request.reference.is_file():
            raise UserError(f"--reference {request.reference}: no such file")
        lines = len(read_lines(request.reference, "--reference"))
        if lines != len(dataset):
            raise UserError(
                f"--reference {request.reference}: has {lines} lines, the test set "
                f"{len(dataset)} sentences; give the reference of this test set"
            )
    return test


def check_corpus(folders: Sequence[Path], teacher: Teacher) -> Corpus:
    """The size of the training set: train, train1, train2 ... of all these folders.

    Raises:
        UserError: it or the validation set is missing, or the latter has too long a sentence.
    """
    parts = [
        Corpus.of(_load(teacher.task, "train", f"--data {folder}", folder, epoch))
        for epoch, folder in enumerate(folders, 1)
    ]
    option = f"--data {folders[0]}"
    valid = _load(teacher.task, "valid", option, folders[0])
    check_lengths(valid, f"{option}: the valid set", teacher.max_positions)
    return Corpus(*map(sum, zip(*map(astuple, parts))))


def _subsets(data: Path) -> list[str]:
    """The names of the sets in a data folder."""
    return sorted({path.name.split(".")[0] for path in data.glob("*.idx")})


def _load(
    task: TranslationTask, subset: str, option: str, data: Path, epoch: int = 1
) -> LanguagePairDataset:
    """A set as fairseq loads it: of a training set, that of an epoch, whose folder is `data`."""
    try:
        return load_subset(task, subset, epoch=epoch, combine=subset == "train")
    except UserError as error:
        present = _subsets(data)
        problem = f"has no {subset} set, only {', '.join(present) or 'no data'}"
        if subset in present:
            problem = (
                f"has a {subset} set that is empty, damaged, or not of the teacher's languages"
            )
        raise UserError(f"{option}: {data} {problem}") from error


def check_lengths(dataset: LanguagePairDataset, name: str, max_positions: tuple[int, int]) -> None:
    """Check that the teacher can read all sentences of a set; `name` names it in the error.

    Args:
        max_positions: the longest source and target that the teacher reads.
    Raises:
        UserError: a sentence is longer.
    """
    _, too_long = dataset.filter_indices_by_size(np.arange(len(dataset)), max_positions)
    if too_long:
        source, target = max_positions
        raise UserError(
            f"{name} has a sentence, in line {min(too_long) + 1}, that is longer than the {source} "
            f"source and {target} target tokens that the teacher reads; leave such sentences out"
        )
