"""A folder with a teacher and a student, and the report on it."""

import json

import pytest

from pet_fairseq.results.report.write import write_report
from tests.results.report.made import REFERENCE, WORSE, save_run


@pytest.fixture
def runs(tmp_path):
    """A teacher and a narrower student of two layers that share parameters; beam 5 twice."""
    save_run(tmp_path / "teacher", 32, {(5, 1): (REFERENCE, 10.0), (5, 2): (REFERENCE, 30.0)})
    student = dict(arch="pet_transformer", encoder_layers=2, decoder_layers=2)
    student |= dict(encoder_pairs="layers", decoder_pairs="layers")
    outputs = {(5, 1): (WORSE, 40.0), (5, 2): (WORSE, 120.0)}
    save_run(tmp_path / "student", 8, outputs, **student)
    (tmp_path / "student" / "name.txt").write_text("Small one\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "reference.txt").write_text("\n".join(REFERENCE) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def report(runs):
    """Writes the report; returns its text and the JSON's rows by name."""

    def call(**options):
        text = write_report(runs, runs / "reference.txt", **options)
        assert (runs / "report.md").read_text(encoding="utf-8") == text
        return text, {row["name"]: row for row in json.loads((runs / "report.json").read_text())}

    return call
