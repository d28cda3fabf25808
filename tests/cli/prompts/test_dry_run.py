"""The commands that the recipes of prompts would give."""

import os
import shutil

import pytest

from tests.cli.processes import BIN
from tests.cli.prompts.downloads import XSUM_IDS, recipe
from tests.cli.shell import sh

pytestmark = pytest.mark.slow

SETS = ("movie_reviews", "cicero", "xsum", "arxiv", "cola", "duc2007")
URLS = {
    "movie_reviews": "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/"
    "movie_reviews.zip",
    "cicero": "https://github.com/declare-lab/CICERO/releases/download/v2.0.0/data.zip",
    "xsum": f"https://raw.githubusercontent.com/EdinburghNLP/XSum/master/XSum-Dataset/{XSUM_IDS}",
    "arxiv": "https://archive.org/download/armancohan-long-summarization-paper-code/"
    "arxiv-dataset.zip",
    "cola": "https://dl.fbaipublicfiles.com/glue/data/CoLA.zip",
}


@pytest.mark.paper
@pytest.mark.parametrize("name", SETS)
def test_dry_run_prints_commands_and_writes_nothing(name, tmp_path, public):
    env = {"OUT": str(tmp_path / "out"), "DRY_RUN": "1", "TEXT": "a b.txt:c.txt"}
    out = sh(recipe(name), *([public] if name == "duc2007" else []), **env).stdout
    commands = {line.split()[1] for line in out.splitlines() if line.startswith("+ ")}
    assert {"python3", "pet-fairseq"} <= commands
    path = f"{BIN}:{os.environ['PATH']}"
    assert all(shutil.which(command, path=path) for command in commands)
    assert URLS.get(name, "") in out and r"--text a\ b.txt c.txt" in out
    assert [path.name for path in tmp_path.iterdir()] == ["public"]
