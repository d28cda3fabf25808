"""Decides by a stage's product, and the record beside it, whether to skip, resume or run it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.runner.record import differences, make_record, read_record, write_record
from pet_fairseq.runner.stage import Kind, Stage, without_options


@dataclass(frozen=True)
class RunOptions:
    """How to run stages.

    Attributes:
        jobs: stages that may run side by side.
        again: replace products that another command or other inputs made.
        adopt: accept products that have no record.
        places: folders that may be moved, by their names in records.
        environment: variables for the commands beside those of this process.
        deadline: the value of `time.monotonic()` at which the run is interrupted.
    """

    jobs: int = 1
    again: bool = False
    adopt: bool = False
    places: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    deadline: float = math.inf


class State(Enum):
    """How much of a stage's product exists."""

    MISSING = "missing"
    BEGUN = "begun"  # a training that can go on
    FINISHED = "finished"


def find_state(stage: Stage, options: RunOptions) -> State:
    """How much of a stage's product exists.

    With `again` a product of another command or of other inputs counts as missing, and so does a
    training that lacks its best checkpoint; it is removed when its stage starts. With `adopt` a
    product without a record gets one.

    Raises:
        UserError: the product was made by another command or from other inputs, it has no record,
            a training has ended and only its best checkpoint is gone, or an input is missing.
    """
    if stage.always:
        return State.MISSING
    before = read_record(stage.product)
    if before is None:
        return _find_state_without_record(stage, options)
    now = make_record(stage, options.places, before.finished)
    asked = replace(before, command=without_options(before.command, stage.free))
    changes = differences(asked, now, dict(stage.renamed))
    something_to_lose = stage.product.exists() or stage.checkpoints()
    if changes and something_to_lose and not options.again:
        raise UserError(
            f"{stage.product}: was made otherwise ({'; '.join(changes)}); give --again to replace "
            "it, or another folder"
        )
    is_gone = not stage.product.exists()
    if before.finished and is_gone and stage.checkpoints() and not options.again:
        raise UserError(
            f"{stage.product}: is gone from a training that has ended, and would be trained anew; "
            "put it back, or give --again"
        )
    if changes or (is_gone and (before.finished or options.again)):
        return State.MISSING
    if before.finished:
        return State.FINISHED
    can_go_on = stage.product.with_name("checkpoint_last.pt").exists()
    return State.BEGUN if stage.kind is Kind.TRAINING and can_go_on else State.MISSING


def _find_state_without_record(stage: Stage, options: RunOptions) -> State:
    exists = stage.product.exists()
    if exists and options.adopt:
        write_record(stage.product, make_record(stage, options.places, finished=True))
        return State.FINISHED
    if options.again or not (exists or stage.checkpoints()):
        return State.MISSING
    if not exists:
        raise UserError(
            f"{stage.product.parent}: has checkpoints without a record of how they were made, and "
            f"no {stage.product.name}; give --again to replace them, or another folder"
        )
    raise UserError(
        f"{stage.product}: has no record of how it was made; give --adopt to use it as it is, "
        "--again to replace it, or another folder"
    )
