"""Training sets that a teacher wrote."""

import subprocess
import sys
import tracemalloc

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_dataset
from fairseq_cli import preprocess

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.translation import sequence_level
from pet_fairseq.recipes.translation.sequence_level import make_teacher_text, read_pairs
from tests.translation import WORDS

GOLD = {"de": ["w1 w2", "w3", "w4 w5"], "en": ["w5 w4", "w3", "w2"]}
# as fairseq-generate prints them: in the order of batches, the best translation first
OUTPUT = """\
INFO something
S-2\tw4 w5
T-2\tw2
H-2\t-0.1\tw2 w9
D-2\t-0.1\tw2 w9
H-2\t-0.9\tw2
S-0\tw1 w2
H-0\t-0.3\tw6
H-0\t-0.4\tw6 w6
H-0\t-0.5\t
S-1\tw3
H-1\t-0.2\tw7
"""


@pytest.fixture
def output(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(OUTPUT)
    return path


def test_pairs_of_the_best_translations(output):
    assert list(read_pairs(output)) == [
        (0, "w1 w2", "w6"),
        (1, "w3", "w7"),
        (2, "w4 w5", "w2 w9"),
    ]


def test_outputs_that_cannot_be_used(output):
    output.write_text(OUTPUT.replace("H-1", "D-1"))
    with pytest.raises(UserError, match="has 3 sources and translations of 2"):
        list(read_pairs(output))
    output.write_text("INFO nothing\n")
    with pytest.raises(UserError, match="has 0 sources and translations of 0"):
        list(read_pairs(output))
    output.write_bytes(OUTPUT.replace("w7", "w\xff").encode("latin-1"))
    broken = OUTPUT.index("w7") + 1
    with pytest.raises(UserError, match=rf"OUTPUT .*: not UTF-8 at byte {broken}, cut short"):
        list(read_pairs(output))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Binary data; fairseq-preprocess runs in this process, to save its start."""

    def run(command, **options):
        monkeypatch.setattr(sys, "argv", command)
        preprocess.cli_main()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(sequence_level.subprocess, "run", run)
    words = Dictionary()
    for word in WORDS:
        words.add_symbol(word)
    options = ["--source-lang", "de", "--target-lang", "en", "--workers", "1"]
    for (lang, lines), dictionary in zip(GOLD.items(), ("--srcdict", "--tgtdict")):
        words.save(str(tmp_path / f"dict.{lang}.txt"))
        options += [dictionary, str(tmp_path / f"dict.{lang}.txt")]
        for split in ("train", "valid", "test"):
            (tmp_path / f"{split}.{lang}").write_text("".join(f"{line}\n" for line in lines))
    for split in ("train", "valid", "test"):
        options += [f"--{split}pref", str(tmp_path / split)]
    run(["fairseq-preprocess", *options, "--destdir", str(tmp_path / "bin")])
    return tmp_path / "bin"


def text_of(folder, split, lang):
    words = Dictionary.load(str(folder / f"dict.{lang}.txt"))
    dataset = make_dataset(str(folder / f"{split}.de-en.{lang}"), impl="mmap")
    return [words.string(dataset[i]) for i in range(len(dataset))]


def test_the_teachers_text_alone(output, data, tmp_path):
    make_teacher_text(output, data, "de", "en", tmp_path / "out")
    assert text_of(tmp_path / "out", "train", "de") == GOLD["de"]
    assert text_of(tmp_path / "out", "train", "en") == ["w6", "w7", "w2 w9"]
    for split in ("valid", "test"):
        assert text_of(tmp_path / "out", split, "en") == GOLD["en"]


def test_pairs_that_are_empty_or_left_out(output, data, tmp_path):
    """The teacher says something to nothing; what is too long for it is not in its output."""
    text = "S-1\t\nH-1\t-0.1\tw6 w6\nS-0\tw1 w2\nH-0\t-0.3\tw6\n"
    output.write_text(text)
    found = make_teacher_text(output, data, "de", "en", tmp_path / "out")
    assert text_of(tmp_path / "out", "train", "de") == ["w1 w2", ""]
    assert text_of(tmp_path / "out", "train", "en") == ["w6", ""]
    assert found.summary() == "2 of 3 lines: 1 empty (line 2), 1 skipped (line 3)"
    output.write_text(text.replace("-1\t", "-2\t"))
    found = make_teacher_text(output, data, "de", "en", tmp_path / "other")
    assert found.summary() == "2 of 3 lines: 1 empty (line 3), 1 skipped (line 2)"


def test_only_places_are_kept_of_a_long_output(tmp_path):
    """Of 20,000 sentences of 2,000 characters, in an order of their own."""
    output = tmp_path / "train.txt"
    with output.open("w") as file:
        for i in reversed(range(20_000)):
            file.write(f"S-{i}\t{i}{' w' * 500}\nH-{i}\t-0.5\t{i}{' v' * 500}\n")
    tracemalloc.start()
    for i, pair in enumerate(read_pairs(output)):
        assert pair.number == i and pair.source.startswith(f"{i} w")
        assert pair.translation.startswith(f"{i} v")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert i == 19_999 and peak < output.stat().st_size / 5
