"""The sacreBLEU score of what fairseq-generate printed."""

from pathlib import Path

from sacrebleu.metrics import BLEU

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines, read_text
from pet_fairseq.results.generate_output import check_hypotheses, lines_in_order
from pet_fairseq.results.tokenised_bleu import tokenised_bleu


def bleu_scores(output: Path, reference: Path) -> dict:
    """BLEU with sacreBLEU's defaults, its signature, and the number of sentences.

    If the output has tokenised text, too, also the BLEU of that.

    Args:
        output: made with --tokenizer and --remove-bpe, so that it has detokenised text.
        reference: the raw target text of the test set.
    Raises:
        UserError: unusable files, or files of different test sets.
    """
    text = read_text(output, "OUTPUT")
    hypotheses, tokenised, targets = (lines_in_order(text, kind, output) for kind in "DHT")
    lines = read_lines(reference, "REFERENCE")
    check_hypotheses(hypotheses, "OUTPUT", output)
    if len(hypotheses) != len(lines):
        raise UserError(
            f"OUTPUT {output}: {len(hypotheses)} sentences, but {reference} has {len(lines)}; give "
            "the output for this test set"
        )
    bleu = BLEU()
    score = bleu.corpus_score(hypotheses, [lines]).score
    scores: dict = {"bleu": score, "signature": str(bleu.get_signature()), "total": len(lines)}
    if len(tokenised) == len(targets) == len(lines):
        scores["tokenised_bleu"] = tokenised_bleu(tokenised, targets)
    return scores
