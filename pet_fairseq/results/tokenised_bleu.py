"""BLEU of tokenised text, as papers that train with fairseq often give it.

It counts the tokens of the training data's own tokeniser, so it is no measure between data sets
that were prepared in different ways; sacreBLEU of detokenised text is.
"""

from collections.abc import Sequence

from sacrebleu.metrics import BLEU


def tokenised_bleu(hypotheses: Sequence[str], targets: Sequence[str]) -> float:
    """BLEU of as many tokenised lines: those that fairseq-generate marks with H and with T."""
    return BLEU(tokenize="none", force=True).corpus_score(hypotheses, [targets]).score
