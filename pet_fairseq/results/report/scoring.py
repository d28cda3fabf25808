"""The scores of a report's translations: BLEU and chrF, or the error rates of words and phones."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pet_fairseq.results.bleu import cached_bleu, cached_chrf
from pet_fairseq.results.word_errors import error_rates, parse_pronunciations


@dataclass(frozen=True)
class Scorer:
    """A way to score translations of one test set.

    Attributes:
        key, name: of the score that a report compares; the key stands in report.json and in the
            names of plots.
        finer_key, finer_name: of a second one, which sees parts of words.
        reference: the test set's lines as a reader sees them.
        note: how the scores are computed.
        scores: from the translations in corpus order to the score and the finer score.
    """

    key: str
    name: str
    finer_key: str
    finer_name: str
    reference: list[str]
    note: str
    scores: Callable[[list[str]], tuple[float, float]]


def bleu_scorer(reference: list[str], path: Path) -> Scorer:
    """A scorer by BLEU and chrF of a raw target text."""
    bleu, chrf = cached_bleu(reference), cached_chrf(reference)

    def scores(translations: list[str]) -> tuple[float, float]:
        finer = chrf.corpus_score(translations, None).score
        return bleu.corpus_score(translations, None).score, finer

    note = f"sacreBLEU {bleu.get_signature()}; chrF {chrf.get_signature()}"
    return Scorer("bleu", "BLEU", "chrf", "chrF", reference, note, scores)


def wer_scorer(reference: list[str], path: Path) -> Scorer:
    """A scorer by word and phone errors, of all pronunciations of a word on each line, with tabs.

    Raises:
        UserError: a pronunciation without phones.
    """
    pronunciations = parse_pronunciations(reference, path, "--reference")

    def scores(translations: list[str]) -> tuple[float, float]:
        rates = error_rates(translations, pronunciations)
        return rates.wer, rates.per

    return Scorer(
        "word_errors",
        "word errors %",
        "phone_errors",
        "phone errors %",
        reference=[" / ".join(words) for words in pronunciations],
        note="a word is right if any of its pronunciations is given; phones are compared with the "
        "nearest one",
        scores=scores,
    )


# by --score; each makes a scorer of the reference's lines and its path
SCORERS = {"bleu": bleu_scorer, "wer": wer_scorer}
