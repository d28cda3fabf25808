"""Raw text for a student: which pairs it has, and that pairs of lines stay pairs."""

import json
import random
from collections import Counter
from types import SimpleNamespace

import pytest

from pet_fairseq.compress import raw_text
from pet_fairseq.compress.raw_text import (
    SOURCE,
    TARGET,
    TextPair,
    choose_sets,
    parallel,
    write_corpus_text,
    write_pieces,
)
from pet_fairseq.errors import UserError
from tests.compress.lines import read_lines, write_lines, write_shards

SETS = ("train", "valid", "test")


def test_sets_are_held_out_by_their_words(tmp_path):
    draw = random.Random(1)
    texts = [f"{draw.choice('ab')} {draw.randrange(10_000)}" for _ in range(5000)]
    choose = choose_sets(write_lines(tmp_path / "a", texts), "train", ["valid", "test"])
    sizes = Counter(map(choose, texts))
    assert 350 < sizes["valid"] < 650 and 350 < sizes["test"] < 650
    assert all(choose(text) == choose(f"{text.upper()}!") for text in texts)
    large = choose_sets(write_lines(tmp_path / "b", range(40_000)), "train", ["valid"])
    assert 850 < Counter(map(large, map(str, range(40_000))))["valid"] < 1150
    alone = choose_sets(tmp_path / "a", "train", [])
    assert {alone(text) for text in texts} == {"train"}
    assert {choose_sets(tmp_path / "a", "test", [])(text) for text in texts} == {"test"}


def test_what_is_given_is_what_is_written(made, teacher, tmp_path):
    raw = made / "raw"
    pairs = {
        split: [TextPair(raw / f"{split}.de", raw / f"{split}.en")]
        for split in ("train", "valid", "test")
    }
    write_pieces(teacher, pairs, tmp_path / "out")
    for split in pairs:
        short = [
            both
            for both in zip(read_lines(raw / f"{split}.de"), read_lines(raw / f"{split}.en"))
            if split == "test" or all(len(side.split()) <= 8 for side in both)
        ]
        found = [read_lines(tmp_path / f"out/{split}.{language}") for language in ("de", "en")]
        assert [tuple(both) for both in zip(*found)] == short
    assert read_lines(tmp_path / "out/raw.reference") == read_lines(raw / "test.en")
    for language in ("de", "en"):
        name = f"dict.{language}.txt"
        assert read_lines(tmp_path / "out" / name) == read_lines(made / "bin" / name)


def test_sets_that_are_missing_come_from_the_training_text(made, teacher, tmp_path):
    raw = made / "raw"
    write_pieces(
        teacher, {"train": [TextPair(raw / "train.de", raw / "train.en")]}, tmp_path / "out"
    )
    together = [
        both
        for split in ("train", "valid", "test")
        for both in zip(
            *(read_lines(tmp_path / f"out/{split}.{language}") for language in ("de", "en"))
        )
    ]
    wanted = Counter(zip(read_lines(raw / "train.de"), read_lines(raw / "train.en")))
    assert not Counter(together) - wanted
    sources = {
        split: set(read_lines(tmp_path / f"out/{split}.de")) for split in ("train", "valid", "test")
    }
    assert all(sources.values())
    assert not sources["train"] & sources["valid"] and not sources["train"] & sources["test"]


def test_held_out_sentences_have_one_translation(made, teacher, tmp_path):
    """The first that can be used, as a test set that is given has; training has all."""
    sources = [f"a{i} a{j}" for i in range(12) for j in range(12)]
    targets = ["b1 " * 9, "b1", "b2"]  # the first is longer than the teacher reads
    files = (
        write_lines(tmp_path / "s", [source for source in sources for _ in targets]),
        write_lines(tmp_path / "t", targets * len(sources)),
    )
    write_pieces(teacher, {"train": [TextPair(*files)]}, tmp_path / "out")
    texts = {split: read_lines(tmp_path / f"out/{split}.de") for split in SETS}
    for split in ("valid", "test"):
        assert texts[split] and Counter(texts[split]).most_common(1)[0][1] == 1
        assert set(read_lines(tmp_path / f"out/{split}.en")) == {"b1"}
    assert set(Counter(texts["train"]).values()) == {2}
    assert sorted({*texts["train"], *texts["valid"], *texts["test"]}) == sorted(sources)
    counts = json.loads((tmp_path / "out/about.json").read_text())
    assert counts["test"]["another translation"] == len(texts["test"])


def test_held_out_sets_are_as_large_as_without_nbest(tmp_path):
    for times in (1, 5):
        texts = [str(i) for i in range(40_000) for _ in range(times)]
        choose = choose_sets(write_lines(tmp_path / "text", texts), "train", ["test"])
        assert 850 < Counter(map(choose, map(str, range(40_000))))["test"] < 1150


