"""How the models of a translation recipe are trained: the stages of teachers and students."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.translation.sequence_level import text_stages
from pet_fairseq.recipes.translation.setup import Setup, join_paths
from pet_fairseq.runner.device import Device
from pet_fairseq.runner.fairseq_commands import BEST, fairseq_train, use_checkpoint
from pet_fairseq.runner.fairseq_options import Options
from pet_fairseq.runner.stage import PRODUCT, Kind, Output, Stage, Word, drop_overridden

SMOOTHING = ("--label-smoothing", "0.1")


@dataclass(frozen=True)
class Training:
    """One run of fairseq-train for a row.

    Attributes:
        loss: a name in LOSSES.
        arch: a name in Settings.models.
        schedule: names of fields of Settings that say how long to train and how fast.
        options: more options; later ones override earlier ones.
        folder: where to save, within the row's folder.
        start: checkpoint to start from, within the row's folder; "" for a random model.
        teacher_text: whether to train on the teachers' translations of the training set.
    """

    loss: str
    arch: str
    schedule: tuple[str, ...] = ("student", "updates")
    options: Options = ()
    folder: str = ""
    start: str = ""
    teacher_text: bool = False


TEACHER = Training("gold", "teacher", schedule=("teacher",))

# the criterion with its options, the field of Settings that goes with it, and whether it needs the
# teacher
LOSSES = {
    "gold": (("label_smoothed_cross_entropy", *SMOOTHING), "gold", False),
    "distil": (("pet_distillation", *SMOOTHING), "distillation", True),
    "patient": (("patient_kd", *SMOOTHING), "patience", True),
    "simplified": (("pet_simplified_task",), "simplified", True),
}

CACHE = "--teacher-cache-mb"

Builder = Callable[[Setup, str, int], list[Stage]]


def student(loss: str, arch: str, options: Options = (), teacher_text: bool = False) -> Builder:
    """A student that is trained by one fairseq-train."""
    training = Training(loss, arch, options=options, teacher_text=teacher_text)
    return lambda setup, row, seed: train(setup, row, seed, training)


def warmed_up(
    arch: str,
    loss: str = "distil",
    options: Options = (),
    warmup: Options = (),
    folder: str = "",
    teacher_text: bool = False,
) -> Builder:
    """A student that learns the simplified task first.

    Args:
        options: more options of both trainings. warmup: more options of the first one.
        folder: for the trained student, within the row's folder.
    """
    warm = f"{folder}/warmup".lstrip("/")

    def build(setup: Setup, row: str, seed: int) -> list[Stage]:
        first = Training(
            "simplified",
            arch,
            ("student", "warmup"),
            (*options, *warmup),
            warm,
            teacher_text=teacher_text,
        )
        then = Training(
            loss,
            arch,
            ("student", "updates"),
            options,
            folder,
            f"{warm}/{BEST}",
            teacher_text=teacher_text,
        )
        return [*train(setup, row, seed, first), *train(setup, row, seed, then)]

    return build


def train(setup: Setup, row: str, seed: int, training: Training) -> list[Stage]:
    """The stages that make a training's text, if it has one of its own, and train on it."""
    settings = setup.settings
    folder = setup.folder(row, seed)
    data = setup.teacher_text_bin if training.teacher_text else setup.bin
    inputs = [data, *teachers_of(setup, training.loss)]
    start: Options = ()
    if training.start:
        start = ("--finetune-from-model", str(folder / training.start))
        inputs.append(folder / training.start)
    stage = train_stage(
        setup,
        name=str(folder.relative_to(setup.runs) / training.folder),
        group=row,
        folder=folder / training.folder,
        data=data,
        options=(
            *("--seed", str(seed), *loss_options(setup, row, training.loss)),
            *settings.architecture(training.arch),
            *(word for name in training.schedule for word in getattr(settings, name)),
            *(*training.options, *start),
            *(setup.student_options if "student" in training.schedule else ()),
        ),
        inputs=tuple(inputs),
    )
    return [*(text_stages(setup, row) if training.teacher_text else ()), stage]


def teachers_of(setup: Setup, loss: str) -> list[Path]:
    """The checkpoints of the teachers that a loss needs."""
    _, _, asks_teacher = LOSSES[loss]
    return setup.teachers if asks_teacher else []


def loss_options(setup: Setup, row: str, loss: str) -> Options:
    """Options of a loss, including its teachers, and what the best checkpoint is best in.

    The simplified task makes no translator, so its best checkpoint is that of the lowest loss.

    Raises:
        UserError: patient distillation from an ensemble.
    """
    criterion, name, _ = LOSSES[loss]
    teachers = teachers_of(setup, loss)
    if loss == "patient" and len(teachers) > 1:
        raise UserError(
            f"--teachers {setup.ensemble}: {row} follows the layers of one teacher; leave it out "
            "of --rows"
        )
    path = ("--teacher-path", join_paths(teachers)) if teachers else ()
    settings = getattr(setup.settings, name)
    settings = with_larger_cache(settings, max(1, len(teachers)))
    selection = () if loss == "simplified" else setup.selection
    return ("--criterion", *criterion, *path, *settings, *selection)


