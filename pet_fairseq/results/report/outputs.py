"""Outputs of fairseq-generate: generate.beam<B>.<k>.txt, where k counts repeats."""

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text
from pet_fairseq.results.generate_output import lines_in_order

NAME = re.compile(r"generate\.beam(\d+)\.(\d+)\.txt")
SPEED = re.compile(r"Translated [\d,]+ sentences .*\((\d[\d,]*(?:\.\d+)?) sentences/s")


class Output(NamedTuple):
    """What one run of fairseq-generate printed, in corpus order."""

    hypotheses: list[str]
    targets: list[str]  # tokenised, with a mark in place of unknown words; [] with --quiet
    sentences_per_second: float
    sources: list[str]  # tokenised; [] with --quiet
    tokenised: list[str]  # the hypotheses before they were detokenised; [] with --quiet


def output_key(name: str) -> tuple[int, int]:
    """The beam size and the repeat in an output's name, for sorting."""
    beam, repeat = NAME.findall(name)[0]
    return int(beam), int(repeat)


def find_outputs(folder: Path) -> dict[int, list[Path]]:
    """The paths of a run's outputs by beam size; beam sizes and repeats are in increasing order."""
    outputs = defaultdict(list)
    names = (path.name for path in folder.iterdir() if NAME.fullmatch(path.name))
    for name in sorted(names, key=output_key):
        outputs[output_key(name)[0]].append(folder / name)
    return dict(outputs)


def read_output(path: Path) -> Output:
    """Read one output.

    Raises:
        UserError: it is no text, it is unfinished, or a sentence is missing.
    """
    text = read_text(path, "output")
    speed = SPEED.search(text)
    if speed is None:
        raise UserError(f"{path}: has no speed line, unfinished; delete it and generate again")
    hypotheses, targets, sources, tokenised = (lines_in_order(text, kind, path) for kind in "DTSH")
    return Output(hypotheses, targets, float(speed[1].replace(",", "")), sources, tokenised)
