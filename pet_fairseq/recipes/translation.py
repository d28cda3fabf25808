"""Recipes that compress a translation model: a teacher, PET students and their competitors.

A row is a model of the comparison. ROWS has all of them in the order of the report: adding one is
one entry.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional, Sequence

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.device import CPU, Device
from pet_fairseq.recipes.pipeline import merge
from pet_fairseq.recipes.record import read_record
from pet_fairseq.recipes.sizes import Options, Settings
from pet_fairseq.recipes.stage import Kind, Output, Stage, Word, last_wins
from pet_fairseq.recipes.training import BEST, fairseq_generate, fairseq_train

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
        arch, schedule: names of fields of Settings.
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

Builder = Callable[[Setup, str, int], list[Stage]]


@dataclass(frozen=True)
class Row:
    """A model of the comparison: how it is called in options and in the report, and its stages."""

    name: str
    title: str
    build: Builder
    needs: tuple[str, ...] = ("teacher",)


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
            *(*getattr(settings, training.arch), *training.options, *start),
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
    """The teacher, trained once whatever the seed; nothing if one is given."""
    if setup.own_teacher is not None:
        return []
    return train(setup, row, 1, Training("gold", "teacher", schedule=()))


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


def finetune(setup: Setup, row: str, seed: int, start: Path) -> list[Stage]:
    """More distillation of a checkpoint's model."""
    settings = setup.settings
    folder = setup.folder(row, seed)
    criterion, loss_settings, _ = LOSSES["distil"]
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
            *(*settings.student, *settings.finetune, "--finetune-from-model", str(start)),
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


ROWS = (
    Row("teacher", "Teacher", build_teacher, needs=()),
    Row("scratch", "Same size, from scratch", student("gold", "plain"), needs=()),
    Row("kd", "Same size, distilled", student("distil", "plain")),
    Row("pkd", "Patient-KD", student("patient", "plain")),
    Row("can", "CAN", student("gold", "can"), needs=()),
    Row("deep_shallow", "Deep-shallow", student("gold", "deep"), needs=()),
    Row("pet", "PET", warmed_up("pet")),
    Row("pet_patient", "PET, patient distillation", warmed_up("pet", "patient")),
    Row("pet_sampled", "PET, heads sampled", sampled),
    Row("pet_long", "PET, trained as long as the sampled one", longer, needs=("teacher", "pet")),
    Row("pet_qk", "PET, decoder shares Q-K", warmed_up("pet", options=("--decoder-pairs", "qk"))),
    Row("pet_kv", "PET, decoder shares K-V", warmed_up("pet", options=("--decoder-pairs", "kv"))),
    Row("pet_no_warmup", "PET, no simplified task", student("distil", "pet")),
    Row(
        "pet_project",
        "PET, simplified task by projection",
        warmed_up("pet", warmup=("--simplified-head", "project")),
    ),
    Row(
        "pet_replace",
        "PET, simplified task by another output layer",
        warmed_up("pet", warmup=("--simplified-head", "replace")),
    ),
    Row(
        "scratch_seqkd",
        "Same size, sequence-level KD",
        student("gold", "plain", on_teacher_text=True),
    ),
    Row(
        "speed_seqkd",
        "Same speed, sequence-level KD",
        student("gold", "speed", on_teacher_text=True),
    ),
    Row(
        "deep_shallow_seqkd",
        "Deep-shallow, sequence-level KD",
        student("gold", "deep", on_teacher_text=True),
    ),
    Row("pet_seqkd", "PET, sequence-level KD", warmed_up("pet", on_teacher_text=True)),
)
BY_NAME = {row.name: row for row in ROWS}

# names that stand for several rows: the tables of PET's thesis
GROUPS = {
    "default": ("teacher", "scratch", "pkd", "can", "pet", "pet_patient"),
    "table5": ("teacher", "pet", "pet_qk", "pet_kv"),
    "table6": ("teacher", "pet", "pet_no_warmup"),
    "table7": ("teacher", "pet", "pet_project", "pet_replace"),
    "table8": ("teacher", "pet", "pet_sampled", "pet_long"),
    "all": tuple(row.name for row in ROWS),
}


