"""The demo's corpus: what is kept apart, what belongs together, and the files."""

import subprocess
import sys

import pytest
import sentencepiece

from pet_fairseq.demo.corpus import read_pairs, split_pairs, train_pieces, write_corpus
from pet_fairseq.errors import UserError

PARTS = ("train", "valid", "test")
SIZES = {"train": 200, "valid": 20, "test": 30}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "parent" / "text"
    assert write_corpus(out, SIZES, 300) == SIZES
    return out


def read(folder, kind, part, side):
    return (folder / kind / f"{part}.{side}").read_text(encoding="utf-8").splitlines()


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_pairs_are_different_short_sentences():
    pairs = read_pairs()
    assert len(pairs) == len(set(pairs)) == 25000
    assert all(len(pair) == 2 and all(side.strip() == side for side in pair) for pair in pairs)
    assert all(3 <= len(english.split()) <= 8 for _, english in pairs)


def test_held_out_sentences_are_in_no_other_part():
    parts = split_pairs(read_pairs(), {"train": 25000, "valid": 500, "test": 500})
    assert [len(parts[name]) for name in ("test", "valid")] == [500, 500]
    assert len(parts["train"]) > 23000
    for side in (0, 1):
        train, valid, test = ({pair[side] for pair in parts[name]} for name in PARTS)
        assert not train & (valid | test) and not valid & test
        assert len(valid) == len(test) == 500
    assert set().union(*map(set, parts.values())) <= set(read_pairs())


def test_a_sentence_with_a_translation_of_another_one_is_not_held_out():
    pairs = [("a", "A"), ("b", "B"), ("b", "C"), ("d", "D"), ("d2", "D")]
    parts = split_pairs(pairs, {"test": 9, "valid": 9, "train": 9})
    assert sorted(parts["test"]) == [("a", "A"), ("d", "D")]  # one translation of D
    assert parts["valid"] == []
    assert sorted(parts["train"]) == [("b", "B"), ("b", "C")]


def test_lines_belong_together_and_pieces_make_the_text(folder):
    known = set(read_pairs())
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    assert pieces.get_piece_size() == 300
    for part in PARTS:
        sides = [read(folder, "raw", part, side) for side in ("fi", "en")]
        assert len(sides[0]) == SIZES[part]
        assert set(zip(*sides, strict=True)) <= known
        for side, raw in zip(("fi", "en"), sides):
            segmented = [line.split(" ") for line in read(folder, "pieces", part, side)]
            joined = ["".join(line).replace("▁", " ").strip() for line in segmented]
            assert joined == [" ".join(line.split()) for line in raw]


def test_the_same_bytes_in_any_process(folder, tmp_path):
    code = (
        "import sys, pathlib; from pet_fairseq.demo.corpus import write_corpus; "
        f"write_corpus(pathlib.Path(sys.argv[1]), {SIZES}, 300)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "again"], check=True)
    ours, theirs = contents(folder), contents(tmp_path / "again")
    assert sorted(ours) == sorted(theirs) and len(ours) == 13
    for name in ours.keys() - {"spm.model"}:  # which holds a path
        assert ours[name] == theirs[name], name


def test_too_many_or_few_pieces_are_one_line_and_nothing_is_written(tmp_path):
    for number, advice in ((9000, "smaller"), (1, "larger"), (20, "larger")):
        with pytest.raises(UserError, match=rf"--pieces {number}: .*give a {advice} number"):
            write_corpus(tmp_path / "out", SIZES, number)
    assert not list(tmp_path.iterdir())
    assert train_pieces(["ab ab"], 8)


def test_a_test_set_that_leaves_nothing_for_validation(tmp_path):
    with pytest.raises(UserError, match=r"--test-size 90000: leaves no .* give less than") as error:
        write_corpus(tmp_path / "out", SIZES | {"test": 90_000}, 300)
    assert not list(tmp_path.iterdir())
    limit = int(str(error.value).split()[-1])
    parts = split_pairs(read_pairs(), SIZES | {"test": limit - 1})
    assert len(parts["valid"]) == 1 and parts["train"]
    assert not split_pairs(read_pairs(), SIZES | {"test": limit})["valid"]


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full_disk(path, lines):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("pet_fairseq.demo.corpus.write_lines", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_corpus(tmp_path / "out", SIZES, 300)
    assert not list(tmp_path.iterdir())
