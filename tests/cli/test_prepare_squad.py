"""examples/squad/prepare.sh: SQuAD as questions and answers; offline."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.cli.processes import BIN, REPO
from tests.cli.shell import bash, refuses, sh

pytestmark = pytest.mark.slow

RECIPE = "examples/squad/prepare.sh"
TRAIN, DEV = "train-v1.1.json", "dev-v1.1.json"


def article(number: int, draw: random.Random, answers: int) -> dict:
    """Two paragraphs with two questions each, in SQuAD's format."""
    paragraphs = []
    for part in "ab":
        words = [f"word{draw.randrange(30)}" for _ in range(draw.randrange(8, 40))]
        context = f"Article {number}{part}\nsays\u2003{' '.join(words)}."
        questions = [
            {
                "id": f"{number}{part}{k}",
                "question": f" What  does {number}{part} say on {words[k]}?",
                "answers": [
                    {"text": " ".join(words[k : k + n]), "answer_start": 1}
                    for n in range(1, answers + 1)
                ],
            }
            for k in range(2)
        ]
        paragraphs.append({"context": context, "qas": questions})
    return {"title": f"Article_{number}", "paragraphs": paragraphs}


def data(first: int, count: int, answers: int) -> dict:
    draw = random.Random(first)
    made = [article(number, draw, answers) for number in range(first, first + count)]
    return {"data": made, "version": "1.1"}


@pytest.fixture
def squad(tmp_path) -> tuple[Path, dict]:
    """A folder with 45 articles to train and 3 to test on, and the environment to prepare it."""
    folder = tmp_path / "public"
    folder.mkdir()
    (folder / TRAIN).write_text(json.dumps(data(0, 45, 1)))
    (folder / DEV).write_text(json.dumps(data(100, 3, 3)))
    (tmp_path / "expected").write_text(f"{TRAIN} -\n{DEV} -\n")
    return folder, {"EXPECTED": str(tmp_path / "expected"), "OUT": str(tmp_path / "out")}


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def by_hand(articles: list[dict]) -> list[tuple[str, str]]:
    found = []
    for made in articles:
        for paragraph in made["paragraphs"]:
            context = paragraph["context"].replace("\n", " ").replace("\u2003", " ")
            for item in paragraph["qas"]:
                question = item["question"].strip().replace("  ", " ")
                text = f"Question: {question} Context: {context} Answer:"
                found.append((text, item["answers"][0]["text"]))
    return found


@pytest.mark.paper
def test_dry_run_prints_commands_and_writes_nothing(tmp_path):
    env = {"OUT": str(tmp_path / "out"), "DRY_RUN": "1", "RAW_TEXT": "a.txt:b.txt"}
    out = sh(RECIPE, **env).stdout
    commands = {line.split()[1] for line in out.splitlines() if line.startswith("+ ")}
    assert {"curl", "subword-nmt", "fairseq-preprocess"} <= commands and "tokenise.py" in out
    path = f"{BIN}:{os.environ['PATH']}"
    assert all(shutil.which(command, path=path) for command in commands)
    assert "https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v1.1.json" in out
    assert "raw_text.py" in out and "a.txt b.txt" in out
    assert not list(tmp_path.iterdir())


