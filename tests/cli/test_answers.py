"""scripts/answers.py: scoring what fairseq-generate wrote."""

import json
import random
from pathlib import Path

import pytest

from scripts import answers
from tests.cli.processes import REPO
from tests.cli.shell import bash, refuses


def score(*args, check: bool = True):
    return bash("-c", 'python3 "$@"', "-", REPO / "scripts/answers.py", *args, check=check)


def generated(path: Path, texts: list[str], draw: random.Random) -> Path:
    """An output of fairseq-generate with two hypotheses a sentence, in another order."""
    blocks = [
        f"S-{i}\tQuestion : why ?\nT-{i}\tgold\nH-{i}\t-0.25\t{text}\nD-{i}\t-0.25\t{text}\n"
        f"P-{i}\t-0.1 -0.4\nH-{i}\t-0.75\tworse\nD-{i}\t-0.75\tworse\n"
        for i, text in enumerate(texts)
    ]
    draw.shuffle(blocks)
    path.write_text("log line\n" + "".join(blocks) + "Generate test with beam=5: BLEU4 = 1.00\n")
    return path


def test_accuracy(tmp_path):
    output = generated(tmp_path / "gen.txt", ["Yes", "No", "Yes", "no"], random.Random(1))
    (tmp_path / "test.answer").write_text("Yes\nNo\nNo\nNo\n")
    result = score("accuracy", output, tmp_path / "test.answer")
    assert json.loads(result.stdout) == {"accuracy": 50.0, "right": 2, "total": 4}
    assert result.stderr == f"{output}: accuracy 50.00 over 4 questions\n"


def test_squad(tmp_path):
    texts = ["the old tower of London", "Obama &apos;s wife", "19@@ 9@@ 0", "nothing of it"]
    output = generated(tmp_path / "gen.txt", texts, random.Random(2))
    gold = {
        "a": ["Tower of London", "the Tower"],  # 3 words of 4 and 3 common: 6/7
        "b": ["Michelle", "Obama's wife!"],
        "c": ["in 1991", "1990"],
        "d": ["Paris"],
    }
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    result = score("squad", output, tmp_path / "gold.json")
    scores = json.loads(result.stdout)
    assert scores["exact_match"] == 50 and scores["total"] == 4
    assert scores["f1"] == pytest.approx(100 * (6 / 7 + 1 + 1) / 4)
    assert "exact_match 50.00, f1 71.43 over 4 questions" in result.stderr


def slow_normal(text: str) -> list[str]:
    """Words of a text without capitals, punctuation and articles, letter by letter."""
    kept = ""
    for letter in text.lower():
        if letter not in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~":
            kept += letter
    return [word for word in kept.split() if word not in ("a", "an", "the")]


def slow_f1(given: list[str], right: list[str]) -> float:
    left, common = list(right), 0
    for word in given:
        if word in left:
            left.remove(word)
            common += 1
    if common == 0:
        return 0
    precision, recall = common / len(given), common / len(right)
    return 2 * precision * recall / (precision + recall)


def test_scores_are_those_of_slow_ones():
    draw = random.Random(3)
    words = ["The", "a", "an", "cat", "Cat", "dog.", "theatre", "(x)", "--", "é", "1,5", "  ", "x"]

    def text():
        return " ".join(draw.choices(words, k=draw.randint(0, 6)))

    hypotheses = [text() for _ in range(400)]
    gold = [[text() for _ in range(draw.randint(1, 3))] for _ in range(400)]
    exact, overlap = 0, 0.0
    for hypothesis, right in zip(hypotheses, gold):
        given = slow_normal(hypothesis)
        exact += max(given == slow_normal(answer) for answer in right)
        overlap += max(slow_f1(given, slow_normal(answer)) for answer in right)
    found = answers.squad(hypotheses, gold)
    assert 20 < exact < 380
    assert found["exact_match"] == pytest.approx(exact / 4)
    assert found["f1"] == pytest.approx(overlap / 4)


def test_bad_input(tmp_path):
    output = generated(tmp_path / "gen.txt", ["Yes", "No"], random.Random(4))
    answer, gold = tmp_path / "test.answer", tmp_path / "gold.json"
    answer.write_text("Yes\nNo\nNo\n")
    refuses(score("accuracy", output, answer, check=False), output, "2 answers", "3 questions")
    refuses(score("accuracy", output, tmp_path / "none", check=False), "none: No such file")
    (tmp_path / "cut.txt").write_text(output.read_text().split("P-")[0])
    answer.write_text("Yes\nNo\n")
    refuses(score("accuracy", tmp_path / "cut.txt", answer, check=False), "cut.txt: 1 answers")
    for text in ('{"a": ["x"], "b": []}', '[["x"], ["y"]]', '{"a": [1], "b": ["y"]}', '{"a"'):
        gold.write_text(text)
        refuses(score("squad", output, gold, check=False), gold, "not a JSON object")
    gold.write_bytes(b'{"a": ["\xff"]}')
    refuses(score("squad", output, gold, check=False), gold, "not UTF-8")
