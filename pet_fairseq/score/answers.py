"""Scores of answers that fairseq-generate printed: accuracy, or SQuAD's exact match and F1.

The output needs no --tokenizer, which would take "answer" for a language: Moses tokens and BPE
pieces are put together here, as English.
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
from pet_fairseq.generate_output import numbered_lines

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def accuracy_scores(output: Path, answers: Path) -> dict:
    """The share of hypotheses that are their answer, letter by letter, in percent.

    Args:
        answers: a text with the answer to each question in a line.
    Raises:
        UserError: unusable files, or answers to other questions.
    """
    gold = read_lines(answers, "ANSWERS")
    return accuracy(read_hypotheses(output, len(gold), answers), gold)


def squad_scores(output: Path, answers: Path) -> dict:
    """SQuAD's exact match and F1, in percent.

    Args:
        answers: a JSON object with a list of right answers for each question, in the order of the
            test set.
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
    """The mean, in percent, of each hypothesis's score with the answer that suits it best."""
    best = (max(score(hyp, right) for right in rights) for hyp, rights in zip(hypotheses, answers))
    return 100 * sum(best) / len(hypotheses)


def exact_match(hypothesis: str, answer: str) -> float:
    return float(normalised(hypothesis) == normalised(answer))


def f1(hypothesis: str, answer: str) -> float:
    """Harmonic mean of precision and recall over words, 0 without a common one."""
    given, right = (normalised(text).split() for text in (hypothesis, answer))
    common = (Counter(given) & Counter(right)).total()
    return 2 * common / (len(given) + len(right)) if common else 0.0


def normalised(text: str) -> str:
    """An answer as SQuAD compares it: no capitals, ASCII punctuation, articles, extra blanks."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


# --- files ----------------------------------------------------------------------------------------


def read_hypotheses(output: Path, questions: int, answers: Path) -> list[str]:
    """The best answer to each question, detokenised.

    Raises:
        UserError: not as many as there are questions in the file of answers.
    """
    hypotheses = numbered_lines(read_text(output, "OUTPUT"), "D")
    if sorted(hypotheses) != list(range(questions)):
        raise UserError(
            f"OUTPUT {output}: {len(hypotheses)} answers, but {questions} questions in {answers}; "
            "give the finished output for this test set, made with --required-batch-size-multiple 1"
        )
    return [detokenised(hypotheses[i]) for i in range(questions)]


def detokenised(text: str) -> str:
    """English text from Moses tokens, which may be divided into BPE pieces."""
    return MosesDetokenizer("en").detokenize(re.sub("@@( |$)", "", text).split())


def read_gold(path: Path) -> list[list[str]]:
    """The right answers to each question.

    Raises:
        UserError: anything but a JSON object with one or more answers to each question.
    """
    try:
        gold = list(json.loads(read_text(path, "ANSWERS")).values())
        texts = [text for answers in gold for text in answers or [None]]
    except (json.JSONDecodeError, AttributeError, TypeError, RecursionError):
        texts = []
    if not texts or not all(isinstance(text, str) for text in texts):
        raise UserError(
            f"ANSWERS {path}: not a JSON object with a list of right answers to each question"
        )
    return gold
