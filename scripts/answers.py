"""Scores the answers that fairseq-generate wrote: accuracy, or SQuAD's exact match and F1.

    python scripts/answers.py accuracy OUTPUT ANSWERS
    python scripts/answers.py squad OUTPUT ANSWERS

OUTPUT is what fairseq-generate printed. It needs no --tokenizer, which would take "answer" for a
language: Moses tokens and BPE pieces are put together here, as English. ANSWERS is a text with an
answer a line (accuracy: raw/test.answer), or a JSON object with a list of right answers for each
question (squad: raw/test.answers.json), in the order of the test set. Prints the scores in percent
as JSON, and in a line of words on the error stream.
"""

import argparse
import json
import re
import string
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from sacremoses import MosesDetokenizer

HYPOTHESIS = re.compile(r"^D-(\d+)\t[^\t\n]*\t(.*)$", re.MULTILINE)
PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


class BadInputError(Exception):
    """A file that is not what it should be; the message names it."""


def detokenised(text: str) -> str:
    """English text from Moses tokens, which may be divided into BPE pieces."""
    return MosesDetokenizer("en").detokenize(re.sub("@@( |$)", "", text).split())


def normalised(text: str) -> str:
    """An answer as SQuAD compares it: no capitals, ASCII punctuation, articles, extra blanks."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def exact_match(hypothesis: str, answer: str) -> float:
    return float(normalised(hypothesis) == normalised(answer))


def f1(hypothesis: str, answer: str) -> float:
    """Harmonic mean of precision and recall over words, 0 without a common one."""
    given, right = (normalised(text).split() for text in (hypothesis, answer))
    common = (Counter(given) & Counter(right)).total()
    return 2 * common / (len(given) + len(right)) if common else 0.0


def mean_of_best(
    score: Callable[[str, str], float], hypotheses: list[str], answers: list[list[str]]
) -> float:
    """In percent: of each hypothesis the score with the answer that suits it best."""
    best = (max(score(hyp, right) for right in rights) for hyp, rights in zip(hypotheses, answers))
    return 100 * sum(best) / len(hypotheses)


def accuracy(hypotheses: list[str], answers: list[str]) -> dict:
    """How many hypotheses are their answer, letter by letter."""
    right = sum(hyp == answer for hyp, answer in zip(hypotheses, answers))
    return {"accuracy": 100 * right / len(hypotheses), "right": right, "total": len(hypotheses)}


def squad(hypotheses: list[str], answers: list[list[str]]) -> dict:
    return {
        "exact_match": mean_of_best(exact_match, hypotheses, answers),
        "f1": mean_of_best(f1, hypotheses, answers),
        "total": len(hypotheses),
    }


def read_hypotheses(path: Path) -> dict[int, str]:
    """The best answer to each question, by its number."""
    found: dict[int, str] = {}
    for number, text in HYPOTHESIS.findall(path.read_text(encoding="utf-8")):
        found.setdefault(int(number), detokenised(text))
    return found


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def read_gold(path: Path) -> list[list[str]]:
    """The right answers to each question."""
    try:
        gold = list(json.loads(path.read_bytes()).values())
        texts = [text for answers in gold for text in answers or [None]]
    except (json.JSONDecodeError, AttributeError, TypeError):
        texts = []
    if not texts or not all(isinstance(text, str) for text in texts):
        raise BadInputError(f"{path}: not a JSON object with answers to each question")
    return gold


def scores(kind: str, output: Path, answers: Path) -> dict:
    """What the script prints.

    Raises:
        BadInputError: the answers are not as they should be, or are to other questions.
    """
    read, score = {"accuracy": (read_lines, accuracy), "squad": (read_gold, squad)}[kind]
    found, gold = read_hypotheses(output), read(answers)
    if sorted(found) != list(range(len(gold))):
        raise BadInputError(
            f"{output}: {len(found)} answers, but {len(gold)} questions in {answers}; give the "
            "finished output for this test set, made with --required-batch-size-multiple 1"
        )
    return score([found[i] for i in range(len(gold))], gold)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=("accuracy", "squad"))
    parser.add_argument("output", type=Path)
    parser.add_argument("answers", type=Path)
    args = parser.parse_args()
    try:
        result = scores(args.kind, args.output, args.answers)
    except BadInputError as error:
        sys.exit(f"answers.py: {error}")
    except OSError as error:
        sys.exit(f"answers.py: {error.filename}: {error.strerror}")
    except UnicodeDecodeError:
        sys.exit(f"answers.py: {args.output} or {args.answers}: not UTF-8; make it again")
    print(json.dumps(result))
    numbers = [f"{name} {value:.2f}" for name, value in result.items() if isinstance(value, float)]
    print(f"{args.output}: {', '.join(numbers)} over {result['total']} questions", file=sys.stderr)


if __name__ == "__main__":
    main()
