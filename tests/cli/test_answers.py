"""pet-fairseq score accuracy and squad: scoring the answers that fairseq-generate wrote."""

import json
import random
from pathlib import Path

import pytest

from pet_fairseq import cli
from pet_fairseq.results.score import answers


@pytest.fixture
def score(capsys):
    """Runs a scorer; what it prints on stdout, or with fails=True its line on stderr."""

    def call(*args, fails: bool = False) -> str:
        assert cli.main(["score", *map(str, args)]) == fails
        out, err = capsys.readouterr()
        assert not (out if fails else err)
        return err if fails else out

    return call


def refuses(line: str, *texts) -> None:
    assert line.startswith("pet-fairseq score ") and line.count("\n") == 1
    for text in texts:
        assert str(text) in line


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


def test_accuracy(score, tmp_path):
    output = generated(tmp_path / "gen.txt", ["Yes", "No", "Yes", "no"], random.Random(1))
    (tmp_path / "test.answer").write_text("Yes\nNo\nNo\nNo\n")
    out = tmp_path / "result.json"
    scores = json.loads(score("accuracy", output, tmp_path / "test.answer", "--out", out))
    assert scores == {"accuracy": 50.0, "right": 2, "total": 4} == json.loads(out.read_text())


def test_squad(score, tmp_path):
    texts = ["the old tower of London", "Obama &apos;s wife", "19@@ 9@@ 0", "nothing of it"]
    output = generated(tmp_path / "gen.txt", texts, random.Random(2))
    gold = {
        "a": ["Tower of London", "the Tower"],  # 3 words of 4 and 3 common: 6/7
        "b": ["Michelle", "Obama's wife!"],
        "c": ["in 1991", "1990"],
        "d": ["Paris"],
    }
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    scores = json.loads(score("squad", output, tmp_path / "gold.json"))
    assert scores["exact_match"] == 50 and scores["total"] == 4
    assert scores["f1"] == pytest.approx(100 * (6 / 7 + 1 + 1) / 4)


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
    scores = answers.squad(hypotheses, gold)
    assert 20 < exact < 380
    assert scores["exact_match"] == pytest.approx(exact / 4)
    assert scores["f1"] == pytest.approx(overlap / 4)


def test_bad_input(score, tmp_path):
    output = generated(tmp_path / "gen.txt", ["Yes", "No"], random.Random(4))
    answer, gold = tmp_path / "test.answer", tmp_path / "gold.json"
    answer.write_text("Yes\nNo\nNo\n")
    refuses(score("accuracy", output, answer, fails=True), output, "2 answers", "3 questions")
    refuses(score("accuracy", output, tmp_path / "none", fails=True), "none: No such file")
    (tmp_path / "cut.txt").write_text(output.read_text().split("P-")[0])
    answer.write_text("Yes\nNo\n")
    refuses(score("accuracy", tmp_path / "cut.txt", answer, fails=True), "cut.txt: 1 answers")
    for text in (
        *('{"a": ["x"], "b": []}', '[["x"], ["y"]]', '{"a": [1], "b": ["y"]}', '{"a"'),
        *('{"a": ["x"], "b": "No"}', '{"a": ["x"], "b": {"y": 1}}'),
    ):
        gold.write_text(text)
        refuses(score("squad", output, gold, fails=True), gold, "not a JSON object")
    gold.write_bytes(b'{"a": ["\xff"]}')
    refuses(score("squad", output, gold, fails=True), gold, "not UTF-8")
