"""The stages of `pet-fairseq compress`."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Optional

import numpy as np
from fairseq.data import LanguagePairDataset

from pet_fairseq.checkpoints.loading import load_subset, load_task
from pet_fairseq.compress.layout import MODELS, Layout
from pet_fairseq.compress.length import default_updates, updates_per_epoch
from pet_fairseq.compress.methods import BEAM, MAX_LENGTH, METHODS, ROUNDS, Method
from pet_fairseq.compress.student import Size, choose_student, position_options
from pet_fairseq.compress.teacher import Teacher, has_ctranslate2, read_teacher
from pet_fairseq.compress.text import TextStyle, find_style
from pet_fairseq.compress.timing import check_hours
from pet_fairseq.compress.training import (
    COMMON,
    TASK_WARMUP,
    TIMED_UPDATES,
    Budget,
    Corpus,
    batch_tokens,
    cache_megabytes,
    checkpoint_bytes,
    criterion_options,
)
from pet_fairseq.distillation.outputs import has_output_layer
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.files import read_lines
from pet_fairseq.nn.architectures import build_without_memory
from pet_fairseq.nn.parameters import count_parameters
from pet_fairseq.pet.params import parse_model_options
from pet_fairseq.runner.device import Device
from pet_fairseq.runner.options import Options, learning_rate
from pet_fairseq.runner.pipeline import Pipeline
from pet_fairseq.runner.resources import in_megabytes
from pet_fairseq.runner.stage import Kind, Stage, Word
from pet_fairseq.runner.training import fairseq_generate, fairseq_train


@dataclass(frozen=True)
class Request:
    """What the user asks for.

    Attributes:
        updates, hours: how long to train, at most one of them.
        test: a subset of the data, or a folder like it with a subset `test`.
        reference: raw target text of the test set.
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
    seed: int = 1
    test: str = "test"
    reference: Optional[Path] = None
    remove_bpe: Optional[str] = None
    tokenizer: Optional[str] = None


def build_pipeline(request: Request) -> Pipeline:
    """The stages from the teacher to the report.

    Raises:
        UserError: names the option or the file that is wrong.
    """
    teacher = read_teacher(request.teacher, request.data)
    check_method(request.method, teacher)
    check_times(request)
    places = {"DATA": request.data, "OUT": request.out, "TEACHER": request.teacher}
    stages = _Stages(request, teacher)
    return Pipeline(stages.build(), request.out, places, stages.about())


def check_method(name: str, teacher: Teacher) -> None:
    """Raise UserError if a method follows a Transformer's layers, and the teacher is none."""
    if METHODS[name].criterion == "patient_kd" and not teacher.is_transformer:
        raise UserError(
            f"--method {name}: its student follows the layers of a Transformer, and TEACHER "
            f"{teacher.path} is none; give --method pet"
        )


def check_times(request: Request) -> None:
    """Check the length of the training that the user asks for.

    Raises:
        UserError: it is given in two ways, or not positive.
    """
    if request.updates is not None and request.hours is not None:
        raise UserError("--updates and --hours: both say how long; give one of them")
    if request.updates is not None:
        check_positive(updates=request.updates)
    if request.hours is not None:
        check_hours(request.hours)


@dataclass(frozen=True)
class Subset:
    """One set of a data folder."""

    data: Path
    name: str


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
        for name in ("source_dictionary", "target_dictionary"):
            if getattr(task, name) != getattr(teacher.task, name):
                raise UserError(f"--test {given}: made with other dictionaries than {request.data}")
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


def _subsets(data: Path) -> list[str]:
    """The names of the sets in a data folder."""
    return sorted({path.name.split(".")[0] for path in data.glob("*.idx")})


def _load(task, subset: str, option: str, data: Path) -> LanguagePairDataset:
    try:
        return load_subset(task, subset)
    except UserError as error:
        present = _subsets(data)
        problem = f"has no {subset} set, only {', '.join(present) or 'no data'}"
        if subset in present:
            problem = f"has a {subset} set that is empty, or not of the teacher's languages"
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


