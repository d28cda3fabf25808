"""Word and phone error rates of pronunciations: of what fairseq-generate printed, or of a text."""

from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines, read_text
from pet_fairseq.results.generate_output import lines_in_order
from pet_fairseq.results.word_errors import error_rates, parse_pronunciations


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
    hypotheses = lines_in_order(read_text(output, "OUTPUT"), "D", output)
    hypotheses = hypotheses or read_lines(output, "OUTPUT")
    if len(hypotheses) != len(references):
        raise UserError(
            f"OUTPUT {output}: {len(hypotheses)} pronunciations, but {pronunciations} has "
            f"{len(references)} words; give the output for these words"
        )
    return error_rates(hypotheses, references)._asdict()
