"""Outputs of fairseq-generate: generate.beam<B>.<k>.txt, where k counts repeats."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

from pet_fairseq.errors import UserError

NAME = re.compile(r"generate\.beam(\d+)\.(\d+)\.txt")
LINE = {  # group 1 is the sentence's number, group 2 its text
    "D": re.compile(r"^D-(\d+)\t[^\t\n]*\t(.*)$", re.MULTILINE),
    "T": re.compile(r"^T-(\d+)\t(.*)$", re.MULTILINE),
}
SPEED = re.compile(r"Translated [\d,]+ sentences .*\(([\d.,]+) sentences/s")


class Output(NamedTuple):
    """What one run of fairseq-generate printed, in corpus order."""

    hypotheses: List[str]
    targets: List[str]  # tokenised, without the references' unknown words; [] with --quiet
    sentences_per_second: float


def output_key(name: str) -> Tuple[int, int]:
    """(beam, repeat) from an output's name, for sorting."""
    match = NAME.fullmatch(name)
    return int(match[1]), int(match[2])


def find_outputs(folder: Path) -> Dict[int, List[Path]]:
    """A run's outputs by beam size, both in increasing order, the repeats too."""
    found = defaultdict(list)
    names = (path.name for path in folder.iterdir() if NAME.fullmatch(path.name))
    for name in sorted(names, key=output_key):
        found[output_key(name)[0]].append(folder / name)
    return dict(found)


def read_output(path: Path) -> Output:
    """Read one output.

    Raises:
        UserError: not text, unfinished, or a sentence is missing.
    """
    text = read_text(path, "output")
    speed = SPEED.search(text)
    if speed is None:
        raise UserError(f"{path}: has no speed line, unfinished; delete it and generate again")
    hypotheses, targets = (_lines(text, kind, path) for kind in "DT")
    return Output(hypotheses, targets, float(speed[1].replace(",", "")))


def read_hypotheses(path: Path) -> List[str]:
    """Detokenised hypotheses of an output, in corpus order; its log lines may be missing.

    Raises:
        UserError: not text, or a sentence is missing.
    """
    return _lines(read_text(path, "output"), "D", path)


def _lines(text: str, kind: str, path: Path) -> List[str]:
    """The D (detokenised hypothesis) or T (target) lines, in corpus order.

    Of several hypotheses for a sentence (--nbest) the first, which is the best.
    """
    found: Dict[int, str] = {}
    for number, line in LINE[kind].findall(text):
        found.setdefault(int(number), line)
    for i in range(len(found)):
        if i not in found:
            raise UserError(f"{path}: sentence {i} is missing; delete the file and generate again")
    return [found[i] for i in range(len(found))]


def read_text(path: Path, what: str) -> str:
    """A file's text; `what` says in the error message what the file is.

    Raises:
        UserError: not UTF-8, as a file that was cut inside a character.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{what} {path}: not UTF-8 at byte {error.start}, cut short or in another encoding; "
            "make it again"
        ) from error
