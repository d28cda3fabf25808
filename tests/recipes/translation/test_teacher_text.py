"""Training sets that a teacher wrote."""

import subprocess
import sys

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_dataset
from fairseq_cli import preprocess

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.translation import teacher_text
from pet_fairseq.recipes.translation.teacher_text import make_teacher_text, read_pairs
from tests.translation import WORDS, load_task

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
    assert read_pairs(output) == (["w1 w2", "w3", "w4 w5"], ["w6", "w7", "w2 w9"])
    assert read_pairs(output, 2) == (
        ["w1 w2", "w1 w2", "w3", "w4 w5", "w4 w5"],
        ["w6", "w6 w6", "w7", "w2 w9", "w2"],  # a beam may end with fewer
    )
    assert len(read_pairs(output, 3)[0]) == 6


def test_outputs_that_cannot_be_used(output, tmp_path):
    with pytest.raises(UserError, match=r"--nbest 4: .*train.txt has 3 translations of each"):
        read_pairs(output, 4)
    output.write_text(OUTPUT.replace("H-1", "D-1"))
    with pytest.raises(UserError, match="has 3 sources and translations of 2"):
        read_pairs(output)
    with pytest.raises(UserError, match="--nbest 0: give 1 or more"):
        make_teacher_text(output, tmp_path, "de", "en", tmp_path / "out", nbest=0)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Binary data; fairseq-preprocess runs in this process, to save its start."""

    def run(command, **options):
        monkeypatch.setattr(sys, "argv", command)
        preprocess.cli_main()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(teacher_text.subprocess, "run", run)
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
    assert text_of(tmp_path / "out", "valid", "en") == GOLD["en"]


def test_fairseq_trains_on_gold_and_on_all_hypotheses(output, data, tmp_path):
    out = tmp_path / "out"
    make_teacher_text(output, data, "de", "en", out, nbest=2, keep_gold=True)
    task = load_task(out, dataset_impl="mmap")
    task.load_dataset("train", combine=True)  # as fairseq-train does
    pairs = task.dataset("train")
    words = task.target_dictionary
    found = [(words.string(pairs.src[i]), words.string(pairs.tgt[i])) for i in range(len(pairs))]
    gold = list(zip(GOLD["de"], GOLD["en"]))
    assert found == [*gold, *zip(*read_pairs(output, 2))]
    assert text_of(out, "valid", "en") == text_of(out, "test", "en") == GOLD["en"]
    assert {path.name.split(".")[0] for path in out.glob("*.idx")} == {"train", "valid", "test"}
    (data / "train.de-en.en.idx").unlink()
    with pytest.raises(UserError, match=r"--keep-gold: .*train.de-en.en.idx is missing"):
        make_teacher_text(output, data, "de", "en", tmp_path / "other", keep_gold=True)
    assert not (tmp_path / "other").exists()
