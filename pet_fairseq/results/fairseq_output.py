"""Reading what fairseq-generate and fairseq-validate printed."""

import re
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple, Optional

from pet_fairseq.byte_pieces import join_bytes_in_text
from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines, read_text

NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]\d+)?|inf|nan)"  # a figure in a log, which has 1e+06 for 1,000,000
LINES = {  # group 1 is the sentence's number, group 2 its text
    "D": re.compile(r"^D-(\d+)\t[^\t\n]*\t(.*)$", re.MULTILINE),  # detokenised hypotheses
    "H": re.compile(r"^H-(\d+)\t[^\t\n]*\t(.*)$", re.MULTILINE),  # hypotheses, tokenised
    "S": re.compile(r"^S-(\d+)\t(.*)$", re.MULTILINE),  # sources, tokenised
    "T": re.compile(r"^T-(\d+)\t(.*)$", re.MULTILINE),  # targets
}
SPEED = re.compile(r"Translated [\d,]+ sentences .*\((\d[\d,]*(?:\.\d+)?) sentences/s")
OUTPUT_NAME = re.compile(r"generate\.beam(\d+)\.(\d+)\.txt")
VALIDATION_NAME = "validate.txt"
VALIDATION_RESULT = re.compile(r"valid on '.*' subset \| .*")


# --- fairseq-generate -----------------------------------------------------------------------------


def numbered_lines(text: str, kind: str) -> dict[int, str]:
    """The texts of the D, H, S or T lines by the number of their sentence.

    Of several hypotheses for a sentence (--nbest) only the first, the best, is kept. Bytes have
    become characters again: fairseq puts pieces together without.
    """
    texts: dict[int, str] = {}
    for number, line in LINES[kind].findall(text):
        texts.setdefault(int(number), line)
    return {number: join_bytes_in_text(line) for number, line in texts.items()}


def lines_in_order(text: str, kind: str, path: Path) -> list[str]:
    """The texts of the D, H, S or T lines in corpus order; `path` is named in errors.

    Missing sentences at the very end cannot be noticed here: compare the number of lines.

    Raises:
        UserError: a sentence before the last one is missing.
    """
    texts = numbered_lines(text, kind)
    for i in range(len(texts)):
        if i not in texts:
            raise UserError(f"{path}: sentence {i} is missing; delete the file and generate again")
    return [texts[i] for i in range(len(texts))]


def check_hypotheses(hypotheses: Collection, option: str, path: Path) -> None:
    """Raises UserError if a file had no D lines; option: names it in the error."""
    if not hypotheses:
        raise UserError(f"{option} {path}: has no D- lines; give what fairseq-generate printed")


def read_translations(output: Path) -> list[str]:
    """The translations in what fairseq-generate printed, or in a text, a sentence a line.

    Args:
        output: made with --tokenizer and --remove-bpe, so that it has detokenised text, in D lines.
    Raises:
        UserError: its translations are tokenised only, or a sentence is missing.
    """
    text = read_text(output, "OUTPUT")
    hypotheses = lines_in_order(text, "D", output)
    if numbered_lines(text, "H"):
        check_hypotheses(hypotheses, "OUTPUT", output)
    return hypotheses or read_lines(output, "OUTPUT")


class Output(NamedTuple):
    """What one run of fairseq-generate printed, in corpus order."""

    hypotheses: list[str]
    targets: list[str]  # tokenised, with a mark in place of unknown words; [] with --quiet
    sentences_per_second: float
    sources: list[str]  # tokenised; [] with --quiet
    tokenised: list[str]  # the hypotheses before they were detokenised; [] with --quiet


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


def output_key(name: str) -> tuple[int, int]:
    """The beam size and the repeat in an output's name, for sorting."""
    beam, repeat = OUTPUT_NAME.findall(name)[0]
    return int(beam), int(repeat)


def find_outputs(folder: Path) -> dict[int, list[Path]]:
    """The paths of a run's outputs by beam size; beam sizes and repeats are in increasing order."""
    outputs = defaultdict(list)
    names = (path.name for path in folder.iterdir() if OUTPUT_NAME.fullmatch(path.name))
    for name in sorted(names, key=output_key):
        outputs[output_key(name)[0]].append(folder / name)
    return dict(outputs)


# --- fairseq-validate -----------------------------------------------------------------------------


class Validation(NamedTuple):
    """Bits per token of the validation set; None where the criterion does not log it."""

    nll: Optional[float] = None  # of the gold tokens
    kl: Optional[float] = None  # between teacher and student


NOT_VALIDATED = Validation()


def read_validation(path: Path) -> Validation:
    """Read the last result in a log.

    Raises:
        UserError: it is no text, or has no result.
    """
    results = VALIDATION_RESULT.findall(read_text(path, "validation"))
    if not results:
        raise UserError(f"{path}: no result in it, unfinished; delete it and validate again")
    return Validation(*(_figure(results[-1], name) for name in ("nll_loss", "kl")))


def read_perplexity(log: Path) -> float:
    """The last perplexity in a log.

    Raises:
        UserError: there is none.
    """
    perplexity = _last_figure(log, "ppl")
    if perplexity is None:
        raise UserError(f"--validation {log}: no perplexity in it; run fairseq-validate again")
    return perplexity


def read_length(log: Path) -> Optional[float]:
    """The mean number of tokens that a SelfCP model read, from a log; None for another model's."""
    return _last_figure(log, "read")


def _last_figure(log: Path, name: str) -> Optional[float]:
    results = VALIDATION_RESULT.findall(read_text(log, "--validation"))
    figures = [figure for result in results if (figure := _figure(result, name)) is not None]
    return figures[-1] if figures else None


def _figure(result: str, name: str) -> Optional[float]:
    """A figure of a result, by the name that stands before it; None if it is not there."""
    match = re.search(rf"\| {name} {NUMBER}(?: |$)", result)
    return float(match[1]) if match else None
