"""The scores of a report's translations: BLEU and chrF, or the error rates of words and phones."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pet_fairseq.results.bleu import cached_bleu, cached_chrf
from pet_fairseq.results.word_errors import error_rates, parse_pronunciations


class Scorer(NamedTuple):
    """What scores translations of one test set.

    Attributes:
        scores: from the translations in corpus order to the score and the finer score.
        reference: the test set's lines as a reader sees them.
        note: how the scores are computed.
    """

    scores: Callable[[list[str]], tuple[float, float]]
    reference: list[str]
    note: str


@dataclass(frozen=True)
class Scoring:
    """A way to score translations.

    Attributes:
        key, name: of the score that a report compares; the key stands in report.json and in the
            names of plots.
        finer_key, finer_name: of a second one, which sees parts of words.
        scorer: makes a scorer of the reference's lines and its path.
    """

    key: str
    name: str
    finer_key: str
    finer_name: str
    scorer: Callable[[list[str], Path], Scorer]


def bleu_scorer(reference: list[str], path: Path) -> Scorer:
    bleu, chrf = cached_bleu(reference), cached_chrf(reference)

    def scores(translations: list[str]) -> tuple[float, float]:
        metrics = (bleu, chrf)
        first, second = (metric.corpus_score(translations, None).score for metric in metrics)
        return first, second

    note = f"sacreBLEU {bleu.get_signature()}; chrF {chrf.get_signature()}"
    return Scorer(scores, reference, note)


def wer_scorer(reference: list[str], path: Path) -> Scorer:
    """Makes a scorer of a file that has all pronunciations of a word on each line, between tabs.

    Raises:
        UserError: a pronunciation without phones.
    """
    pronunciations = parse_pronunciations(reference, path, "--reference")

    def scores(translations: list[str]) -> tuple[float, float]:
        rates = error_rates(translations, pronunciations)
        return rates.wer, rates.per

    return Scorer(
        scores,
        [" / ".join(words) for words in pronunciations],
        "a word is right if any of its pronunciations is given; phones are compared with the "
        "nearest one",
    )


BLEU_AND_CHRF = Scoring("bleu", "BLEU", "chrf", "chrF", bleu_scorer)
SCORINGS = {
    "bleu": BLEU_AND_CHRF,
    "wer": Scoring(
        *("word_errors", "word errors %", "phone_errors", "phone errors %", wer_scorer),
    ),
}
