"""What `make lint` has to see: mypy, as pyproject.toml sets it up, run on small modules."""

import re
import subprocess
import sys

import pytest

from tests.cli.processes import REPO

IMPORT = "from pet_fairseq.runner.stage import value_of\n"
WORDS = '["--lr", "1e-3"]'
FAIRSEQ_ERRORS = {
    "too few arguments": (f"value_of({WORDS})", "call-arg"),
    "too many arguments": (f'value_of({WORDS}, "--lr", 1)', "call-arg"),
    "None as an argument": (f'float(value_of({WORDS}, "--lr"))', "arg-type"),
    "an attribute of None": (f'value_of({WORDS}, "--lr").strip()', "union-attr"),
}


def check(folder, text):
    """The kinds of mistakes that mypy names in a module."""
    module = folder / "some_module.py"
    module.write_text(IMPORT + text)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache"), str(module)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return re.findall(r"some_module.py:\d+: error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checked")


@pytest.mark.slow
@pytest.mark.parametrize("head", ["", "def main():\n    ", "def main() -> None:\n    "])
@pytest.mark.parametrize("name", FAIRSEQ_ERRORS)
def test_mistakes_are_found_with_and_without_annotations(folder, name, head):
    text, kind = FAIRSEQ_ERRORS[name]
    assert check(folder, f"{head}{text}\n") == [kind]


def test_what_is_right_and_what_fairseq_defines_passes(folder):
    given = f'given = value_of({WORDS}, "--lr")\nrate = float(given) if given is not None else 0.0'
    assert (
        check(folder, f"from fairseq import tasks\n{given}\ntasks.setup_task(rate, 2, 3)\n") == []
    )