def test_pairs_that_training_cannot_use(made, teacher, tmp_path):
    source = ["a1 a2", "", "a1", "a1 " * 9, "a1", "x" * 2000, "a2"]
    target = ["b2 b1", "b1", "", "b1", "b1 " * 9, "b1", "b2"]
    files = [write_lines(tmp_path / "s", source), write_lines(tmp_path / "t", target)]
    write_pieces(teacher, {split: [TextPair(*files)] for split in SETS}, tmp_path / "out")
    assert read_lines(tmp_path / "out/train.de") == ["a1 a2", "a2"]
    assert read_lines(tmp_path / "out/valid.en") == ["b2 b1", "b2"]
    assert (
        len(read_lines(tmp_path / "out/test.de"))
        == len(read_lines(tmp_path / "out/raw.reference"))
        == 7
    )
    # a test set that is held out has no lines of 100,000 letters that the user could not take out
    more = [
        write_lines(tmp_path / side, [f"a{i} a{i}" for i in range(40)]) for side in ("s2", "t2")
    ]
    long = [f"a1 {word}" for i in range(40) for word in ("a" * 100_000, "a2 " * 33_000, f"x{i}")]
    for file in more:
        write_lines(file, read_lines(file) + long)
    write_pieces(teacher, {"train": [TextPair(*more)]}, tmp_path / "held_out")
    lines = [line for split in SETS for line in read_lines(tmp_path / f"held_out/{split}.de")]
    assert len(lines) == 80 and max(map(len, lines)) < 20


def test_sides_of_different_lengths(made, teacher, tmp_path):
    files = [write_lines(tmp_path / "s", ["a", "b"]), write_lines(tmp_path / "t", ["a"])]
    with pytest.raises(UserError, match=rf"{files[1]}: ends after 1 lines, but {files[0]} goes on"):
        list(parallel(*files))
    with pytest.raises(UserError, match="ends after 1 lines"):
        write_pieces(teacher, {"train": [TextPair(*files)]}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_pair_that_can_be_used(made, teacher, tmp_path):
    files = [write_lines(tmp_path / "s", ["", " "]), write_lines(tmp_path / "t", ["a", "b"])]
    with pytest.raises(
        UserError, match=rf"^{files[0]}: has no pair for train: 2 empty; give more text, or --tra"
    ):
        write_pieces(teacher, {split: [TextPair(*files)] for split in SETS}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_carriage_return_within_a_line_is_a_space(tmp_path):
    """Else it would end a line wherever the text is read that is made of it."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"a\rb\r\nc\nd")
    target.write_bytes(b"a\nb\rc\r\rd\nd\r\n")
    texts = [(first.text, second.text) for first, second in parallel(source, target)]
    assert texts == [("a b", "a"), ("c", "b c  d"), ("d", "d")]
    target.write_bytes(b"a\nb\n")
    with pytest.raises(UserError, match=r"target: ends after 2 lines, but .*source goes on"):
        list(parallel(source, target))


def test_a_line_break_in_a_translation_is_a_space(tmp_path, monkeypatch):
    """Byte-level subwords can spell one."""
    shards = write_shards(tmp_path / "corpus", [[("a b", "c Ċ d")], [("e", "Ċ")]])
    text = SimpleNamespace(decode=lambda line: line.replace(" ", "").replace("Ċ", "\n"))
    teacher = SimpleNamespace(segmenter=lambda: SimpleNamespace(source=text, target=text))
    monkeypatch.setattr(raw_text, "open_teacher", lambda path: teacher)
    write_corpus_text(tmp_path, shards, tmp_path / "text")
    assert (tmp_path / "text" / SOURCE).read_text() == "ab\ne\n"
    assert (tmp_path / "text" / TARGET).read_text() == "c d\n \n"


def test_text_of_which_nothing_is_left(teacher, tmp_path):
    shards = write_shards(tmp_path / "corpus", [[], []])
    message = f"^--text: 0 pairs came of it, too few to train on; the files in {shards} count what"
    with pytest.raises(UserError, match=message):
        write_corpus_text(teacher, shards, tmp_path / "text")
    assert not (tmp_path / "text").exists()


def test_broken_bytes_are_counted(made, teacher, tmp_path, capsys):
    """As translate-corpus counts them: such lines stay, with a character in place of the bytes."""
    files = (tmp_path / "s", tmp_path / "t")
    files[0].write_bytes(b"a1\na2 \xff\na3\na4\n")
    files[1].write_bytes(b"b1\nb2\n\xe2\x82 b3\nb4\n")
    good = TextPair(made / "raw/train.de", made / "raw/train.en")
    write_pieces(teacher, {"train": [good], "test": [TextPair(*files)]}, tmp_path / "out")
    assert read_lines(tmp_path / "out/raw.source") == ["a1", "a2 \ufffd", "a3", "a4"]
    assert read_lines(tmp_path / "out/raw.reference") == ["b1", "b2", "\ufffd b3", "b4"]
    counts = json.loads((tmp_path / "out/about.json").read_text())
    assert counts["test"] == {"kept": 4, "with broken bytes": 2}
    assert "with broken bytes" not in counts["train"]
    assert capsys.readouterr().err == (
        f"pet-fairseq compress: {files[0]}, {files[1]}: 2 of 4 lines: 2 with broken bytes "
        "(lines 2, 3)\n"
    )
