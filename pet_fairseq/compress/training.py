"""How a student is trained: the methods, how long, and with which settings.

The rules reproduce the tested settings of the recipes
(pet_fairseq/recipes/translation/demo_and_small_sizes.yaml) approximately. Nothing here loads torch,
so that `--help` can show the defaults at once.
"""

import math
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from pet_fairseq.errors import UserError
from pet_fairseq.results.fairseq_output import NUMBER
from pet_fairseq.runner.device import Device
from pet_fairseq.runner.fairseq_options import AUTO, BETAS, PRE_NORM, Options, words
from pet_fairseq.runner.stage import Output, Word

if TYPE_CHECKING:
    from fairseq.data import LanguagePairDataset

MOST_EPOCHS = 50  # students still learn from their teacher after 15 (docs/results/bytes.md)
SMALL_TEXT = 1_000_000  # tokens
FEWEST_UPDATES = 1_000
VALIDATIONS = 50  # in a training whose epochs are too long for one after each
PATIENCE = 10  # validations without an improvement
UPDATES_BETWEEN_VALIDATIONS = 100  # or more
LONGEST_EPOCH = 4_000  # updates; between validations if the number of updates is not known yet
TIMED_UPDATES = 100
CACHE_LIMIT_MB = 2_000
TASK_WARMUP = 0.1  # the simplified task's updates, as a share of the distillation's
LR_WARMUP = 0.125  # the share of a training's updates in which the learning rate rises
COMMON = (
    *("--optimizer", "adam", *BETAS, "--weight-decay", "0.0001", "--dropout", "0"),
    *("--lr-scheduler", "polynomial_decay"),
)
CROSS_ENTROPY = "label_smoothed_cross_entropy"
DISTILLATION = words("--label-smoothing 0.1 --distillation-alpha 0.9 --distillation-temperature 1")
FIGURES = {
    name: re.compile(rf"train_inner .*\b{name}={NUMBER}") for name in ("num_updates", "wall", "ups")
}
FEWEST_IN_HOURS = 100  # updates; fewer are not worth a training


