"""How the models of a translation recipe are trained: a teacher's stages and its students'."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

from pet_fairseq.recipes.device import CPU, Device
from pet_fairseq.recipes.sizes import Options, Settings
from pet_fairseq.recipes.stage import Kind, Output, Stage, Word, last_wins
from pet_fairseq.recipes.training import (
    BEST,
    fairseq_generate,
    fairseq_train,
    fairseq_validate,
    use_checkpoint,
)

SMOOTHING = ("--label-smoothing", "0.1")


@dataclass(frozen=True)
class Setup:
    """A data set, the settings of its models and the folders for them.

    Attributes:
        data: folder with bin/, made by fairseq-preprocess.
        runs: folder for a folder of each training.
        reference: raw target text of the test set.
        text: options of fairseq-generate that make the text of a translation.
        own_teacher: a checkpoint to use in place of training a teacher.
    """

    data: Path
    runs: Path
    source_lang: str
    target_lang: str
    reference: Path
    settings: Settings
    device: Device = CPU
    text: Options = ("--remove-bpe", "--tokenizer", "moses")
    own_teacher: Optional[Path] = None

    @property
    def bin(self) -> Path:
        return self.data / "bin"

    @property
    def teacher(self) -> Path:
        return self.own_teacher or self.runs / "teacher" / BEST

    @property
    def teacher_text(self) -> Path:
        """The training set with the teacher's translations as its target side."""
        return self.runs / "teacher_text" / "bin"

    @property
    def languages(self) -> Options:
        return ("--source-lang", self.source_lang, "--target-lang", self.target_lang)

    def folder(self, row: str, seed: int) -> Path:
        return self.runs / (row if row == "teacher" else f"{row}.seed{seed}")


@dataclass(frozen=True)
class Training:
    """One fairseq-train of a row.

    Attributes:
        loss: a name in LOSSES.
        arch: what Settings.architecture knows. schedule: names of fields of Settings.
        options: more options; the last ones win.
        folder: within the row's folder.
        start: checkpoint to start from, within the row's folder.
        on_teacher_text: train on the teacher's translations of the training set.
    """

    loss: str
    arch: str
    schedule: tuple[str, ...] = ("student", "updates")
    options: Options = ()
    folder: str = ""
    start: str = ""
    on_teacher_text: bool = False


# criterion, the settings that go with it, and whether it asks the teacher
LOSSES = {
    "gold": (("label_smoothed_cross_entropy", *SMOOTHING), "gold", False),
    "distil": (("pet_distillation", *SMOOTHING), "distillation", True),
    "patient": (("patient_kd", *SMOOTHING), "patience", True),
    "simplified": (("pet_simplified_task",), "simplified", True),
}

VALIDATION = ("--max-tokens", "3000", "--num-workers", "0")

Builder = Callable[[Setup, str, int], list[Stage]]


def student(loss: str, arch: str, options: Options = (), on_teacher_text: bool = False) -> Builder:
    """A student trained in one go."""
    training = Training(loss, arch, options=options, on_teacher_text=on_teacher_text)
    return lambda setup, row, seed: train(setup, row, seed, training)


def warmed_up(
    arch: str,
    loss: str = "distil",
    options: Options = (),
    warmup: Options = (),
    folder: str = "",
    on_teacher_text: bool = False,
) -> Builder:
    """A student that learns the simplified task first.

    Args:
        options: of both trainings. warmup: of the first one only.
        folder: for the trained student, within the row's folder.
    """
    warm = f"{folder}/warmup".lstrip("/")

    def build(setup: Setup, row: str, seed: int) -> list[Stage]:
        first = Training(
            *("simplified", arch, ("student", "warmup"), (*options, *warmup), warm),
            on_teacher_text=on_teacher_text,
        )
        then = Training(
            *(loss, arch, ("student", "updates"), options, folder, f"{warm}/{BEST}"),
            on_teacher_text=on_teacher_text,
        )
        return [*train(setup, row, seed, first), *train(setup, row, seed, then)]

    return build


def train(setup: Setup, row: str, seed: int, training: Training) -> list[Stage]:
    """The stage of a training, after those that make its text."""
    settings = setup.settings
    folder = setup.folder(row, seed)
    data = setup.teacher_text if training.on_teacher_text else setup.bin
    criterion, loss_settings, asks_teacher = LOSSES[training.loss]
    inputs = [data]
    if asks_teacher:
        criterion = (*criterion, "--teacher-path", str(setup.teacher))
        inputs.append(setup.teacher)
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
            *("--seed", str(seed), "--criterion", *criterion),
            *getattr(settings, loss_settings),
            *(word for name in training.schedule for word in getattr(settings, name)),
            *(*settings.architecture(training.arch), *training.options, *start),
        ),
        inputs=tuple(inputs),
    )
    return [*(teacher_text(setup, row) if training.on_teacher_text else ()), stage]


