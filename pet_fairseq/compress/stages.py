"""The stages of `pet-fairseq compress`, from the teacher to the report."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from pet_fairseq.compress.forms import compare_forms, precision_of
from pet_fairseq.compress.layout import MODELS
from pet_fairseq.compress.measure import describe_teacher
from pet_fairseq.compress.plan import Plan
from pet_fairseq.compress.raw_text import IN_ENGINE
from pet_fairseq.compress.report import write_report
from pet_fairseq.compress.student import position_options
from pet_fairseq.compress.teacher_text import EngineText
from pet_fairseq.compress.training import (
    COMMON,
    TASK_WARMUP,
    TIMED_UPDATES,
    Budget,
    checkpoint_bytes,
    criterion_options,
)
from pet_fairseq.predict.batches import MAX_LENGTH
from pet_fairseq.predict.speed.detokenise import find_style, write_set
from pet_fairseq.predict.speed.translate import BEAM, ROUNDS, InPieces, translate_exported
from pet_fairseq.runner.call import Call
from pet_fairseq.runner.fairseq_commands import fairseq_generate, fairseq_train
from pet_fairseq.runner.fairseq_options import learning_rate
from pet_fairseq.runner.pipeline import Pipeline
from pet_fairseq.runner.resources import in_megabytes
from pet_fairseq.runner.stage import PRODUCT, Kind, Stage, Word


def build_pipeline(plan: Plan) -> Pipeline:
    """The stages of a plan, and what is to be said before they run."""
    request = plan.request
    places = name_places(request.teacher, request.out, request.folders)
    disk = (1 + plan.method.warms_up) * _disk(plan)
    about = (
        plan.budget.describe(plan.batch, request.device.count),
        f"peak learning rate: {peak_rate(plan):g}",
        f"disk: about {in_megabytes(disk)} for checkpoints",
    )
    return Pipeline(build_stages(plan), request.out, places, about)


def name_places(teacher: Path, out: Path, data: Sequence[Path]) -> dict[str, Path]:
    """The folders that may be moved between runs: DATA, DATA2 ... are those with binary data."""
    names = ("DATA", *(f"DATA{number}" for number in range(2, len(data) + 1)))
    return {**dict(zip(names, data)), "OUT": out, "TEACHER": teacher}


def build_stages(plan: Plan) -> list[Stage]:
    """All stages, in an order in which they can run."""
    rounds = ROUNDS if plan.teacher.no_ctranslate2 else 1
    in_fairseq = MODELS if plan.teacher.model is not None else ("student",)
    translated = [generate(plan, model, k) for k in range(1, rounds + 1) for model in in_fairseq]
    first = teacher_first(plan, translated)
    return [
        test_set(plan),
        *(exports(plan, "teacher") if "teacher" in in_fairseq else ()),
        *first,
        *trainings(plan),
        *exports(plan, "student"),
        *(stage for stage in translated if stage not in first),
        *translations(plan),
        *forms(plan),
        report(plan),
    ]


def test_set(plan: Plan) -> Stage:
    """The test set as text."""
    arguments = {"data": plan.test.data, "subset": plan.test.name, "style": plan.style}
    return Stage(
        "test-text",
        ("translate",),
        command=Call(write_set, {**arguments, "folder": PRODUCT}),
        product=plan.layout.test,
        inputs=(plan.test.data,),
    )


# --- training -------------------------------------------------------------------------------------


def trainings(plan: Plan) -> list[Stage]:
    """A timing if hours are given, the simplified task if the method has it, distillation."""
    criterion, student = plan.method.criterion, plan.layout.student
    timed = [timing(plan)] if plan.request.hours is not None else []
    if not plan.method.warms_up:
        return [*timed, train(plan, student, criterion)]
    warmup = plan.layout.warmup
    first = train(plan, warmup, "pet_simplified_task", TASK_WARMUP)
    return [*timed, first, train(plan, student, criterion, start=warmup)]


def train(
    plan: Plan, product: Path, criterion: str, share: float = 1, start: Optional[Path] = None
) -> Stage:
    """A training of the student, which goes into the product's folder.

    Args:
        share: of the updates of the distillation. start: a checkpoint, None for new parameters.
    """
    budget, folder = plan.budget, product.parent
    settings = training_options(plan, criterion)
    starts = () if start is None else ("--finetune-from-model", str(start))
    made_before = [path for path in (budget.log, start) if path is not None]
    # on GPUs the teacher keeps none
    keeps_features = "--teacher-cache-mb" in settings and plan.request.device.name == "cpu"
    return Stage(
        folder.name,
        ("train",),
        command=fairseq_train(
            plan.request.device,
            training_data(plan),
            folder,
            (*settings, *budget.schedule(share), *budget.validation(share), *starts),
        ),
        product=product,
        inputs=(*plan.request.folders, plan.teacher.path, *made_before),
        kind=Kind.TRAINING,
        disk=_disk(plan),
        growth=(plan.cache or 0) * plan.request.device.count * 2**20 if keeps_features else 0,
    )


def timing(plan: Plan) -> Stage:
    """A few updates, only to see how fast they are."""
    return Stage(
        "timing",
        ("train",),
        command=fairseq_train(
            plan.request.device,
            training_data(plan),
            plan.layout.timing,
            (
                *training_options(plan, plan.method.criterion),
                *Budget(plan.budget.per_epoch, TIMED_UPDATES).schedule(),
                *("--no-save", "--disable-validation", "--log-interval", "10"),
            ),
        ),
        product=plan.layout.timing_log,
        inputs=(*plan.request.folders, plan.teacher.path),
        kind=Kind.STDOUT,
        alone=True,
    )


def training_data(plan: Plan) -> str:
    """The folders that fairseq-train reads in turn, as it takes them."""
    return os.pathsep.join(map(str, plan.request.folders))


def training_options(plan: Plan, criterion: str) -> tuple[Word, ...]:
    """The options that all trainings have in common."""
    return (
        *(*plan.teacher.languages, *plan.student.options, *COMMON),
        *("--lr", f"{peak_rate(plan):g}"),
        *(*plan.batch.options, "--seed", str(plan.request.seed)),
        # with fairseq's default, -1, the first of several parts is lost
        *(("--upsample-primary", "1") if plan.parts > 1 else ()),
        *(("--num-workers", "0") if plan.request.device.name == "cpu" else ()),
        *criterion_options(criterion, plan.teacher.path, plan.cache),
    )


def peak_rate(plan: Plan) -> float:
    """The learning rate that the user gives, or that of the student's width."""
    return plan.request.lr or learning_rate(plan.student.width, plan.method.arch)


