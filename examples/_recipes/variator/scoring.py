"""How the rows of Variator's recipes are scored."""

from collections.abc import Callable
from pathlib import Path
from typing import Optional

from pet_fairseq.runner.fairseq_commands import fairseq_generate
from pet_fairseq.runner.fairseq_options import Options
from pet_fairseq.runner.stage import PRODUCT, CommandLine, Kind, Stage

from .setup import Setup


def result_stage(setup: Setup, row: str, command: tuple[str, ...], *inputs: Path) -> Stage:
    """The stage of a `pet-fairseq score` command that writes a row's result.json."""
    out = setup.runs / row / "result.json"
    words: CommandLine = ("pet-fairseq", "score", *command, "--out", PRODUCT)
    return Stage(f"{row}/result", ("evaluate",), words, out, inputs)


def by_classes(setup: Setup, row: str, positive_class: Optional[str] = None) -> list[Stage]:
    """Score a classifier by its accuracy, and by F1 and Matthews' correlation of a class."""
    best = setup.best(row)
    command: tuple[str, ...] = ("classes", str(best), str(setup.data))
    command += ("--device", setup.device.name)
    if positive_class is not None:
        command += ("--positive-class", positive_class)
    return [result_stage(setup, row, command, best, setup.data, setup.best("backbone"))]


def by_generation(
    score: tuple[str, ...], truth: Path, options: Options
) -> Callable[[Setup, str], list[Stage]]:
    """Score what a model generates for the test set.

    Args:
        score: the words of a `pet-fairseq score` command: `bleu`, `accuracy` or `squad`.
        truth: the file to compare with. options: of fairseq-generate.
    """

    def stages(setup: Setup, row: str) -> list[Stage]:
        best, output = setup.best(row), setup.runs / row / "generate.txt"
        generate = Stage(
            f"{row}/generate",
            ("evaluate",),
            command=fairseq_generate(setup.device, setup.data, best, options),
            product=output,
            inputs=(setup.data, best, setup.best("backbone")),
            kind=Kind.STDOUT,
        )
        command = (*score, str(output), str(truth))
        return [generate, result_stage(setup, row, command, output, truth)]

    return stages
