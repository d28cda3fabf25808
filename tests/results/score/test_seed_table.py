"""Scores over seeds: which folders are read."""

import json

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.results.score.tables import write_seeds_table


def test_names_are_those_of_folders(tmp_path):
    for seed, score in enumerate((50.0, 52.0), start=1):
        folder = tmp_path / f"k[4].seed{seed}"
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps({"accuracy": score}))
    assert "| k[4] | 2 | 51.00 ± 1.41 |" in write_seeds_table(tmp_path, ["k[4]"])
    for name in (f"{tmp_path}/k[4]", "k4", ""):
        with pytest.raises(UserError, match=r"no scores of .*; finish its runs or leave it out"):
            write_seeds_table(tmp_path, [name])
