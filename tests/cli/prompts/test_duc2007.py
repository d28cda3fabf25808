"""examples/duc2007/prepare.sh on small data of our own; offline."""

import shutil

import pytest

from tests.cli.prompts.downloads import recipe, records, write_duc
from tests.cli.shell import refuses, sh

pytestmark = pytest.mark.slow


def test_duc2007(public, tmp_path):
    write_duc(public)
    sh(recipe("duc2007"), public, OUT=str(tmp_path / "out"), SPM="a.model", STAGES="raw")
    references = {n: [f"Summary {n} by {letter}." for letter in "BCD"] for n in ("01", "02")}
    references["01"][2] = "caf\u00e9"
    assert records(tmp_path / "out", "test") == [
        {
            "query": f"What is {number}? Why & how?",
            "prompt": f"{number} in XIE19980304.0061 A < B "
            f"{number} in NYT199807{number}.0137 A < B",
            "response": f"Summary {number} by B.",
            "references": references[number],
        }
        for number in ("01", "02")
    ]
    assert not (tmp_path / "out/raw/train.jsonl").exists()


def test_duc2007_with_something_missing(public, tmp_path):
    env = {"OUT": str(tmp_path / "out"), "SPM": "a.model", "STAGES": "raw"}
    refuses(sh(recipe("duc2007"), **env, check=False), "FOLDER: missing")
    refuses(sh(recipe("duc2007"), public, OUT=env["OUT"], check=False), "SPM: missing")
    for gone, message in (
        ("mainEval/ROUGE/models/D0702.M.250.A.*", "there is no summary D0702.M.250"),
        ("duc2007_testdocs/main/D0701A/NYT*", "there is no document D0701A/NYT19980701.0137"),
        ("duc2007_topics.sgml", "there is no duc2007_topics.sgml"),
    ):
        folder = tmp_path / "folder"
        folder.mkdir()
        write_duc(folder)
        for path in folder.glob(gone):
            path.unlink()
        refuses(sh(recipe("duc2007"), folder, **env, check=False), message)
        shutil.rmtree(folder)
    assert not (tmp_path / "out/raw").exists()
