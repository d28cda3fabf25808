"""The fairseq commands that all recipes use."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Union

from pet_fairseq.runner.device import Device
from pet_fairseq.runner.stage import PRODUCT, USER_DIR, Stage, Word

BEST = "checkpoint_best.pt"
# without it fairseq drops the last sentences if they do not fill a batch of 8
ALL_SENTENCES = ("--required-batch-size-multiple", "1")


def fairseq_train(
    device: Device, data: Union[Path, str], folder: Path, options: Sequence[Word]
) -> tuple[Word, ...]:
    """The command of fairseq-train into a folder, with a log that the runner can read.

    Args:
        data: a folder, or several `a:b`, of which each epoch reads the next one.
    """
    return (
        *device.train,
        *(str(data), "--user-dir", USER_DIR, "--save-dir", str(folder)),
        *("--log-format", "simple", "--log-interval", "50", "--no-epoch-checkpoints"),
        *(*ALL_SENTENCES, *device.training_options, *options),
    )


def fairseq_generate(
    device: Device, data: Path, checkpoint: Union[Path, str], options: Sequence[Word]
) -> tuple[Word, ...]:
    """The command of fairseq-generate for the test set, by a checkpoint or an ensemble `a.pt:b.pt`.

    The options may name another set.
    """
    return (
        *("fairseq-generate", str(data), "--user-dir", USER_DIR, "--path", str(checkpoint)),
        *(*ALL_SENTENCES, *device.generation_options, *options),
    )


def fairseq_validate(
    device: Device, data: Path, checkpoint: Path, options: Sequence[Word]
) -> tuple[Word, ...]:
    """The command of fairseq-validate for the validation set; the options may name another set."""
    return (
        *("fairseq-validate", str(data), "--user-dir", USER_DIR, "--path", str(checkpoint)),
        *(*ALL_SENTENCES, *device.generation_options, *options),
    )


def use_checkpoint(name: str, group: str, checkpoint: Path, product: Path, runs: Path) -> Stage:
    """A link to a checkpoint in place of a training; to one within `runs`, it survives a move.

    What the command says must not depend on whether `checkpoint` is there yet, or is a link itself.
    """
    inside = checkpoint.is_relative_to(runs)
    target = os.path.relpath(checkpoint, product.parent) if inside else checkpoint.resolve()
    command = ("ln", "-sf", str(target), PRODUCT)
    return Stage(name, (group,), command, product, inputs=(checkpoint,))
