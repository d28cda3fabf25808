"""examples/cicero/prepare.sh on small data of our own; offline."""

import gzip

import pytest

from tests.cli.prompts.downloads import json_lines, made, pack, recipe
from tests.cli.shell import refuses, sh

pytestmark = pytest.mark.slow


def question(dialogue: int, number: int, answers: tuple[int, ...] = (2, 0)) -> dict:
    return {
        "ID": f"daily-dialogue-{dialogue:04}",
        "Dialogue": [f"A: Hello {dialogue} .", "B:  Who is \n it ?"],
        "Target": f"Hello {dialogue}  .",
        "Question": f"What is or could be the cause of target {number}?",
        "Choices": [f"{letter} {dialogue}." for letter in "abcd"],
        "Correct Answers": list(answers),
    }


def as_record(item: dict) -> dict:
    dialogue = int(item["ID"][-4:])
    answers = [f"{'abcd'[i]} {dialogue}." for i in item["Correct Answers"]]
    return {
        "query": f"{item['Question']} Target: Hello {dialogue} .",
        "prompt": f"A: Hello {dialogue} . B: Who is it ?",
        "response": answers[0],
        "references": answers,
    }


def test_cicero(env, public, tmp_path):
    sets = {
        "train": [question(i, 1) for i in range(5)],
        "val": [question(10, 1), question(10, 2, (1,))],
        "test": [question(20, 1, (3, 1, 0))],
    }
    members = {f"data/{split}.json": json_lines(items) for split, items in sets.items()}
    pack(public / "data.zip", members | {"__MACOSX/data/._train.json": "no text"})
    sh(recipe("cicero"), **env, MIRROR=f"file://{public}", STAGES="raw")
    expected = {"train": sets["train"], "valid": sets["val"], "test": sets["test"]}
    expected = {split: list(map(as_record, items)) for split, items in expected.items()}
    assert made(tmp_path) == expected


def test_cicero_without_train(env, public, tmp_path):
    """Every tenth dialogue of val, with all its questions, is for validation."""
    val = [question(i, number) for number in (1, 2) for i in range(25)]
    for name, items in (("val", val), ("test", [question(30, 1)])):
        (public / f"{name}.jsonl.gz").write_bytes(gzip.compress(json_lines(items).encode()))
    sh(recipe("cicero"), public, **env, STAGES="raw")
    held_out = [item for item in val if item["ID"][-2:] in ("09", "19")]
    assert len(held_out) == 4
    expected = {
        "train": [as_record(item) for item in val if item not in held_out],
        "valid": list(map(as_record, held_out)),
        "test": [as_record(question(30, 1))],
    }
    assert made(tmp_path) == expected


def test_bad_dialogues(env, public, tmp_path):
    good = question(1, 1)
    without = {key: value for key, value in good.items() if key != "Choices"}
    for bad in (without, good | {"Correct Answers": []}, good | {"Correct Answers": [4]}, [1]):
        for name, items in (("val", [good, bad]), ("test", [good])):
            (public / f"{name}.json").write_text(json_lines(items))
        result = sh(recipe("cicero"), public, **env, STAGES="raw", check=False)
        refuses(result, "val: line 2: not as CICERO is")
    (public / "test.json").unlink()
    result = sh(recipe("cicero"), public, **env, STAGES="raw", check=False)
    refuses(result, f"{public}: has neither data.zip nor val and test")
    assert not (tmp_path / "out/raw").exists()
