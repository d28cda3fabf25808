"""examples/glue/prepare.sh on tables of one's own."""

import pytest
from fairseq.data import Dictionary

from tests.cli.glue.tables import RECIPE, lines
from tests.cli.shell import sh

pytestmark = pytest.mark.slow


def write_table(path, header: str, rows: list[tuple[str, ...]]) -> None:
    path.write_text("\n".join([header, *("\t".join(row) for row in rows)]) + "\n")


def test_pairs_of_three_classes(env, tmp_path):
    rows = [(f"{i}", f"left {i}", ("yes", "no", "maybe")[i % 3], f"right {i}") for i in range(30)]
    for name, some in (("train", rows[:20]), ("dev", rows[20:26]), ("test", rows[26:])):
        write_table(tmp_path / f"{name}.tsv", "id\tsentence1\tlabel\tsentence2", some)
    sh(RECIPE, "own", tmp_path, **env, BPE_MERGES="20")
    out = tmp_path / "out"
    for split, some in (("train", rows[:20]), ("valid", rows[20:26]), ("test", rows[26:])):
        assert lines(out / f"raw/{split}.sentence1") == [row[1] for row in some]
        assert lines(out / f"raw/{split}.sentence2") == [row[3] for row in some]
        assert lines(out / f"raw/{split}.label") == [row[2] for row in some]
        assert lines(out / f"raw/{split}.text") == [f"{row[1]} {row[3]}" for row in some]
        assert lines(out / f"raw/{split}.answer") == [row[2] for row in some]
    labels = Dictionary.load(str(out / "classes/label/dict.txt"))
    assert labels.symbols[labels.nspecial :] == ["maybe", "no", "yes"]
    assert (out / "classes/input1/dict.txt").is_file()


def test_single_sentences_without_a_test_table(env, tmp_path):
    """The dev set is for testing then, and a part of train for validation, as in GLUE."""
    rows = [(f"text {i}", f"c{i % 2}") for i in range(12)]
    write_table(tmp_path / "train.tsv", "sentence\tlabel", rows)
    write_table(tmp_path / "dev.tsv", "sentence\tlabel", rows[:3])
    sh(RECIPE, "own", tmp_path, **env, BPE_MERGES="20")
    raw = tmp_path / "out/raw"
    assert lines(raw / "test.sentence1") == ["text 0", "text 1", "text 2"]
    assert len(lines(raw / "train.label")) + len(lines(raw / "valid.label")) == 12
    assert not (raw / "test.sentence2").exists()
    assert not (tmp_path / "out/classes/input1").exists()