def _disk(plan: Plan) -> int:
    """The bytes of all checkpoints that one training keeps."""
    return checkpoint_bytes(plan.student.parameters, plan.budget.has_validations_within())


# --- measuring ------------------------------------------------------------------------------------


def checkpoint(plan: Plan, model: str) -> Path:
    return plan.teacher.path if model == "teacher" else plan.layout.student


def exports(plan: Plan, model: str) -> list[Stage]:
    return [export(plan, model, engine) for engine in plan.engines[model]]


def export(plan: Plan, model: str, engine: str) -> Stage:
    precision = precision_of(engine)
    options = [] if precision is None else ["--precision", precision]
    data, folders = str(plan.request.data), [plan.request.data]
    shortlist = plan.request.shortlist
    if engine == "ctranslate2" and model == "student" and shortlist is not None:
        options += ["--shortlist", str(shortlist)]
        data, folders = training_data(plan), list(plan.request.folders)
    path = checkpoint(plan, model)
    return Stage(
        f"export/{model}/{engine}",
        ("export",),
        command=(
            *("pet-fairseq", "export", str(path), "--data", data),
            *("--to", engine, *options),
            *("--out", PRODUCT),
        ),
        product=plan.layout.exported(model, engine),
        inputs=(*folders, path),
        renamed=(("--quantization", "--precision"),),
    )


def generate(plan: Plan, model: str, repeat: int) -> Stage:
    """A run of fairseq-generate, which is timed only where CTranslate2 cannot be."""
    path, device = checkpoint(plan, model), plan.request.device
    if model == "teacher" and not plan.teacher.fits_float16:  # in which GPUs generate otherwise
        device = replace(device, precision="fp32")
    return Stage(
        f"generate/{model}.{repeat}",
        ("translate",),
        command=fairseq_generate(
            device,
            plan.test.data,
            path,
            (
                *(*plan.teacher.languages, "--gen-subset", plan.test.name),
                *("--beam", str(BEAM), *plan.style.options),
                *("--max-tokens", str(plan.batch.max_tokens)),
                *position_options(plan.teacher),
                *(plan.teacher.overrides if model == "teacher" else ()),
            ),
        ),
        product=plan.layout.generated(model, repeat),
        inputs=(plan.test.data, path),
        kind=Kind.STDOUT,
        alone=plan.teacher.no_ctranslate2 is not None,
    )


