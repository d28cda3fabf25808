"""examples/cicero/prepare.sh on small data of our own; offline."""

import gzip

import pytest

from tests.cli.processes import REPO
from tests.cli.prompts.downloads import json_lines, made, pack, recipe
from tests.cli.shell import bash, refuses, sh

pytestmark = pytest.mark.slow

CHOICES = ("-c", 'python3 "$@"', "-", REPO / "examples/cicero/choices.py")


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


def test_choices_are_pairs_with_a_class(public, tmp_path):
    """Tables for examples/glue/prepare.sh; train and valid share no dialogue."""
    val = [question(i, 1, (i % 4,)) for i in range(20)]
    for name, items in (("val", val), ("test", [question(30, 1, (3, -4))])):
        (public / f"{name}.jsonl.gz").write_bytes(gzip.compress(json_lines(items).encode()))
    bash(*CHOICES, tmp_path / "tables", public / "val.jsonl.gz", public / "test.jsonl.gz")
    found = {path.name: path.read_text() for path in (tmp_path / "tables").iterdir()}
    held_out = [item for item in val if item["ID"][-2:] in ("09", "19")]
    kept = [item for item in val if item not in held_out]
    expected = {"train.tsv": kept, "dev.tsv": held_out, "test.tsv": [question(30, 1, (3, 0))]}
    assert found == {name: choices_table(items) for name, items in expected.items()}


def choices_table(items: list[dict]) -> str:
    lines = ["sentence1\tsentence2\tlabel"]
    for item in items:
        record = as_record(item)
        for place, letter in enumerate("abcd"):
            label = "correct" if place in item["Correct Answers"] else "wrong"
            second = f"{letter} {int(item['ID'][-4:])}."
            lines.append(f"{record['query']} {record['prompt']}\t{second}\t{label}")
    return "\n".join(lines) + "\n"


def test_bad_choices(public, tmp_path):
    for name, answers in (("val", [4]), ("test", [1])):
        item = question(1, 1) | {"Correct Answers": answers}
        (public / f"{name}.json").write_text(json_lines([item]))
    files = (public / "val.json", public / "test.json")
    result = bash(*CHOICES, tmp_path / "tables", *files, check=False)
    refuses(result, "choices.py: ", "val: line 1: not as CICERO is")
    assert not (tmp_path / "tables").exists()


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
