"""BLEU and chrF of translations, by sacreBLEU, and whether they differ between systems."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Union

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines, read_text
from pet_fairseq.results.fairseq_output import lines_in_order, read_translations
from pet_fairseq.statistics import Difference, bootstrap

BLEU_TEST_SAMPLES = 1000


def cached_bleu(reference: list[str]) -> BLEU:
    """sacreBLEU with its defaults (13a tokens, mixed case) against one reference."""
    return BLEU(references=[reference])


def cached_chrf(reference: list[str]) -> CHRF:
    """sacreBLEU's chrF with its defaults (chrF2) against one reference."""
    return CHRF(references=[reference])


def tokenised_bleu(hypotheses: Sequence[str], targets: Sequence[str]) -> float:
    """BLEU of tokenised lines, as papers that train with fairseq often give it.

    It counts the tokens of the training data's own tokeniser, so it is no measure between data sets
    that were prepared in different ways; sacreBLEU of detokenised text is.

    Args:
        hypotheses, targets: as many lines, those that fairseq-generate marks with H and with T.
    """
    return BLEU(tokenize="none", force=True).corpus_score(hypotheses, [targets]).score


def score_difference(
    metric: Union[BLEU, CHRF], ours: Sequence[str], theirs: Sequence[str]
) -> Difference:
    """The score of `ours` minus that of `theirs` on a test set, with its 95% interval.

    A paired bootstrap: the score is computed anew of as many sentences as the set has, which are
    drawn with replacement, the same ones for both (Koehn 2004).

    Args:
        metric: with the references. ours, theirs: translations of the same sentences.
    """
    return mean_score_difference(metric, [(ours, theirs)])


def mean_score_difference(
    metric: Union[BLEU, CHRF], seeds: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> Difference:
    """The mean over seeds of `score_difference`; sentences are drawn once for all seeds.

    The interval is that of other sentences for these trainings, not of other trainings.

    Args:
        seeds: for each, translations of ours and of theirs, all of the same sentences.
    """
    # counts of each sentence, whose sums are those of a corpus: sacreBLEU's own tests use them so
    counts = [
        [np.array(metric._extract_corpus_statistics(each, None)) for each in pair] for pair in seeds
    ]

    def score(counted: np.ndarray, drawn: np.ndarray) -> float:
        return metric._compute_score_from_stats(counted[drawn].sum(axis=0).tolist()).score

    def difference(drawn: np.ndarray) -> float:
        return fmean(score(ours, drawn) - score(theirs, drawn) for ours, theirs in counts)

    return bootstrap(difference, len(seeds[0][0]), BLEU_TEST_SAMPLES)


def bleu_p_values(
    baseline: list[str], others: dict[str, list[str]], reference: list[str]
) -> dict[str, float]:
    """P-values of paired bootstrap tests of BLEU, of other systems against a baseline, by name.

    sacreBLEU's test: the share of samples of the test set in which the difference, whichever is
    better, is larger by that of the whole set than it is on average over the samples; the whole set
    counts as one more of these.

    Args:
        baseline, others: translations of the reference's lines; at least one other system.
    """
    systems: list[Any] = [("baseline", baseline), *others.items()]
    metrics, samples = {"BLEU": BLEU()}, BLEU_TEST_SAMPLES
    test = PairedTest(systems, metrics, [reference], test_type="bs", n_samples=samples)
    results: dict[str, list[Any]] = test()[1]  # of the systems, and their names
    return {name: result.p_value for name, result in zip(others, results["BLEU"][1:])}


def bleu_scores(output: Path, reference: Path) -> dict:
    """The scores of translations.

    Args:
        output: as in `read_translations`.
        reference: the raw target text of the test set.
    Returns:
        bleu and chrf with sacreBLEU's defaults, and their signatures; total, sentences;
        tokenised_bleu, if the output has tokenised text, too.
    Raises:
        UserError: unusable files, or files of different test sets.
    """
    text = read_text(output, "OUTPUT")
    tokenised, targets = (lines_in_order(text, kind, output) for kind in "HT")
    hypotheses, lines = read_translations(output), read_lines(reference, "REFERENCE")
    if len(hypotheses) != len(lines):
        raise UserError(
            f"OUTPUT {output}: {len(hypotheses)} sentences, but {reference} has {len(lines)}; give "
            "the output for this test set"
        )
    if not any(lines):
        raise UserError(f"REFERENCE {reference}: is empty; give the test set's target text")
    bleu, chrf = cached_bleu(lines), cached_chrf(lines)
    scores: dict = {
        "bleu": bleu.corpus_score(hypotheses, None).score,
        "signature": str(bleu.get_signature()),
        "chrf": chrf.corpus_score(hypotheses, None).score,
        "chrf_signature": str(chrf.get_signature()),
        "total": len(lines),
    }
    if len(tokenised) == len(targets) == len(lines):
        scores["tokenised_bleu"] = tokenised_bleu(tokenised, targets)
    return scores
