"""Where recipes are found, and how their code is loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

from pet_fairseq.recipes import catalogue
from tests.cli.processes import REPO
from tests.recipes import RECIPES

OURS = REPO / "examples/_recipes"


def make_examples(folder: Path, text: str = "RECIPES = {}") -> Path:
    """A folder of examples whose recipes are this code."""
    (folder / "_recipes").mkdir(parents=True)
    (folder / "_recipes/__init__.py").write_text(text)
    return folder


def test_the_folder_that_was_given_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert catalogue.find_folder() == OURS
    make_examples(tmp_path / "examples")
    assert catalogue.find_folder() == Path("examples/_recipes")
    given = make_examples(tmp_path / "given")
    assert catalogue.find_folder(given) == given / "_recipes"
    assert catalogue.find_folder(tmp_path / "without") == Path("examples/_recipes")


def test_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "BESIDE_THE_PACKAGE", tmp_path / "no/_recipes")
    (tmp_path / "examples/_recipes").mkdir(parents=True)  # without code
    assert catalogue.find_folder() is None


def test_code_is_loaded_once_and_nothing_else_is_found_beside_it():
    module = sys.modules[catalogue.PACKAGE]
    assert catalogue.load_recipes(OURS) is RECIPES
    assert sys.modules[catalogue.PACKAGE] is module
    assert not [path for path in sys.path if "_recipes" in path]


def in_a_process(*lines: str) -> subprocess.CompletedProcess:
    start = ["import sys", "from pathlib import Path", "from pet_fairseq.recipes import catalogue"]
    return subprocess.run(
        [sys.executable, "-c", "\n".join([*start, *lines])],
        capture_output=True,
        text=True,
        cwd=REPO,
    )


def test_parts_of_the_code_find_each_other(tmp_path):
    folder = make_examples(tmp_path, "from .part import RECIPES")
    (folder / "_recipes/part.py").write_text("RECIPES = {'new': __name__}")
    load = f"print(catalogue.load_recipes(Path({str(folder / '_recipes')!r})))"
    assert in_a_process(load).stdout == "{'new': 'pet_fairseq_recipes.part'}\n"


def test_code_for_another_version(tmp_path):
    make_examples(tmp_path / "examples", "from pet_fairseq.recipes.catalogue import Gone")
    command = [sys.executable, "-m", "pet_fairseq.cli", "recipe", "multi30k"]
    environment = {"PYTHONPATH": str(REPO)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert "examples/_recipes: does not fit the pet_fairseq that is installed (cannot" in line
    assert line.endswith(f"by pip install -e {tmp_path}")


@pytest.mark.parametrize("words", [["--help"], ["compress", "--help"], ["demo-data", "--help"]])
def test_no_other_command_loads_them(words):
    lines = (
        "import contextlib",
        "from pet_fairseq.cli import main",
        f"with contextlib.suppress(SystemExit): main({words})",
        "print([name for name in sys.modules if name.startswith(('pet_fairseq_rec', 'yaml'))])",
    )
    assert in_a_process(*lines).stdout.splitlines()[-1] == "[]"