def teacher_first(plan: Plan, translated: Sequence[Stage]) -> list[Stage]:
    """What shows before the training that the teacher, languages and subword model go together.

    Nothing where fairseq-generate is timed, as the models then take turns, nor where the references
    are the teacher's own.

    Args:
        translated: the runs of fairseq-generate, the teacher's first.
    """
    if plan.teacher.model is None or plan.teacher.no_ctranslate2 or plan.request.agreement:
        return []
    output, layout = plan.layout.generated("teacher", 1), plan.layout
    arguments = {"translations": output, "test": layout.test, "reference": plan.request.reference}
    scores = Stage(
        "teacher-scores",
        ("translate",),
        command=Call(describe_teacher, arguments),
        product=layout.teacher_scores,
        inputs=(output, layout.test, *filter(None, [plan.request.reference])),
        kind=Kind.STDOUT,
        shown=True,
    )
    return [translated[0], scores]


def translations(plan: Plan) -> list[Stage]:
    """Translating with the models that CTranslate2 can hold, in turn, to time them."""
    held = [model for model in MODELS if "ctranslate2" in plan.engines[model]]
    engines = {model: plan.layout.exported(model, "ctranslate2") for model in held}
    if not engines:
        return []
    tokens = plan.layout.test / "source.tokens"
    longest = plan.teacher.max_positions[1] - 1  # as fairseq-generate has it
    arguments: dict[str, Any] = {
        **{"models": engines, "tokens": tokens, "style": plan.style, "beam": BEAM},
        **{"rounds": ROUNDS, "max_length": min(MAX_LENGTH, longest), "out": PRODUCT},
    }
    inputs = [*engines.values(), tokens]
    if plan.teacher.model is None:
        in_engine = teacher_pieces(plan)
        arguments["others"] = {"teacher": in_engine}
        inputs.append(in_engine.tokens)
    return [
        Stage(
            "speed",
            ("translate",),
            command=Call(translate_exported, arguments),
            product=plan.layout.speed,
            inputs=tuple(inputs),
            alone=True,
        )
    ]


def teacher_pieces(plan: Plan) -> InPieces:
    """The test set as a teacher in CTranslate2 reads it, whose pieces its student may not have."""
    reads = EngineText(plan.teacher.path)
    style = find_style(plan.teacher.trained, reads.task, folders=[plan.teacher.path])
    tokens = plan.layout.text / IN_ENGINE
    return InPieces(tokens, style, min(MAX_LENGTH, reads.longest))


def forms(plan: Plan) -> list[Stage]:
    """Translating with the student in all forms that were asked for, in turn, to time them."""
    request, layout = plan.request, plan.layout
    folders = {form: layout.exported("student", form) for form in request.forms}
    if not folders:
        return []
    arguments: dict[str, Any] = {
        **{"forms": folders, "data": request.data},
        **{"test": layout.test, "reference": request.reference},
        **{"beam": BEAM, "rounds": ROUNDS, "out": PRODUCT},
    }
    if request.source is not None:
        arguments["source"] = request.source
    given = [file for file in (request.reference, request.source) if file is not None]
    return [
        Stage(
            "forms",
            ("translate",),
            command=Call(compare_forms, arguments),
            product=layout.forms,
            inputs=(*folders.values(), layout.test, *given),
            alone=True,
        )
    ]


def report(plan: Plan) -> Stage:
    request = plan.request
    arguments = {
        **{"out": request.out, "teacher": plan.teacher.path, "reference": request.reference},
        **{"no_ctranslate2": plan.teacher.no_ctranslate2, "device": request.device.name},
        **({"agreement": True} if request.agreement else {}),
        **{"source": request.source, "comet": request.comet, "rouge": request.rouge},
        **({"with_forms": True} if request.forms else {}),
        "made": [
            *plan.engines["student"],
            *([plan.layout.warmup.parent.name] if plan.method.warms_up else []),
        ],
    }
    given = (request.reference, request.source)
    return Stage(
        "report",
        ("report",),
        command=Call(write_report, arguments),
        product=plan.layout.report,
        inputs=tuple(file for file in given if file is not None),
        always=True,
    )
