"""Word and phone error rates of pronunciations, of which a word may have several right ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines
from pet_fairseq.results.fairseq_output import read_translations


class ErrorRates(NamedTuple):
    """Errors in percent, and counts of words."""

    wer: float  # of the words: those whose pronunciation is none of the right ones
    per: float  # of the phones: edits to the nearest right pronunciation
    right: int
    total: int


def error_rates(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> ErrorRates:
    """How often words and their phones are wrong.

    Edits are phones that are inserted, deleted or replaced. They are counted against the word's
    nearest pronunciation, the first one of several that are equally near, and divided by the number
    of that pronunciation's phones, both summed over the words.

    Args:
        hypotheses: a pronunciation for each word, phones between blanks; it may be empty.
        references: the right pronunciations of each word, one or more, none of them empty.
    Raises:
        ValueError: no words, or pronunciations of other words.
        UserError: rapidfuzz is missing.
    """
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} words")
    try:
        from rapidfuzz.distance import Levenshtein
    except ModuleNotFoundError as error:
        raise UserError("rapidfuzz is missing; pip install 'pet-fairseq[wer]'") from error
    right = edits = phones = 0
    for hypothesis, pronunciations in zip(hypotheses, references):
        given, wanted = hypothesis.split(), [spoken.split() for spoken in pronunciations]
        distances = [Levenshtein.distance(given, spoken) for spoken in wanted]
        nearest = min(distances)
        right += nearest == 0
        edits += nearest
        phones += len(wanted[distances.index(nearest)])
    total = len(references)
    return ErrorRates(100 * (total - right) / total, 100 * edits / phones, right, total)


def parse_pronunciations(lines: Sequence[str], path: Path, option: str) -> list[list[str]]:
    """The right pronunciations of each word, of a line for each word with tabs between them.

    Args:
        path, option: name the file in the error.
    Raises:
        UserError: a pronunciation without phones.
    """
    references = [line.split("\t") for line in lines]
    for number, pronunciations in enumerate(references, 1):
        if not all(map(str.strip, pronunciations)):
            raise UserError(
                f"{option} {path}: line {number} has a pronunciation without phones; give phones "
                "between blanks, and pronunciations between tabs"
            )
    return references


def wer_scores(output: Path, pronunciations: Path) -> dict:
    """The error rates of pronunciations.

    Args:
        output: what fairseq-generate printed, or a pronunciation on each line, phones between
            blanks.
        pronunciations: the right ones of a word on each line, between tabs.
    Returns:
        wer and per, percent; right and total, words.
    Raises:
        UserError: unusable files, files of different words, or rapidfuzz is missing.
    """
    option = "PRONUNCIATIONS"
    lines = read_lines(pronunciations, option)
    references = parse_pronunciations(lines, pronunciations, option)
    hypotheses = read_translations(output)
    if len(hypotheses) != len(references):
        raise UserError(
            f"OUTPUT {output}: {len(hypotheses)} pronunciations, but {pronunciations} has "
            f"{len(references)} words; give the output for these words"
        )
    return error_rates(hypotheses, references)._asdict()