def train_stage(
    setup: Setup,
    name: str,
    group: str,
    folder: Path,
    data: Path,
    options: tuple[Word, ...],
    inputs: tuple[Path, ...],
) -> Stage:
    """fairseq-train into a folder with what all trainings of the setup have in common."""
    return Stage(
        name,
        (group,),
        command=fairseq_train(
            *(setup.device, data, folder),
            (*setup.languages, *last_wins((*setup.settings.common, *options))),
        ),
        product=folder / BEST,
        inputs=inputs,
        kind=Kind.TRAINING,
    )


def build_teacher(setup: Setup, row: str, seed: int) -> list[Stage]:
    """The teacher, trained once whatever the seed, or the one that is given, for the report."""
    if setup.own_teacher is None:
        return train(setup, row, 1, Training("gold", "teacher", schedule=()))
    product = setup.folder(row, seed) / BEST
    if setup.own_teacher.resolve() == product.resolve():
        return []
    return [use_checkpoint(row, row, setup.own_teacher, product)]


def sampled(setup: Setup, row: str, seed: int) -> list[Stage]:
    """A wide student, its best heads, more training."""
    folder = setup.folder(row, seed)
    wide, out = folder / "wide" / BEST, folder / "sampled.pt"
    sample = Stage(
        f"{folder.name}/sample-heads",
        (row,),
        command=(
            *("pet-fairseq", "sample-heads", "--checkpoint", str(wide), "--data", str(setup.bin)),
            *("--heads", str(setup.settings.heads), "--out", str(out)),
        ),
        product=out,
        inputs=(wide, setup.bin),
    )
    first = warmed_up("wide", folder="wide")(setup, row, seed)
    return [*first, sample, *finetune(setup, row, seed, out)]


def longer(setup: Setup, row: str, seed: int) -> list[Stage]:
    """The PET student of the same seed with as much more training as a sampled one gets."""
    return finetune(setup, row, seed, setup.folder("pet", seed) / BEST)


def quantised(base: str, bits: int, loss: str = "distil") -> Builder:
    """A row's student of the same seed, trained on with its weights in so many bits."""
    options = ("--optimizer", "quantised_adam", "--quantised-bits", str(bits))

    def build(setup: Setup, row: str, seed: int) -> list[Stage]:
        full = replace(setup, device=Device(setup.device.name))  # the grid needs its precision
        start = setup.folder(base, seed) / BEST
        return finetune(full, row, seed, start, loss, "quantised", options)

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
    """More distillation of a checkpoint's model.

    Args:
        loss: a name in LOSSES. schedule: a field of Settings. options: more; the last ones win.
    """
    settings = setup.settings
    folder = setup.folder(row, seed)
    criterion, loss_settings, _ = LOSSES[loss]
    stage = train_stage(
        setup,
        name=folder.name,
        group=row,
        folder=folder,
        data=setup.bin,
        options=(
            *("--seed", str(seed), "--criterion", *criterion, "--teacher-path", str(setup.teacher)),
            *getattr(settings, loss_settings),
            Output(("model-options", str(start))),
            *(*settings.student, *getattr(settings, schedule)),
            *("--finetune-from-model", str(start), *options),
        ),
        inputs=(setup.bin, setup.teacher, start),
    )
    return [stage]


def teacher_text(setup: Setup, row: str) -> list[Stage]:
    """Sequence-level distillation (Kim and Rush, 2016): the teacher translates the training set.

    The students train on the teacher's own pieces, so these are not made into text.
    """
    folder = setup.teacher_text.parent
    translations = folder / "train.txt"
    translate = Stage(
        "teacher_text/translate",
        (row,),
        command=generate_command(setup, setup.teacher, 5, ("--gen-subset", "train"), text=()),
        product=translations,
        inputs=(setup.bin, setup.teacher),
        kind=Kind.STDOUT,
    )
    binarise = Stage(
        "teacher_text/binarise",
        (row,),
        command=(
            *("pet-fairseq", "teacher-text", str(translations), "--data", str(setup.bin)),
            *(*setup.languages, "--out", str(setup.teacher_text)),
        ),
        product=setup.teacher_text,
        inputs=(translations, setup.bin),
    )
    return [translate, binarise]


def validate_command(setup: Setup, checkpoint: Path) -> tuple[Word, ...]:
    """fairseq-validate on the setup's validation set."""
    return fairseq_validate(
        *(setup.device, setup.bin, checkpoint),
        ("--task", "translation", *setup.languages, *VALIDATION),
    )


def generate_command(
    setup: Setup, checkpoint: Path, beam: int, options: Options = (), text: Optional[Options] = None
) -> tuple[Word, ...]:
    """fairseq-generate on the setup's data."""
    return fairseq_generate(
        *(setup.device, setup.bin, checkpoint),
        (
            *("--beam", str(beam), *setup.languages, *(setup.text if text is None else text)),
            *(*setup.settings.generate, *options),
        ),
    )
