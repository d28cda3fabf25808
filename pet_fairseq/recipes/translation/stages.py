"""The stages of the recipes that compress a translation model, from training to report."""

from collections.abc import Sequence
from pathlib import Path

from pet_fairseq.recipes.translation.rows import BY_NAME, ROWS, run_folders
from pet_fairseq.recipes.translation.setup import Setup, generate_command, validate_command
from pet_fairseq.runner.fairseq_commands import BEST
from pet_fairseq.runner.fairseq_options import Options
from pet_fairseq.runner.pipeline import merge
from pet_fairseq.runner.stage import Kind, Stage


def build_stages(
    setup: Setup, rows: Sequence[str], seeds: Sequence[int], beams: Sequence[int], repeats: int
) -> list[Stage]:
    """All stages of the rows but the report: trainings, validations, translations."""
    wanted = [row for row in ROWS if row.name in _with_needs(rows)]
    trainings = [
        stage for seed in seeds for row in wanted for stage in row.build(setup, row.name, seed)
    ]
    checkpoints = _checkpoints(setup, rows, seeds)
    return [
        *merge(trainings),
        *validations(setup, checkpoints),
        *translations(setup, checkpoints, beams, repeats),
    ]


def _with_needs(rows: Sequence[str]) -> set[str]:
    return {name for row in rows for name in (row, *BY_NAME[row].needs)}


Checkpoints = dict[Path, list[Path]]  # by a run's folder; those of an ensemble translate together


def _checkpoints(setup: Setup, rows: Sequence[str], seeds: Sequence[int]) -> Checkpoints:
    """The checkpoints of the runs, by folder."""
    own = {"teacher": setup.teachers[:1], "ensemble": setup.teachers}
    folders = {setup.folder(row, seed): row for seed in seeds for row in rows}
    return {folder: own.get(row, [folder / BEST]) for folder, row in folders.items()}


def validations(setup: Setup, checkpoints: Checkpoints) -> list[Stage]:
    """The stages of fairseq-validate for the runs, each with its own criterion; for no ensemble."""
    single = {folder: paths[0] for folder, paths in checkpoints.items() if len(paths) == 1}
    return [
        Stage(
            f"{folder.name}/validate",
            ("validate",),
            command=validate_command(setup, checkpoint),
            product=folder / "validate.txt",
            inputs=(setup.bin, checkpoint),
            kind=Kind.STDOUT,
        )
        for folder, checkpoint in single.items()
    ]


def translations(
    setup: Setup, checkpoints: Checkpoints, beams: Sequence[int], repeats: int
) -> list[Stage]:
    """The stages of fairseq-generate for the runs, in turn, so that their speeds are comparable."""
    return [
        Stage(
            f"{folder.name}/beam{beam}.{repeat}",
            ("generate",),
            command=generate_command(setup, paths, beam),
            product=folder / f"generate.beam{beam}.{repeat}.txt",
            inputs=(setup.bin, *paths),
            kind=Kind.STDOUT,
            alone=True,
        )
        for repeat in range(1, repeats + 1)
        for beam in beams
        for folder, paths in checkpoints.items()
    ]


def report_stage(
    setup: Setup, rows: Sequence[str], seeds: Sequence[int], options: Options
) -> Stage:
    """The report on every run that exists, trained now or before, under the titles of its rows."""
    folders = {folder for row in rows for seed in seeds for folder in [setup.folder(row, seed)]}
    texts, order = [], []
    for row in ROWS:
        own = {setup.folder(row.name, seed) for seed in seeds} & folders
        own |= {folder for folder in run_folders(setup.runs, row.name) if folder.is_dir()}
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