def choose_rows(names: Sequence[str], runs: Path) -> list[str]:
    """The rows that the names mean, in the order of the report.

    Args:
        names: of rows or GROUPS; `finished`: the rows of which `runs` holds a finished model.
    Raises:
        UserError: a name that means nothing.
    """
    chosen: set[str] = set()
    for name in names:
        if name == "finished":
            chosen |= finished_rows(runs)
        elif name in GROUPS:
            chosen |= set(GROUPS[name])
        elif name in BY_NAME:
            chosen.add(name)
        else:
            raise UserError(
                f"--rows {name}: there is no such row; give some of {', '.join(BY_NAME)}, or a "
                f"group: {', '.join(GROUPS)}, finished"
            )
    return [row.name for row in ROWS if row.name in chosen]


def finished_rows(runs: Path) -> set[str]:
    """The rows with a finished training in `runs`."""
    return {row.name for row in ROWS if any(map(_is_finished, _run_folders(runs, row.name)))}


def _run_folders(runs: Path, row: str) -> list[Path]:
    return [runs / row] if row == "teacher" else sorted(runs.glob(f"{row}.seed[0-9]*"))


def _is_finished(folder: Path) -> bool:
    record = read_record(folder / BEST)
    return (folder / BEST).exists() and (record is None or record.finished)


def build_stages(
    setup: Setup, rows: Sequence[str], seeds: Sequence[int], beams: Sequence[int], repeats: int
) -> list[Stage]:
    """All stages of the rows: trainings, translations, the report without its options."""
    wanted = [row for row in ROWS if row.name in _with_needs(rows)]
    trainings = [
        stage for seed in seeds for row in wanted for stage in row.build(setup, row.name, seed)
    ]
    checkpoints = _checkpoints(setup, rows, seeds)
    return [*merge(trainings), *translations(setup, checkpoints, beams, repeats)]


def _with_needs(rows: Sequence[str]) -> set[str]:
    return {name for row in rows for name in (row, *BY_NAME[row].needs)}


def _checkpoints(setup: Setup, rows: Sequence[str], seeds: Sequence[int]) -> dict[Path, Path]:
    """The checkpoint of each run's folder, teacher first."""
    checkpoints = {}
    for seed in seeds:
        for row in rows:
            folder = setup.folder(row, seed)
            checkpoints[folder] = setup.teacher if row == "teacher" else folder / BEST
    return checkpoints


def translations(
    setup: Setup, checkpoints: dict[Path, Path], beams: Sequence[int], repeats: int
) -> list[Stage]:
    """fairseq-generate for the runs in turn, so that their speeds compare."""
    return [
        Stage(
            f"{folder.name}/beam{beam}.{repeat}",
            ("generate",),
            command=generate_command(setup, checkpoint, beam),
            product=folder / f"generate.beam{beam}.{repeat}.txt",
            inputs=(setup.bin, checkpoint),
            kind=Kind.STDOUT,
            alone=True,
        )
        for repeat in range(1, repeats + 1)
        for beam in beams
        for folder, checkpoint in checkpoints.items()
    ]


def report_stage(
    setup: Setup, rows: Sequence[str], seeds: Sequence[int], options: Options
) -> Stage:
    """The report on every run that is there, trained now or before, with its rows' titles."""
    folders = {folder for row in rows for seed in seeds for folder in [setup.folder(row, seed)]}
    texts, order = [], []
    for row in ROWS:
        own = {setup.folder(row.name, seed) for seed in seeds} & folders
        own |= {folder for folder in _run_folders(setup.runs, row.name) if folder.is_dir()}
        if own:
            order.append(row.name)
            texts += [(folder / "name.txt", row.title) for folder in sorted(own)]
    return Stage(
        "report",
        ("report",),
        command=(
            *("pet-fairseq", "report", str(setup.runs), "--reference", str(setup.reference)),
            *options,
        ),
        product=setup.runs / "report.md",
        inputs=(setup.reference,),
        always=True,
        texts=(*texts, (setup.runs / "order.txt", "\n".join(order))),
    )