class _Stages:
    """Builds the stages of one request."""

    def __init__(self, request: Request, teacher: Teacher):
        self.request = request
        self.teacher = teacher
        self.layout = Layout(request.out)
        self.device = request.device
        self.method: Method = METHODS[request.method]
        self.shape, self.model_options = choose_student(teacher, self.method, request.size)
        self.test = find_test_set(request, teacher)
        self.style: TextStyle = find_style(
            teacher.trained, teacher.task, request.remove_bpe, request.tokenizer
        )
        self.style.decoder()  # refuses an unknown tokenizer now, not after the training
        option = f"--data {request.data}"
        self.corpus = Corpus.of(_load(teacher.task, "train", option, request.data))
        valid = _load(teacher.task, "valid", option, request.data)
        check_lengths(valid, f"{option}: the valid set", teacher.max_positions)

    def build(self) -> list[Stage]:
        stages = [self.test_text(), *self.exports("teacher"), *self.training()]
        stages += self.exports("student")
        rounds = 1 if self.in_ctranslate2 else ROUNDS
        stages += [self.generate(m, k) for k in range(1, rounds + 1) for m in MODELS]
        if "ctranslate2" in self.engines("student"):
            stages.append(self.translate())
        return [*stages, self.report()]

    @cached_property
    def in_ctranslate2(self) -> bool:
        """Whether both models are compared in CTranslate2; else they are in fairseq."""
        return "ctranslate2" in self.engines("teacher")

    def engines(self, model: str) -> list[str]:
        """What a model is exported to: a student to all there is, a teacher as far as it can be."""
        if model == "student":
            return ["fairseq", "ctranslate2"] if has_ctranslate2() else ["fairseq"]
        reasons = {
            "fairseq": self.teacher.why_no_plain_form(),
            "ctranslate2": self.teacher.why_no_ctranslate2(),
        }
        return [engine for engine, why_not in reasons.items() if why_not is None]

    def checkpoint(self, model: str) -> Path:
        return self.teacher.path if model == "teacher" else self.layout.student

    def test_text(self) -> Stage:
        return Stage(
            *("test-text", ("translate",)),
            command=(
                *("pet-fairseq", "test-text", str(self.test.data), "--subset", self.test.name),
                *(*self.teacher.languages, *self.style.options, "--out", str(self.layout.test)),
            ),
            product=self.layout.test,
            inputs=(self.test.data,),
        )

    # --- training ---------------------------------------------------------------------------------

    @cached_property
    def max_tokens(self) -> int:
        return batch_tokens(self.device, self.teacher.max_positions)

    @cached_property
    def budget(self) -> Budget:
        if self.request.hours is not None:
            trainings = 1 + TASK_WARMUP * self.method.warms_up
            return Budget(None, self.layout.timing, self.request.hours, trainings)
        sizes = (self.corpus.tokens, self.max_tokens, self.device.count)
        return Budget(self.request.updates or default_updates(*sizes))

    @cached_property
    def per_epoch(self) -> int:
        return updates_per_epoch(self.corpus.tokens, self.max_tokens, self.device.count)

    @cached_property
    def cache(self) -> Optional[int]:
        """MiB for the teacher's features; None for a teacher whose features cannot be kept."""
        if not has_output_layer(self.teacher.model):
            return None
        return cache_megabytes(self.corpus, self.teacher.options.decoder_embed_dim)

    def about(self) -> tuple[str, ...]:
        """What the training takes, as far as it is known before it starts."""
        trainings = 1 + self.method.warms_up
        return (
            self.budget.describe(self.per_epoch, self.max_tokens, self.device.count),
            f"disk: about {in_megabytes(trainings * self.checkpoint_bytes)} for checkpoints",
        )

    @cached_property
    def checkpoint_bytes(self) -> int:
        """The bytes of all checkpoints that one training keeps."""
        args = parse_model_options(list(self.model_options))
        student = build_without_memory(args, *self.teacher.vocabularies)
        parameters = count_parameters(student).total
        return checkpoint_bytes(parameters, self.budget.has_validations_within(self.per_epoch))

    def training(self) -> list[Stage]:
        """A timing if hours are given, the simplified task if the method has it, distillation."""
        stages = []
        if self.request.hours is not None:
            stages.append(self.timing())
        start: Options = ()
        if self.method.warms_up:
            stages.append(self.train("warmup", "pet_simplified_task", TASK_WARMUP))
            start = ("--finetune-from-model", str(self.layout.warmup))
        return [*stages, self.train("training", self.method.criterion, 1, start)]

    def train(self, name: str, criterion: str, share: float, start: Options = ()) -> Stage:
        folder = self.request.out / name
        product = self.layout.warmup if name == "warmup" else self.layout.student
        timing = () if self.request.hours is None else (self.layout.timing,)
        settings = self.settings(criterion)
        return Stage(
            *(name, ("train",)),
            command=fairseq_train(
                *(self.device, self.request.data, folder),
                (
                    *(*settings, *self.budget.schedule(share)),
                    *(*self.budget.validation(self.per_epoch, share), *start),
                ),
            ),
            product=product,
            inputs=(self.request.data, self.teacher.path, *timing, *map(Path, start[1:])),
            kind=Kind.TRAINING,
            disk=self.checkpoint_bytes,
            growth=0 if "--teacher-cache-mb" not in settings else self.cache_growth,
        )

    @cached_property
    def cache_growth(self) -> int:
        """The bytes that the teacher's features take when each process has kept them all."""
        return (self.cache or 0) * self.device.count * 2**20

    def timing(self) -> Stage:
        """A few updates, only to see how fast they are."""
        return Stage(
            *("timing", ("train",)),
            command=fairseq_train(
                *(self.device, self.request.data, self.request.out / "timing"),
                (
                    *self.settings(self.method.criterion),
                    *Budget(TIMED_UPDATES).schedule(),
                    *("--no-save", "--disable-validation", "--log-interval", "10"),
                ),
            ),
            product=self.layout.timing,
            inputs=(self.request.data, self.teacher.path),
            kind=Kind.STDOUT,
            alone=True,
        )

    def settings(self, criterion: str) -> tuple[Word, ...]:
        """The options that all trainings have in common."""
        return (
            *(*self.teacher.languages, *self.model_options, *COMMON),
            *("--lr", f"{learning_rate(self.shape.width, self.method.arch):g}"),
            *("--max-tokens", str(self.max_tokens), "--seed", str(self.request.seed)),
            *(("--num-workers", "0") if self.device.name == "cpu" else ()),
            *criterion_options(criterion, self.teacher.path, self.cache),
        )

    # --- measuring --------------------------------------------------------------------------------

    def exports(self, model: str) -> list[Stage]:
        return [self.export(model, engine) for engine in self.engines(model)]

    def export(self, model: str, engine: str) -> Stage:
        options = ("--precision", "int8") if engine == "ctranslate2" else ()
        checkpoint, out = self.checkpoint(model), self.layout.exported(model, engine)
        return Stage(
            *(f"export/{model}/{engine}", ("export",)),
            command=(
                *("pet-fairseq", "export", str(checkpoint), "--data", str(self.request.data)),
                *("--to", engine, *options, "--out", str(out)),
            ),
            product=out,
            inputs=(self.request.data, checkpoint),
            renamed=(("--quantization", "--precision"),),
        )

    def generate(self, model: str, repeat: int) -> Stage:
        """A run of fairseq-generate, which is timed only where CTranslate2 cannot be."""
        checkpoint = self.checkpoint(model)
        return Stage(
            *(f"generate/{model}.{repeat}", ("translate",)),
            command=fairseq_generate(
                *(self.device, self.test.data, checkpoint),
                (
                    *(*self.teacher.languages, "--gen-subset", self.test.name),
                    *("--beam", str(BEAM), *self.style.options),
                    *("--max-tokens", str(self.max_tokens)),
                    *position_options(self.teacher),
                ),
            ),
            product=self.layout.generated(model, repeat),
            inputs=(self.test.data, checkpoint),
            kind=Kind.STDOUT,
            alone=not self.in_ctranslate2,
        )

    def translate(self) -> Stage:
        """Translate with the models that CTranslate2 can hold, and time them."""
        models = [model for model in MODELS if "ctranslate2" in self.engines(model)]
        engines = {model: self.layout.exported(model, "ctranslate2") for model in models}
        tokens = self.layout.test / "source.tokens"
        longest = self.teacher.max_positions[1] - 1  # as fairseq-generate has it
        length = ("--max-length", str(longest)) if longest < MAX_LENGTH else ()
        options = [w for name, path in engines.items() for w in ("--model", name, str(path))]
        return Stage(
            *("speed", ("translate",)),
            command=(
                *("pet-fairseq", "translate-exported", *options, "--input", str(tokens)),
                *(*self.teacher.languages, *self.style.options, "--beam", str(BEAM)),
                *("--rounds", str(ROUNDS), *length, "--out", str(self.layout.speed)),
            ),
            product=self.layout.speed,
            inputs=(*engines.values(), tokens),
            alone=True,
        )

    def report(self) -> Stage:
        reference = self.request.reference
        why_not = self.teacher.why_no_ctranslate2()
        return Stage(
            *("report", ("report",)),
            command=(
                *("pet-fairseq", "compress-report", str(self.request.out)),
                *("--teacher", str(self.teacher.path), "--device", self.device.name),
                *(("--reference", str(reference)) if reference is not None else ()),
                *(("--without-ctranslate2", why_not) if why_not is not None else ()),
            ),
            product=self.layout.report,
            inputs=() if reference is None else (reference,),
            always=True,
        )
