"""ROUGE and exact matches of what fairseq-generate printed."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Optional

import regex

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines, read_text
from pet_fairseq.results.fairseq_output import check_hypotheses, numbered_lines

KINDS = ("rouge1", "rouge2", "rougeL")
# the names under which rouge-score has what files2rouge prints
FILES2ROUGE = {"files2rouge_1": "rouge1", "files2rouge_2": "rouge2", "files2rouge_l": "rougeLsum"}
# a character of a script that is written without spaces, or a word; combining marks belong to both
TOKEN = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}--\p{M}]\p{M}*"
    r"|[[\p{L}\p{M}\p{N}]--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]+",
    flags=regex.VERSION1,
)


class Tokenizer:
    """Tokenizes text of any script; rouge-score's own knows only a to z and digits.

    Characters of scripts without spaces between words, such as Chinese, are tokens of their own.
    Other tokens are words in lower case; as in rouge-score, those of more than 3 characters are
    stemmed if they are plain ASCII, so that text in ASCII has rouge-score's tokens.
    """

    def __init__(self, stemmer):
        """`stemmer` has a method `stem`, as NLTK's PorterStemmer."""
        self.stemmer = stemmer

    def tokenize(self, text: str) -> list[str]:
        tokens = TOKEN.findall(text.lower())
        return [self.stemmer.stem(t) if len(t) > 3 and t.isascii() else t for t in tokens]


def rouge_scores(output: Path, responses: Optional[Path] = None) -> dict:
    """Score responses by ROUGE, over the tokens of `Tokenizer`, and by exact matches.

    Args:
        output: made with --bpe sentencepiece or --remove-bpe, so that it has detokenised text.
        responses: a text with the right response to one prompt on each line; by default those in
            the output (its T lines).
    Returns:
        rouge1, rouge2 and rougeL, mean F-measures in percent; files2rouge_1, files2rouge_2 and
        files2rouge_l, the same of `files2rouge_scores`; accuracy, the percentage of exact matches;
        total, responses.
    Raises:
        UserError: unusable files, files of different test sets, or rouge-score is missing.
    """
    scorer = load_scorer()
    text = read_text(output, "OUTPUT")
    hypotheses, targets = (numbered_lines(text, kind) for kind in "DT")
    if responses is not None:
        targets = dict(enumerate(read_lines(responses, "--responses")))
    check_hypotheses(hypotheses, "OUTPUT", output)
    if set(hypotheses) != set(targets):
        raise UserError(
            f"OUTPUT {output}: {len(hypotheses)} answers, but {len(targets)} responses; generate "
            "again"
        )
    pairs = [(targets[i], hypothesis) for i, hypothesis in hypotheses.items()]
    exact = sum(hypothesis.strip() == target.strip() for target, hypothesis in pairs)
    return {
        **mean_f_measures(scorer, pairs),
        **files2rouge_scores(pairs),
        **{"accuracy": 100 * exact / len(pairs), "total": len(pairs)},
    }


def load_scorer():
    """The RougeScorer of KINDS over the tokens of `Tokenizer`.

    Raises:
        UserError: rouge-score is missing.
    """
    try:
        from nltk.stem.porter import PorterStemmer
        from rouge_score.rouge_scorer import RougeScorer
    except ModuleNotFoundError as error:
        raise UserError("rouge-score is missing; pip install 'pet-fairseq[rouge]'") from error
    return RougeScorer(KINDS, tokenizer=Tokenizer(PorterStemmer()))


def f_measures(scorer, pairs: Iterable[tuple[str, str]]) -> dict[str, list[float]]:
    """The F-measure in percent of each pair, by the kinds that a RougeScorer has.

    Args:
        pairs: the right response and the one to be scored.
    """
    scores = [scorer.score(*pair) for pair in pairs]
    return {kind: [100 * score[kind].fmeasure for score in scores] for kind in scorer.rouge_types}


def mean_f_measures(scorer, pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """The means of `f_measures`."""
    return {kind: fmean(values) for kind, values in f_measures(scorer, pairs).items()}


def files2rouge_scores(pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """ROUGE as files2rouge has it by default, as far as rouge-score computes it.

    Words are those of rouge-score, letters a to z and digits, stemmed. A sentence ends at each
    blank before a full stop, and ROUGE-L is that of summaries: the union of what each sentence of
    the right response has in common with all sentences of the other.

    Args:
        pairs: as for `mean_f_measures`.
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(tuple(FILES2ROUGE.values()), use_stemmer=True)
    means = mean_f_measures(scorer, [(a_line_each(a), a_line_each(b)) for a, b in pairs])
    return {name: means[kind] for name, kind in FILES2ROUGE.items()}


def a_line_each(text: str) -> str:
    """The text with its sentences on lines of their own, split where files2rouge splits it."""
    return " .\n".join(text.split(" ."))
