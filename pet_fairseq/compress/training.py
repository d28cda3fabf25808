"""The settings of a student's training, by the size of the student and of the training data.

The rules reproduce the tested settings of the recipes
(pet_fairseq/recipes/translation/sizes.py) approximately.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from fairseq.data import LanguagePairDataset

from pet_fairseq.runner.device import Device
from pet_fairseq.runner.options import AUTO, BETAS, Options, words
from pet_fairseq.runner.stage import Output, Word

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
DISTILLATION = words("--label-smoothing 0.1 --distillation-alpha 0.9 --distillation-temperature 1")


@dataclass(frozen=True)
class Corpus:
    """The size of a training set.

    Attributes:
        pairs: of sentences.
        tokens: of the longer side of each pair, which fills the batches.
        target_tokens: of the target side.
    """

    pairs: int
    tokens: int
    target_tokens: int

    @classmethod
    def of(cls, dataset: LanguagePairDataset) -> "Corpus":
        longer = [max(sizes) for sizes in zip(dataset.src_sizes, dataset.tgt_sizes)]
        return cls(len(dataset), int(sum(longer)), int(sum(dataset.tgt_sizes)))


@dataclass(frozen=True)
class Budget:
    """How long a student is trained: a number of updates, or as many as fit into some hours.

    Attributes:
        updates: of the distillation; None if `hours` decide.
        log: of the short training that shows how many updates fit into `hours`.
        hours: for all trainings together.
        trainings: the updates of all trainings together, over those of the distillation.
    """

    updates: Optional[int] = None
    log: Optional[Path] = None
    hours: float = 0
    trainings: float = 1

    def share(self, share: float = 1, at_least: int = 1) -> Word:
        """A number of updates as a word of a command; `share` is over those of the distillation."""
        if self.updates is not None:
            return str(max(at_least, round(share * self.updates)))
        scaled = f"{share / self.trainings:.4f}"
        words = ("updates-for", str(self.log), "--hours", f"{self.hours:g}", "--share", scaled)
        return Output(words if at_least == 1 else (*words, "--at-least", str(at_least)))

    def schedule(self, share: float = 1) -> tuple[Word, ...]:
        """Options for a training of so many updates; the learning rate rises, then falls to 0."""
        total, rise = self.share(share), self.share(LR_WARMUP * share)
        return ("--max-update", total, "--total-num-update", total, "--warmup-updates", rise)

    def describe(self, per_epoch: int, max_tokens: int, devices: int) -> str:
        """The length of the training in words; each device has a batch of its own."""
        if self.updates is None:
            length = f"as many updates as fit into {self.hours:g} hours, an epoch has {per_epoch:,}"
        else:
            epochs = f"{self.updates / per_epoch:.3g}"
            length = f"{epochs} epochs of {per_epoch:,} updates, {self.updates:,} in all"
        batches = f"{max_tokens:,} tokens a batch" + (f" on {devices} GPUs" if devices > 1 else "")
        return (
            f"training: {length}; {batches}; {PATIENCE} validations without a better one end it "
            "sooner"
        )

    def has_validations_within(self, per_epoch: int, share: float = 1) -> bool:
        """Whether epochs of so many updates are too long for a validation after each of them."""
        if self.updates is None:
            return per_epoch > LONGEST_EPOCH
        return per_epoch > max(UPDATES_BETWEEN_VALIDATIONS, share * self.updates / VALIDATIONS)

    def validation(self, per_epoch: int, share: float = 1) -> tuple[Word, ...]:
        """Options that validate and save often enough, but not after every few updates.

        That is after one or several epochs, or else VALIDATIONS times in the training.
        """
        every = str(max(1, UPDATES_BETWEEN_VALIDATIONS // per_epoch))
        options: tuple[Word, ...] = ("--validate-interval", every, "--save-interval", every)
        if self.has_validations_within(per_epoch, share):
            updates = self.share(share / VALIDATIONS, UPDATES_BETWEEN_VALIDATIONS)
            options += ("--save-interval-updates", updates, "--keep-interval-updates", "1")
        return (*options, "--patience", str(PATIENCE))


def batch_tokens(device: Device, max_positions: tuple[int, int]) -> int:
    """The number of tokens in a batch, at least that of the longest sentence.

    On a CPU small batches take little more time a token, and students want many updates
    (docs/results/bytes.md).
    """
    return max(1_000 if device.name == "cpu" else 8_192, *max_positions)


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
    """Options of one of the three criteria that learn from the teacher.

    Args:
        cache_mb: None for a teacher whose features cannot be kept.
    """
    options = ("--criterion", name, "--teacher-path", str(teacher))
    cache = () if cache_mb is None else ("--teacher-cache-mb", str(cache_mb))
    return {
        "pet_simplified_task": (*options, *AUTO, *cache),
        "pet_distillation": (*options, *DISTILLATION, *cache),
        "patient_kd": (*options, *DISTILLATION),
    }[name]
