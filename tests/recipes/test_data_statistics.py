"""The table of data sets, against counts of the text by plain loops."""

import shutil

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.data_statistics import format_statistics, read_statistics
from tests.cli.processes import run, write_text

SIZES = {"train": 37, "train1": 11, "valid": 5, "test": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Text, and the same in fairseq's format, its training set in two parts."""
    text, bin_folder = (tmp_path_factory.mktemp(name) for name in ("text", "bin"))
    write_text(text, SIZES)
    options = ["--source-lang", "de", "--target-lang", "en", "--destdir", bin_folder]
    options += ["--trainpref", text / "train", "--validpref", f"{text}/valid,{text}/train1"]
    run("fairseq-preprocess", *options, "--testpref", text / "test")
    for file in bin_folder.glob("valid1.*"):
        file.rename(file.with_name(file.name.replace("valid1", "train1")))
    return text, bin_folder


def test_equals_counts_of_the_text(data):
    text, bin_folder = data
    sides = read_statistics(bin_folder)
    assert [side.language for side in sides] == ["de", "en"]
    for side in sides:
        words, sentences, tokens = set(), {}, {}
        for name in SIZES:
            subset = "train" if name == "train1" else name
            for line in (text / f"{name}.{side.language}").read_text().splitlines():
                sentences[subset] = sentences.get(subset, 0) + 1
                tokens[subset] = tokens.get(subset, 0) + len(line.split()) + 1  # and its end
                if name == "train":  # fairseq makes its dictionaries of this part alone
                    words |= set(line.split())
        assert side.sentences == sentences and side.tokens == tokens
        filled = len(words) + 4
        while filled % 8:  # fairseq fills a dictionary up to a multiple of 8
            filled += 1
        assert side.classes == filled


def test_an_empty_part_has_no_sentences(data, tmp_path):
    """fairseq-preprocess writes an empty file for it, which numpy cannot read."""
    folder = shutil.copytree(data[1], tmp_path / "bin")
    for side in ("de", "en"):
        (folder / f"test.de-en.{side}.bin").write_bytes(b"")
    counted, whole = read_statistics(folder)[0], read_statistics(data[1])[0]
    assert (counted.sentences["test"], counted.tokens["test"]) == (0, 0)
    assert counted.sentences["train"] == whole.sentences["train"]
    for path in folder.glob("train*.bin"):
        path.write_bytes(b"")
    with pytest.raises(UserError, match="has no training data"):
        read_statistics(folder)


def test_the_table(data):
    out = run("pet-fairseq", "statistics", data[1], data[1]).output
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines()]
    de, en = read_statistics(data[1])
    assert len(rows) == 2 + 4 and rows[2] == rows[4]
    assert rows[0] == [
        *("data set", "language", "classes", "sentences", "tokens", "tokens a sentence"),
        *("valid", "test"),
    ]
    mean = f"{en.tokens['train'] / 48:.1f}"
    tokens = f"{en.tokens['train']}"
    assert rows[3] == [str(data[1]), "en", f"{en.classes}", "48", tokens, mean, "5", "3"]
    assert format_statistics([de, en]).splitlines()[3].startswith(f"| {data[1]} ")


def test_other_folders_are_refused(data, tmp_path):
    with pytest.raises(UserError, match=f"BIN {tmp_path}/none: no such folder"):
        read_statistics(tmp_path / "none")
    for folder in (tmp_path, data[0]):
        with pytest.raises(UserError, match=f"BIN {folder}: has no training data"):
            read_statistics(folder)
