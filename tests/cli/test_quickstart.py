"""examples/quickstart.ipynb runs from top to bottom; here with trainings of a few updates."""

import json
import re

import pytest

from tests.cli.processes import REPO, run, start

NOTEBOOK = REPO / "examples" / "quickstart.ipynb"


def test_the_notebook_is_in_jupyters_format():
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook["nbformat"] == 4
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        code = {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"id", "cell_type", "metadata", "source"} | code


def test_a_command_that_fails_ends_it(tmp_path):
    cell = {"cell_type": "code", "source": ["!echo begun && exit 3"], "outputs": []}
    never = {"cell_type": "code", "source": ["print('never')"], "outputs": []}
    path = tmp_path / "failing.ipynb"
    path.write_text(json.dumps({"cells": [cell, never]}))
    done = run("python", REPO / "scripts" / "docs" / "run_notebook.py", path, check=False)
    assert done.status == 1 and "begun\n" in done.output and "\nnever" not in done.output
    assert "error: a command of this cell failed with status 3: !echo" in done.output


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    pytest.importorskip("ctranslate2")
    command = (REPO / "scripts" / "docs" / "run_notebook.py", NOTEBOOK, "--folder", tmp_path)
    short = {"TEACHER_UPDATES": "60", "STUDENT_UPDATES": "20"}
    process = start("python", *command, env=short)
    output, _ = process.communicate(timeout=1800)
    assert process.returncode == 0, output[-3000:]
    assert re.search(r"^teacher +\d+\.\d\d +\d+\.\d +[\d,]+$", output, re.MULTILINE)
    assert output.count("\nsource ") == 10
    assert (tmp_path / "runs" / "quickstart" / "small" / "report.md").is_file()