def test_from_download_to_pieces(squad, tmp_path):
    folder, env = squad
    longest = 60
    env |= {"MIRROR": f"file://{folder}", "BPE_MERGES": "40", "MAX_TOKENS": str(longest)}
    shown = sh(RECIPE, **env, STAGES="raw tokenise segment dictionary").stdout
    out = tmp_path / "out"

    train, test = (json.loads((folder / name).read_text())["data"] for name in (TRAIN, DEV))
    sets = {
        "train": by_hand(train[:19] + train[20:39] + train[40:]),
        "valid": by_hand([train[19], train[39]]),
        "test": by_hand(test),
    }
    for split, pairs in sets.items():
        kinds = (lines(out / f"raw/{split}.{kind}") for kind in ("text", "answer"))
        assert list(zip(*kinds)) == pairs
    gold = json.loads((out / "raw/test.answers.json").read_text())
    items = [item for made in test for part in made["paragraphs"] for item in part["qas"]]
    assert list(gold) == [item["id"] for item in items]
    assert list(gold.values()) == [[a["text"] for a in item["answers"]] for item in items]

    pieces = {split: lines(out / f"bpe/{split}.text") for split in sets}
    whole = {split: [undo(text) for text in lines(out / f"tok/{split}.text")] for split in sets}
    kept = [undo(text) for text in pieces["train"]]
    dropped = [text for text in whole["train"] if text not in kept]
    assert kept == [text for text in whole["train"] if text in kept]
    assert len(dropped) > 10 and len(kept) > 10
    assert f"{len(dropped)} of {len(whole['train'])} questions over 60 pieces dropped" in shown
    assert all(len(text.split()) <= longest for text in pieces["train"])
    assert len(lines(out / "bpe/train.answer")) == len(kept)
    for split in ("valid", "test"):
        lengths = [len(text.split()) for text in pieces[split]]
        assert max(lengths) == longest and len(lengths) == len(sets[split])
        for text, full in zip(map(undo, pieces[split]), whole[split]):
            start, end = text[: -len("Answer:")], text[-len("Answer:") :]
            assert end == "Answer:" and full.startswith(start)
        cut = sum(undo(text) != full for text, full in zip(pieces[split], whole[split]))
        assert cut and f"{cut} of {len(lengths)} questions over 60 pieces cut" in shown
    assert lines(out / "dict.txt")[-1].startswith("<sentinel:0> ")


def undo(pieces: str) -> str:
    """The letters of a text in tokens or pieces."""
    return pieces.replace("@@ ", "").replace(" ", "")


def shorten(folder: Path, *args, check: bool = True):
    command = ("-c", 'python3 "$@"', "-", REPO / "scripts/text/shorten.py", folder / "set")
    return bash(*command, *args, check=check)


def test_shortening(tmp_path):
    texts = ["a b c An@@ swer :", "a b c d e f", "a b c d An@@ swer :", "An@@ swer :"]
    for kind in ("text", "answer"):
        (tmp_path / f"set.{kind}").write_text("".join(f"{text}\n" for text in texts))
    shorten(tmp_path, 6)
    assert lines(tmp_path / "set.text") == lines(tmp_path / "set.answer") == [*texts[:2], texts[3]]
    shorten(tmp_path, 4, "--cut", "--keep-end", "Answer:")
    assert lines(tmp_path / "set.text") == ["a An@@ swer :", "a b c d", "An@@ swer :"]
    assert len(lines(tmp_path / "set.answer")) == 3
    shorten(tmp_path, 2, "--cut")
    assert lines(tmp_path / "set.text") == ["a An@@", "a b", "An@@ swer"]
    refuses(shorten(tmp_path, 1, check=False), "set.text: no question of up to 1 pieces")
    assert lines(tmp_path / "set.text") == ["a An@@", "a b", "An@@ swer"]


def test_bad_files(squad, tmp_path):
    folder, env = squad
    env |= {"STAGES": "raw"}

    def bad(name, content, *texts):
        good = (folder / name).read_bytes()
        (folder / name).write_bytes(content)
        refuses(sh(RECIPE, folder, check=False, **env), name, *texts)
        (folder / name).write_bytes(good)
        assert not list((tmp_path / "out").glob("raw*"))

    whole = (folder / TRAIN).read_bytes()
    bad(TRAIN, whole[:2000], "cannot be read")
    bad(TRAIN, b"\xff" + whole, "cannot be read")
    bad(TRAIN, b'{"data": [{"title": "x"}]}', "not as SQuAD v1.1 is", "paragraphs")
    bad(TRAIN, b'["data"]', "not as SQuAD v1.1 is")
    bad(TRAIN, b'{"data": []}', "no questions")
    bad(TRAIN, json.dumps(data(0, 1, 1)).encode(), "one article")
    bad(DEV, json.dumps(data(100, 2, 0)).encode(), "question 100a0 has no answer")
    twice = json.dumps(data(100, 2, 1)).replace("101a0", "100a0")
    bad(DEV, twice.encode(), "an id is there twice")
    sizes = {name: value for name, value in env.items() if name != "EXPECTED"}
    refuses(sh(RECIPE, folder, check=False, **sizes), TRAIN, "bytes, expected 30288272")
    (folder / DEV).unlink()
    refuses(sh(RECIPE, folder, check=False, **env), f"{folder}/{DEV}: no such file")
    refuses(sh(RECIPE, tmp_path / "none", check=False, **env), "none: no such folder")
