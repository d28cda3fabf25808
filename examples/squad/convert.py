"""Makes questions and answers of SQuAD v1.1 and divides them into train, valid and test.

    python convert.py TRAIN DEV OUT

TRAIN and DEV are train-v1.1.json and dev-v1.1.json. Writes SPLIT.text (question and context, as in
Variator's Table 6) and SPLIT.answer (the first answer) to the new folder OUT, and all answers to
each test question to test.answers.json. Every 20th article of TRAIN is valid, or only the last one
if there are fewer; DEV is test, as SQuAD keeps its own test set.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

TEXT = "Question: {question} Context: {context} Answer:"


class Question(NamedTuple):
    number: str  # SQuAD's id
    text: str
    answers: list[str]


class BadInputError(Exception):
    """A file that is not SQuAD v1.1; the message says where."""


def one_line(text: str) -> str:
    return " ".join(text.split())


def questions(article: dict) -> list[Question]:
    """The questions about one article."""
    asked = []
    for paragraph in article["paragraphs"]:
        for item in paragraph["qas"]:
            answers = [one_line(answer["text"]) for answer in item["answers"]]
            if not all(answers) or not answers:
                raise BadInputError(f"question {item['id']} has no answer, v1.1 has one for each")
            text = TEXT.format(question=item["question"], context=paragraph["context"])
            asked.append(Question(item["id"], one_line(text), answers))
    return asked


def articles(path: Path) -> list[list[Question]]:
    """The questions of each article that has any."""
    try:
        data = json.loads(path.read_bytes())["data"]
        with_questions = [asked for asked in map(questions, data) if asked]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadInputError(f"{path}: cannot be read ({error})") from error
    except (KeyError, TypeError) as error:
        raise BadInputError(f"{path}: not as SQuAD v1.1 is ({error!r})") from error
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    if not with_questions:
        raise BadInputError(f"{path}: no questions")
    return with_questions


def hold_out(train: list[list[Question]]) -> tuple[list[Question], list[Question]]:
    """The questions of train and of valid; every 20th article is for valid."""
    every = max(2, min(20, len(train)))
    parts: tuple[list[Question], list[Question]] = ([], [])
    for number, article in enumerate(train, 1):
        parts[number % every == 0].extend(article)
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()

    try:
        train, valid = hold_out(articles(args.train))
        test = [question for article in articles(args.dev) for question in article]
        if not valid:
            raise BadInputError(f"{args.train}: one article, none for validation")
        gold = {question.number: question.answers for question in test}
        if len(gold) < len(test):
            raise BadInputError(f"{args.dev}: an id is there twice")
    except BadInputError as error:
        sys.exit(f"convert.py: {error}; give another file")
    args.out.mkdir(parents=True)
    for split, chosen in (("train", train), ("valid", valid), ("test", test)):
        for kind, texts in (
            ("text", [question.text for question in chosen]),
            ("answer", [question.answers[0] for question in chosen]),
        ):
            path = args.out / f"{split}.{kind}"
            path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        print(f"{split}: {len(chosen)} questions")
    answers = json.dumps(gold, ensure_ascii=False, indent=0)
    (args.out / "test.answers.json").write_text(answers + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