def with_larger_cache(options: Options, times: int) -> Options:
    """Options whose cache for the teachers' outputs is `times` as large."""
    if times == 1 or CACHE not in options:
        return options
    at = options.index(CACHE) + 1
    return (*options[:at], str(times * int(options[at])), *options[at + 1 :])


def train_stage(
    setup: Setup,
    name: str,
    group: str,
    folder: Path,
    data: Path,
    options: tuple[Word, ...],
    inputs: tuple[Path, ...],
) -> Stage:
    """The stage of a fairseq-train into a folder, with the setup's common options."""
    settings = setup.settings
    return Stage(
        name,
        (group,),
        command=fairseq_train(
            setup.device,
            data,
            folder,
            (*setup.languages, *drop_overridden((*settings.common, *settings.more, *options))),
        ),
        product=folder / BEST,
        inputs=inputs,
        kind=Kind.TRAINING,
    )


def build_teacher(setup: Setup, row: str, seed: int) -> list[Stage]:
    """The teacher, which is trained once whatever the seed, or a link to the user's own."""
    if setup.own_teacher is None:
        return train(setup, row, 1, TEACHER)
    product = setup.folder(row, seed) / BEST
    if setup.own_teacher.resolve() == product.resolve():
        return []
    return [use_checkpoint(row, row, setup.own_teacher, product, setup.runs)]


def build_ensemble(setup: Setup, row: str, seed: int) -> list[Stage]:
    """Teachers of the seeds 2, 3, ... beside the teacher, and a link to it, for the report.

    Raises:
        UserError: only one teacher is wanted.
    """
    if setup.ensemble == 1:
        raise UserError(f"--rows {row}: say how many teachers are in it, such as --teachers 3")
    teacher, first = (setup.runs / folder / BEST for folder in ("teacher", f"{row}/seed1"))
    link = use_checkpoint(f"{row}/seed1", row, teacher, first, setup.runs)
    others = [
        train(setup, row, number, replace(TEACHER, folder=f"seed{number}"))
        for number in range(2, setup.ensemble + 1)
    ]
    return [link, *(stage for stages in others for stage in stages)]


def sampled(setup: Setup, row: str, seed: int) -> list[Stage]:
    """A wide student, of which the best heads are kept and trained further."""
    folder = setup.folder(row, seed)
    wide, out = folder / "wide" / BEST, folder / "sampled.pt"
    sample = Stage(
        f"{folder.name}/sample-heads",
        (row,),
        command=(
            *("pet-fairseq", "sample-heads", str(wide), "--data", str(setup.bin)),
            *("--heads", str(setup.settings.heads), "--out", PRODUCT),
        ),
        product=out,
        inputs=(wide, setup.bin),
        renamed=(("--checkpoint", ""),),
    )
    first = warmed_up("wide", folder="wide")(setup, row, seed)
    return [*first, sample, *finetune(setup, row, seed, out)]


def longer(setup: Setup, row: str, seed: int) -> list[Stage]:
    """The PET student of the same seed, trained further for as long as a sampled one."""
    return finetune(setup, row, seed, setup.folder("pet", seed) / BEST)


def quantised(base: str, bits: int, loss: str = "distil") -> Builder:
    """A row's student of the same seed, trained further with its weights in `bits` bits."""
    options = ("--optimizer", "quantised_adam", "--quantised-bits", str(bits))

    def build(setup: Setup, row: str, seed: int) -> list[Stage]:
        # in float32: rounding to the grid of few bits needs the precision
        in_float32 = replace(setup, device=Device(setup.device.name))
        start = setup.folder(base, seed) / BEST
        return finetune(in_float32, row, seed, start, loss, "quantised", options)

    return build


def finetune(
    setup: Setup,
    row: str,
    seed: int,
    start: Path,
    loss: str = "distil",
    schedule: str = "finetune",
    options: Options = (),
) -> list[Stage]:
    """The stage that distils a checkpoint's model further.

    Args:
        start: the checkpoint. loss: a name in LOSSES. schedule: a field of Settings.
        options: more options; later ones override earlier ones.
    """
    settings = setup.settings
    folder = setup.folder(row, seed)
    stage = train_stage(
        setup,
        name=folder.name,
        group=row,
        folder=folder,
        data=setup.bin,
        options=(
            *("--seed", str(seed), *loss_options(setup, row, loss)),
            Output(("model-options", str(start))),
            *(*settings.student, *setup.student_options, *getattr(settings, schedule)),
            *("--finetune-from-model", str(start), *options),
        ),
        inputs=(setup.bin, *teachers_of(setup, loss), start),
    )
    return [stage]
