"""Scores of answers that fairseq-generate printed: accuracy, or SQuAD's exact match and F1.

The output is made without --tokenizer, which would take the data's suffix "answer" for a language:
Moses tokens and BPE pieces are joined here, as English.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from sacremoses import MosesDetokenizer

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines, read_text
from pet_fairseq.results.fairseq_output import numbered_lines

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def accuracy_scores(output: Path, answers: Path) -> dict:
    """The share of hypotheses that equal their answer, letter by letter, in percent.

    Args:
        output: what fairseq-generate printed.
        answers: a text with the answer to one question on each line.
    Returns:
        accuracy, percent; right and total, questions.
    Raises:
        UserError: unusable files, or answers to other questions.
    """
    gold = read_lines(answers, "ANSWERS")
    return accuracy(read_hypotheses(output, len(gold), answers), gold)


def squad_scores(output: Path, answers: Path) -> dict:
    """SQuAD's exact match and F1, in percent.

    Args:
        output: what fairseq-generate printed.
        answers: a JSON object with a list of right answers for each question, in the order of the
            test set.
    Returns:
        exact_match and f1, percent; total, questions.
    Raises:
        UserError: unusable files, or answers to other questions.
    """
    gold = read_gold(answers)
    return squad(read_hypotheses(output, len(gold), answers), gold)


# --- scores ---------------------------------------------------------------------------------------


def accuracy(hypotheses: list[str], answers: list[str]) -> dict:
    right = sum(hyp == answer for hyp, answer in zip(hypotheses, answers))
    return {"accuracy": 100 * right / len(hypotheses), "right": right, "total": len(hypotheses)}


def squad(hypotheses: list[str], answers: list[list[str]]) -> dict:
    return {
        "exact_match": mean_of_best(exact_match, hypotheses, answers),
        "f1": mean_of_best(f1, hypotheses, answers),
        "total": len(hypotheses),
    }


def mean_of_best(
    score: Callable[[str, str], float], hypotheses: list[str], answers: list[list[str]]
) -> float:
    """The mean, in percent, of each hypothesis's score against the right answer closest to it."""
    best = (max(score(hyp, answer) for answer in gold) for hyp, gold in zip(hypotheses, answers))
    return 100 * sum(best) / len(hypotheses)


def exact_match(hypothesis: str, answer: str) -> float:
    return float(normalised(hypothesis) == normalised(answer))


def f1(hypothesis: str, answer: str) -> float:
    """The harmonic mean of precision and recall over words, 0 without a common word."""
    ours, gold = (normalised(text).split() for text in (hypothesis, answer))
    common = (Counter(ours) & Counter(gold)).total()
    return 2 * common / (len(ours) + len(gold)) if common else 0.0


def normalised(text: str) -> str:
    """An answer as SQuAD compares it: no capitals, ASCII punctuation, articles or extra spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


# --- files ----------------------------------------------------------------------------------------


def read_hypotheses(output: Path, questions: int, answers: Path) -> list[str]:
    """The best answer to each question, detokenised.

    Raises:
        UserError: other questions than in the file of answers.
    """
    hypotheses = numbered_lines(read_text(output, "OUTPUT"), "D")
    if sorted(hypotheses) != list(range(questions)):
        raise UserError(
            f"OUTPUT {output}: {len(hypotheses)} answers, but {questions} questions in {answers}; "
            "give the finished output for this test set, made with --required-batch-size-multiple 1"
        )
    return [detokenised(hypotheses[i]) for i in range(questions)]


def detokenised(text: str) -> str:
    """English text from Moses tokens, which may be segmented into BPE subwords."""
    return MosesDetokenizer("en").detokenize(re.sub("@@( |$)", "", text).split())


def read_gold(path: Path) -> list[list[str]]:
    """The right answers to each question.

    Raises:
        UserError: anything but a JSON object with a list of one or more answers to each question.
    """
    try:
        gold = list(json.loads(read_text(path, "ANSWERS")).values())
    except (json.JSONDecodeError, AttributeError, RecursionError):
        gold = []
    if not gold or not all(map(_are_texts, gold)):
        raise UserError(
            f"ANSWERS {path}: not a JSON object with a list of right answers to each question"
        )
    return gold


def _are_texts(answers: object) -> bool:
    """Whether something is a list of one or more texts."""
    return isinstance(answers, list) and answers != [] and all(isinstance(a, str) for a in answers)
