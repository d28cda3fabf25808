"""Where recipes are found, and how their code is loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

from pet_fairseq.cli import main
from pet_fairseq.recipes import catalogue
from tests.cli.processes import REPO, run
from tests.recipes import RECIPES

OURS = REPO / "examples/_recipes"
NEW = """
from .part import add_options, build
from pet_fairseq.recipes.catalogue import Recipe

RECIPES = {"new": Recipe("a new one", add_options, build)}
"""
PART = """
from pet_fairseq.runner.pipeline import Pipeline
from pet_fairseq.runner.stage import Stage

def add_options(parser):
    parser.add_argument("--word")

def build(args, place):
    command = ("echo", args.word, __name__, str(place.base))
    return Pipeline([Stage("one", ("one",), command, place.base / "product")], place.base, {})
"""


def make_examples(folder: Path, init: str = NEW) -> Path:
    """A folder of examples with recipes."""
    (folder / "_recipes").mkdir(parents=True)
    (folder / "_recipes/__init__.py").write_text(init)
    (folder / "_recipes/part.py").write_text(PART)
    return folder


def test_the_folder_that_was_given_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert catalogue.find_folder() == OURS
    make_examples(tmp_path / "examples")
    assert catalogue.find_folder() == Path("examples/_recipes")
    given = make_examples(tmp_path / "given")
    assert catalogue.find_folder(given) == given / "_recipes"
    assert catalogue.find_folder(tmp_path / "without") == Path("examples/_recipes")


def test_code_is_loaded_once_and_nothing_else_is_found_beside_it():
    module = sys.modules[catalogue.PACKAGE]
    assert catalogue.load_recipes(OURS) is RECIPES
    assert sys.modules[catalogue.PACKAGE] is module
    assert not [path for path in sys.path if "_recipes" in path]


def test_no_other_command_loads_it():
    lines = (
        "import contextlib, sys",
        "from pet_fairseq.cli import main",
        "for words in (['--help'], ['compress', '--help'], ['demo-data', '--help']):",
        "    with contextlib.suppress(SystemExit): main(words)",
        "print([name for name in sys.modules if name.endswith(('_recipes', 'recipes.settings'))])",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_recipes_of_other_folders(tmp_path):
    """Those of the current folder, and those beside the folder that was named."""
    make_examples(tmp_path / "examples")
    listed = run("pet-fairseq", "recipe", "--help", cwd=tmp_path).output
    assert "  new              a new one" in listed and "multi30k" not in listed
    given = make_examples(tmp_path / "given/examples") / "new"
    for name, base in (("new", "runs"), (given, f"{tmp_path}/given/runs")):
        words = ("--word", "hello", "--device", "cpu", "--dry-run")
        shown = run("pet-fairseq", "recipe", name, *words, cwd=tmp_path).output
        assert shown.splitlines()[-1] == f"echo hello pet_fairseq_recipes.part {base}"


def test_code_for_another_version(tmp_path):
    make_examples(tmp_path / "examples", "from pet_fairseq.recipes.catalogue import Gone")
    result = run("pet-fairseq", "recipe", "new", cwd=tmp_path, check=False)
    (line,) = result.output.splitlines()
    assert result.status == 1
    assert "examples/_recipes: does not fit the pet_fairseq that is installed (cannot" in line
    assert line.endswith(f"by pip install -e {tmp_path}")


@pytest.fixture
def without_examples(tmp_path, monkeypatch):
    """As after an installation from a wheel."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "BESIDE_THE_PACKAGE", tmp_path / "no/_recipes")
    (tmp_path / "examples/_recipes").mkdir(parents=True)  # without code


def test_the_demo_needs_no_examples(without_examples, capsys):
    """All of its rows and the sizes that are not the papers'."""
    for size in ("small", "demo", "tiny"):
        words = ["demo", "--rows", "all", "--size", size, "--device", "cpu", "--dry-run"]
        assert main(["recipe", *words]) == 0
        assert "# pet_patient_int4.seed1\n" in capsys.readouterr().out
    assert main(["recipe", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "\n  demo " in shown and "multi30k " not in shown and "clone it" in shown


def test_other_recipes_are_said_to_be_in_the_repository(without_examples, capsys):
    assert main(["recipe", "multi30k", "--dry-run"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "recipe: error: multi30k: only the recipe demo is installed; the others are in" in line
    assert "clone it and work in the clone, or give one of its folders" in line