# --- methods --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """A way to train a student.

    Attributes:
        layers: the fewest that encoder and decoder may have.
        criterion: of its training, after the simplified task if `warms_up`.
        more_layers: how many to add to these if the student would be wider than its teacher.
        rate: the default size, in percent of the teacher's layer parameters.
    """

    arch: str
    layers: tuple[int, int]
    criterion: str
    warms_up: bool = False
    more_layers: tuple[int, int] = (2, 2)
    rate: float = 10.0


METHODS = {
    "distil": Method("transformer", (2, 2), "pet_distillation"),
    # as large as the fastest student in docs/results/bytes.md that loses nothing
    "deep-shallow": Method(
        "transformer", (6, 1), "pet_distillation", more_layers=(2, 0), rate=18.0
    ),
    "pet": Method("pet_transformer", (4, 4), "pet_distillation", warms_up=True),
    "pet-patient": Method("pet_transformer", (4, 4), "patient_kd", warms_up=True),
}


@dataclass(frozen=True)
class StudentForm:
    """A kind of Transformer that a student may be.

    Attributes:
        options: of its model. engines: what it is exported to.
        embedding_options: what it shares if its teacher shares no embeddings.
        archs: its named architectures, by those of the methods; others stay as they are.
        step: widths are multiples of it.
    """

    options: Options
    engines: tuple[str, ...]
    archs: dict[str, str] = field(default_factory=dict)
    step: int = 8
    embedding_options: Options = ()


STUDENT_FORMS = {
    "pre-norm": StudentForm(PRE_NORM, ("fairseq", "ctranslate2")),
    "post-norm": StudentForm(
        (),
        ("fairseq", "ctranslate2"),
        embedding_options=("--share-decoder-input-output-embed",),  # as FSMT of transformers does
    ),
    "marian": StudentForm(
        (),
        ("marian", "ctranslate2"),
        {"transformer": "marian_student", "pet_transformer": "pet_marian_student"},
        step=64,  # for products in 8 bits
    ),
}
DEFAULT_FORM = "pre-norm"
DEFAULT_METHOD = "distil"  # the fastest one, and as good as the others in docs/results/pet.md


# --- how long -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """The size of a training set.

    Attributes:
        tokens: of the longer side of each pair, which fills the batches.
        target_tokens: of the target side.
    """

    tokens: int
    target_tokens: int

    @classmethod
    def of(cls, dataset: "LanguagePairDataset") -> "Corpus":
        longer = dataset.sizes.max(axis=1)  # of source and target
        return cls(int(longer.sum()), int(dataset.tgt_sizes.sum()))


def default_epochs(tokens: int) -> float:
    """How often a training set is read.

    MOST_EPOCHS times up to SMALL_TEXT tokens, and from there on in inverse proportion to the cube
    root of the tokens: eight times the text is read half as often, which takes four times as long.

    Args:
        tokens: of the longer side of each pair, since they fill the batches.
    """
    return MOST_EPOCHS * min(1.0, (SMALL_TEXT / tokens) ** (1 / 3))


def updates_per_epoch(tokens: int, max_tokens: int, devices: int = 1) -> int:
    """About how many updates read a training set once.

    Args:
        max_tokens: of a batch. devices: each has a batch of its own in every update.
    """
    return math.ceil(tokens / (max_tokens * devices))


def default_updates(tokens: int, max_tokens: int, devices: int = 1) -> int:
    """How many updates read a training set `default_epochs` times, at least FEWEST_UPDATES."""
    epochs = default_epochs(tokens) * updates_per_epoch(tokens, max_tokens, devices)
    return max(FEWEST_UPDATES, round(epochs))


@dataclass(frozen=True)
class Budget:
    """How long a student is trained: a number of updates, or as many as fit into some hours.

    Attributes:
        per_epoch: updates that read the training set once.
        updates: of the distillation; None if `hours` decide.
        log: of the short training that shows how many updates fit into `hours`.
        hours: for all trainings together.
        trainings: the updates of all trainings together, over those of the distillation.
        folders: of the training set; what fairseq calls an epoch reads one of them.
    """

    per_epoch: int
    updates: Optional[int] = None
    log: Optional[Path] = None
    hours: float = 0
    trainings: float = 1
    folders: int = 1

    @property
    def per_folder(self) -> float:
        """Updates that read one of the folders once, if they are of one size."""
        return self.per_epoch / self.folders

    def share(self, share: float = 1, at_least: int = 1) -> Word:
        """A number of updates as a word of a command; `share` is over those of the distillation."""
        if self.updates is not None:
            return str(max(at_least, round(share * self.updates)))
        scaled = f"{share / self.trainings:.4f}"
        command = ("updates-for", str(self.log), "--hours", f"{self.hours:g}", "--share", scaled)
        return Output(command if at_least == 1 else (*command, "--at-least", str(at_least)))

    def schedule(self, share: float = 1) -> tuple[Word, ...]:
        """Options for the length of a training; the learning rate rises, then falls to 0."""
        total, rise = self.share(share), self.share(LR_WARMUP * share)
        return ("--max-update", total, "--total-num-update", total, "--warmup-updates", rise)

    def describe(self, batch: "Batch", devices: int) -> str:
        """The length of the training in words; each device has a batch of its own."""
        if self.updates is None:
            length = f"as many updates as fit into {self.hours:g} h"
            length += f", an epoch has {self.per_epoch:,}"
        else:
            epochs = f"{self.updates / self.per_epoch:.3g}"
            length = f"{epochs} epochs of {self.per_epoch:,} updates, {self.updates:,} in all"
        parts = [f"training: {length}", batch.describe(devices)]
        if self.folders > 1:
            parts.append(f"fairseq reads one of {self.folders} folders in what it calls an epoch")
        parts.append(f"{PATIENCE} validations without a better one end it sooner")
        return "; ".join(parts)

    def has_validations_within(self, share: float = 1) -> bool:
        """Whether epochs are too long for a validation after each of them."""
        if self.updates is None:
            return self.per_folder > LONGEST_EPOCH
        limit = max(UPDATES_BETWEEN_VALIDATIONS, share * self.updates / VALIDATIONS)
        return self.per_folder > limit

    def validation(self, share: float = 1) -> tuple[Word, ...]:
        """Options that validate and save often enough, but not after every few updates.

        That is after one or several epochs, or else VALIDATIONS times in the training.
        """
        every = str(max(1, int(UPDATES_BETWEEN_VALIDATIONS / self.per_folder)))
        options: tuple[Word, ...] = ("--validate-interval", every, "--save-interval", every)
        if self.has_validations_within(share):
            updates = self.share(share / VALIDATIONS, UPDATES_BETWEEN_VALIDATIONS)
            options += ("--save-interval-updates", updates, "--keep-interval-updates", "1")
        return (*options, "--patience", str(PATIENCE))


def check_hours(hours: float) -> None:
    """Raises UserError if hours are not a finite number above 0."""
    if not 0 < hours < math.inf:
        raise UserError(f"--hours {hours:g}: give a number above 0 that is finite")


def updates_for(log: Path, hours: float, share: float, at_least: int = 1) -> int:
    """How many updates fit into a share of the hours, or `at_least` as many.

    Args:
        log: what fairseq-train printed in a short training. share: 1 for all of the hours.
    Raises:
        UserError: a log without speeds, too few hours, or endless ones.
    """
    check_hours(hours)
    text = log.read_text(encoding="utf-8", errors="replace")
    numbers, walls, speeds = (
        [float(value) for value in pattern.findall(text)] for pattern in FIGURES.values()
    )
    if len(numbers) < 2:
        raise UserError(
            f"{log}: has no speeds; give the log of a fairseq-train that printed at least two"
        )
    seconds = walls[-1] - walls[0]  # rounded to whole seconds: too inexact for a short time
    speed = (numbers[-1] - numbers[0]) / seconds if seconds >= 20 else statistics.median(speeds[1:])
    total = speed * 3600 * hours
    if total < FEWEST_IN_HOURS:
        raise UserError(
            f"--hours {hours:g}: room for {int(total)} updates at {speed:.2g} a second; give more"
        )
    return max(at_least, int(share * total))


# --- settings -------------------------------------------------------------------------------------


def batch_tokens(device: Device, max_positions: tuple[int, int]) -> int:
    """The number of tokens in a batch, at least that of the longest sentence.

    On a CPU small batches take little more time a token, and students want many updates
    (docs/results/bytes.md).
    """
    return max(1_000 if device.name == "cpu" else 8_192, *max_positions)


@dataclass(frozen=True)
class Batch:
    """What one device contributes to an update.

    Attributes:
        max_tokens: that are in memory at a time. steps: whose gradients are accumulated.
    """

    max_tokens: int
    steps: int = 1

    @property
    def tokens(self) -> int:
        return self.max_tokens * self.steps

    @property
    def options(self) -> Options:
        steps = ("--update-freq", str(self.steps)) if self.steps > 1 else ()
        return ("--max-tokens", str(self.max_tokens), *steps)

    def describe(self, devices: int) -> str:
        on_devices = f" on {devices} GPUs" if devices > 1 else ""
        in_steps = f", {self.max_tokens:,} at a time" if self.steps > 1 else ""
        return f"{self.tokens:,} tokens a batch{on_devices}{in_steps}"


def choose_batch(
    device: Device, max_positions: tuple[int, int], max_tokens: Optional[int] = None
) -> Batch:
    """The batch of a device, in as many steps as fewer tokens in memory need.

    Args:
        max_tokens: how many the user wants in memory at a time; None for the whole batch.
    Raises:
        UserError: the longest sentence is longer.
    """
    usual = batch_tokens(device, max_positions)
    if max_tokens is None:
        return Batch(usual)
    longest = max(max_positions)
    if max_tokens < longest:
        raise UserError(
            f"--max-tokens {max_tokens}: TEACHER reads sentences of up to {longest} tokens; give "
            "at least as many"
        )
    steps = math.ceil(usual / max_tokens)
    return Batch(max_tokens if steps == 1 else max(longest, math.ceil(usual / steps)), steps)


def checkpoint_bytes(parameters: int, validates_within_epochs: bool) -> int:
    """The bytes of the checkpoints that a training keeps, with the one that it is writing.

    They are the best and the last one, and one more if it validates within epochs, of 12 bytes a
    parameter: its weight and the two averages of Adam, in float32.
    """
    return (3 + validates_within_epochs) * 12 * parameters


def cache_megabytes(corpus: Corpus, teacher_width: int) -> int:
    """MiB for the teacher's features of all target tokens in float32, at most CACHE_LIMIT_MB."""
    needed = math.ceil(corpus.target_tokens * teacher_width * 4 / 2**20) + 1
    return min(needed, CACHE_LIMIT_MB)


def criterion_options(name: str, teacher: Path, cache_mb: Optional[int]) -> Options:
    """Options of a criterion: three learn from the teacher, the fourth from the text alone.

    Args:
        cache_mb: None for a teacher whose features cannot be kept.
    """
    options = ("--criterion", name, "--teacher-path", str(teacher))
    cache = () if cache_mb is None else ("--teacher-cache-mb", str(cache_mb))
    return {
        "pet_simplified_task": (*options, *AUTO, *cache),
        "pet_distillation": (*options, *DISTILLATION, *cache),
        "patient_kd": (*options, *DISTILLATION),
        CROSS_ENTROPY: ("--criterion", name, "--label-smoothing", "0.1"),
    }[name]
