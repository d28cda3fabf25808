"""Measuring one finished run: parameters, bytes, training time, translations and their speed.

A run is a folder with checkpoint_best.pt (and checkpoint_last.pt) from fairseq-train and the
outputs of fairseq-generate as generate.beam<B>.<k>.txt (k counts repeats). It may have the output
of fairseq-validate as validate.txt. An ensemble has its members' checkpoints in the folders seed1,
seed2, ... of its run.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError
from pet_fairseq.results.fairseq_output import (
    NOT_VALIDATED,
    VALIDATION_NAME,
    Output,
    Validation,
    find_outputs,
    read_output,
    read_validation,
)
from pet_fairseq.results.report.checkpoint import (
    UNKNOWN,
    Sizes,
    add_sizes,
    measure_sizes,
    training_seconds,
)
from pet_fairseq.results.report.scoring import Scorer


@dataclass
class Run:
    """The measurements of one run; what could not be measured is None, and named in `missing`."""

    name: str
    sizes: Sizes = UNKNOWN
    training_seconds: Optional[float] = None
    score: dict[int, float] = field(default_factory=dict)  # by beam, first repeat
    finer_score: dict[int, float] = field(default_factory=dict)  # the same
    validation: Validation = NOT_VALIDATED
    sentences_per_second: dict[int, list[float]] = field(default_factory=dict)  # by beam
    outputs: dict[int, list[Path]] = field(default_factory=dict)  # by beam
    targets: Optional[list[str]] = None  # fairseq's own T- lines, to tell test sets apart
    missing: list[str] = field(default_factory=list)
    members: int = 1  # models that translate together, whose sizes are added up

    @property
    def output_names(self) -> list[str]:
        return [path.name for paths in self.outputs.values() for path in paths]


def is_run(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    return (folder / "checkpoint_best.pt").exists() or any(folder.glob("generate.beam*.txt"))


def measure_run(folder: Path, scorer: Scorer) -> Run:
    """Measure one run, and score its translations.

    Raises:
        UserError: an unreadable checkpoint, or an output that does not fit the reference.
    """
    run = Run(folder.name, outputs=find_outputs(folder))
    _measure_checkpoints(run, folder)
    if (folder / VALIDATION_NAME).is_file():
        run.validation = read_validation(folder / VALIDATION_NAME)
    if not run.outputs:
        run.missing.append("generate.beam<B>.<k>.txt")
    for beam, paths in run.outputs.items():
        outputs = [_read_checked(run, path, len(scorer.reference)) for path in paths]
        run.score[beam], run.finer_score[beam] = scorer.scores(outputs[0].hypotheses)
        run.sentences_per_second[beam] = [output.sentences_per_second for output in outputs]
    return run


def _measure_checkpoints(run: Run, folder: Path) -> None:
    members = find_members(folder)
    run.members = len(members)
    missing = [best for best in members if not best.is_file()]
    if missing:
        run.missing += [str(best.relative_to(folder)) for best in missing]
        return
    sizes = [measure_sizes(best) for best in members]
    run.sizes = add_sizes(size for size, _ in sizes)
    for _, why in sizes:
        if why is not None:
            run.missing.append(f"active parameters (the file's tensors were counted: {why})")
    # a member may be a link to a run
    seconds = [training_seconds(best.resolve().with_name("checkpoint_last.pt")) for best in members]
    known = [time for time in seconds if time is not None]
    if len(known) < len(seconds):
        run.missing.append("checkpoint_last.pt with the training time")
    else:
        run.training_seconds = sum(known)


def find_members(folder: Path) -> list[Path]:
    """The checkpoints of a run: that of its model, or those of an ensemble's members."""
    members = sorted(folder.glob("seed[0-9]*/checkpoint_best.pt"))
    return members or [folder / "checkpoint_best.pt"]


def _read_checked(run: Run, path: Path, sentences: int) -> Output:
    """Read an output of a run, whose `targets` it sets if they are still unknown.

    Raises:
        UserError: it has not as many lines as the reference, or is of another test set than the
            run's other outputs.
    """
    output = read_output(path)
    if len(output.hypotheses) != sentences:
        raise UserError(
            f"{path}: {len(output.hypotheses)} translations, but the reference has {sentences} "
            "lines; give the reference of this test set, and generate without --quiet and with "
            "--required-batch-size-multiple 1"
        )
    if output.targets and run.targets and output.targets != run.targets:
        raise UserError(
            f"{path}: another test set than in {run.output_names[0]}; delete the wrong one and "
            "generate again"
        )
    run.targets = run.targets or output.targets or None
    return output
