"""Recipes that work in the current folder: `--runs .`, and `--data .` too."""

from pathlib import Path

import pytest

import pet_fairseq
from pet_fairseq.runner.record import make_record
from pet_fairseq.runner.stage import PRODUCT, Kind
from tests.recipes import RECIPES
from tests.recipes.paper import pipeline

pytestmark = pytest.mark.paper

pet_fairseq.register()
GIVEN = {
    "glue": ("--task", "rte"),
    "language_model": ("--model", "smollm2"),
    "own_data": ("--source-lang", "de", "--target-lang", "en"),
}


@pytest.mark.parametrize("data", [(), ("--data", ".")])
@pytest.mark.parametrize("name", list(RECIPES))
def test_a_command_that_writes_is_told_where(name, data, tmp_path, monkeypatch):
    """The runner puts a temporary name in the product's place."""
    monkeypatch.chdir(tmp_path)
    found = pipeline(name, Path("runs"), *GIVEN.get(name, ()), "--runs", ".", *data).stages
    writing = [stage for stage in found if stage.kind is Kind.WRITES and not stage.always]
    for stage in writing:
        assert stage.command.count(PRODUCT) == 1, stage.name


def test_records_of_the_current_folder_stay_valid(tmp_path, monkeypatch):
    """They hold the paths as they are: `.` has no name that could stand before them."""
    monkeypatch.chdir(tmp_path)
    Path("bin/lm").mkdir(parents=True)
    found = pipeline("xsum", Path("runs"), "--data", "bin", "--runs", ".")
    record = make_record(found.stages[0], found.places, finished=True)
    place = record.command.index("--save-dir")
    assert record.command[place + 1] == "backbone" and list(record.inputs) == ["DATA/lm"]
