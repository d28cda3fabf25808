"""The toy corpus's files: reproducible, aligned, whole or not there, and wrong options."""

import os
import random
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.toy import corpus as toy
from tests.toy.conftest import read

SMALL = {"train": 300, "valid": 20, "test": 20}
NAMES = [f"{split}.{side}" for split in ("train", "valid", "test") for side in ("de", "en")]
WRITTEN = [*NAMES, "reference.en"]
MARKS = {".", "?", ","}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_same_seed_same_bytes_in_any_process(tmp_path):
    toy.write_corpus(tmp_path / "one", 3, SMALL)
    random.seed(99)
    toy.write_corpus(tmp_path / "two", 3, SMALL)
    code = (
        "import sys, types, pathlib; package = types.ModuleType('pet_fairseq'); "  # without torch:
        "package.__path__ = [sys.argv[2]]; sys.modules['pet_fairseq'] = package; "  # it starts fast
        "from pet_fairseq.toy.corpus import write_corpus; "
        f"write_corpus(pathlib.Path(sys.argv[1]), 3, {SMALL})"
    )
    package = str(Path(toy.__file__).parents[1])
    command = [sys.executable, "-c", code, str(tmp_path / "three"), package]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": "7"})
    expected = contents(tmp_path / "one")
    assert sorted(expected) == sorted(WRITTEN)  # and so no temporary file is left
    for other in "two", "three":
        assert contents(tmp_path / other) == expected


def test_another_seed_is_another_corpus(tmp_path):
    written = []
    for seed in (1, 2, -1):
        toy.write_corpus(tmp_path / str(seed), seed, SMALL)
        written.append(contents(tmp_path / str(seed)))
    for name in NAMES:
        assert len({files[name] for files in written}) == 3, name


def test_sizes_and_alignment(folder, tmp_path):
    for split, size in {"train": 16000, "valid": 500, "test": 500}.items():
        assert len(read(folder, split, "de")) == len(read(folder, split, "en")) == size
    toy.write_corpus(tmp_path, 1, {"train": 30, "test": 2})
    counts = [len(read(tmp_path, split, "en")) for split in ("train", "valid", "test")]
    assert counts == [30, 500, 2]


def test_the_reference_is_the_text_without_its_blanks(folder):
    tokenised = read(folder, "test", "en")
    reference = (folder / "reference.en").read_text(encoding="utf-8").splitlines()
    assert len(reference) == len(tokenised)
    for line, tokens in zip(reference, tokenised):
        assert line.replace(" ", "") == tokens.replace(" ", "")
        assert not re.search(r" [.,?]", line), line


def test_a_new_corpus_replaces_the_old_one(tmp_path):
    toy.write_corpus(tmp_path, 1, SMALL)
    toy.write_corpus(tmp_path, 2, SMALL | {"train": 7})
    assert len(read(tmp_path, "train", "de")) == 7
    assert sorted(contents(tmp_path)) == sorted(WRITTEN)


def test_a_failed_write_changes_nothing(tmp_path, monkeypatch):
    toy.write_corpus(tmp_path, 1, SMALL)
    before = contents(tmp_path)
    write_text = Path.write_text

    def full_disk(path, text, **options):
        if "test.en" in path.name or "train.en" in path.name:
            raise OSError("disk full")
        return write_text(path, text, **options)

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="disk full"):
        toy.write_corpus(tmp_path, 2, SMALL)
    assert contents(tmp_path) == before


def test_tokens_are_plain_lower_case_words(folder):
    token = re.compile(r"[a-zäöü]+|[.,?']|'s|o'clock")
    for name in NAMES:
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            tokens = line.split(" ")
            assert all(token.fullmatch(word) for word in tokens), line
            assert tokens[-1] in (".", "?"), line
            assert not any(a in MARKS and b in MARKS for a, b in pairwise(tokens)), line


def test_held_out_sources_are_new(folder):
    train, valid, test = (set(read(folder, split, "de")) for split in ("train", "valid", "test"))
    assert not train & (valid | test) and not valid & test
    assert len(valid) == len(test) == 500


def test_a_sentence_drawn_for_test_is_kept_out_of_train(tmp_path, monkeypatch):
    """Even where the streams of the two do repeat a sentence."""
    stream = [("a .", "a ."), ("b .", "b ."), ("c .", "c ."), ("d .", "d ."), ("e .", "e .")]
    monkeypatch.setattr(toy, "sentences", lambda seed, split: iter(stream))
    toy.write_corpus(tmp_path, 1, {"train": 2, "valid": 1, "test": 2})
    found = [read(tmp_path, split, "de") for split in ("test", "valid", "train")]
    assert found == [["a .", "b ."], ["c ."], ["d .", "e ."]]


@pytest.mark.parametrize(
    "seed, sizes, message",
    [
        (1, {"train": 0}, "--train-size: 0 is not allowed"),
        (1, {"valid": -3}, "--valid-size: -3 is not allowed"),
        (1, {"test": 2.5}, "--test-size: 2.5 is not allowed"),
        (1, {"test": True}, "--test-size: True is not allowed"),
        (1, {"dev": 5}, "'dev' is not a part of the corpus; use train, valid, test"),
        ("1", None, "--seed: '1' is not allowed"),
        (1.0, None, "--seed: 1.0 is not allowed"),
        (None, None, "--seed: None is not allowed"),
    ],
)
def test_errors_name_the_option_and_write_nothing(tmp_path, seed, sizes, message):
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        toy.write_corpus(tmp_path / "out", seed, sizes)
    assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("precious")
    with pytest.raises(UserError, match=r"OUT: .*out is a file"):
        toy.write_corpus(tmp_path / "out", 1, SMALL)
    assert (tmp_path / "out").read_text() == "precious"
