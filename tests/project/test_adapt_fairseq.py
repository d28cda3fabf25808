"""What Python 3.14 needs of the installed fairseq, on a copy of its file."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Optional

import fairseq
import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/environment/adapt_fairseq.py"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load(SCRIPT)


@pytest.fixture
def file(tmp_path) -> Path:
    """fairseq's file as it was released."""
    copy = tmp_path / "utils.py"
    shutil.copy(Path(fairseq.__file__).parents[1] / script.FILE, copy)
    copy.write_text(copy.read_text().replace(script.AFTER, script.BEFORE))
    return copy


def test_a_type_printed_as_python_3_14_does(file):
    """`int | None` is printed so by every Python, and `Optional[int]` by 3.14."""
    assert load(file).interpret_dc_type(int | None) is not int
    assert script.adapt(file)
    adapted = load(file).interpret_dc_type
    for optional in (int | None, Optional[int]):
        assert adapted(optional) is int
    assert adapted(list[int] | None) == list[int]
    assert adapted(float) is float


def test_a_second_time_nothing_changes(file):
    script.adapt(file)
    text = file.read_text()
    assert not script.adapt(file)
    assert file.read_text() == text and list(file.parent.iterdir()) == [file]


def test_another_fairseq_stays_as_it_is(file):
    file.write_text("# rewritten\n")
    with pytest.raises(ValueError, match="not as in fairseq-fixed"):
        script.adapt(file)
    assert file.read_text() == "# rewritten\n"


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="it is what needs the change")
def test_an_older_python_needs_no_change():
    installed = Path(fairseq.__file__).parents[1] / script.FILE
    before = installed.read_bytes()
    result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True)
    assert result.stdout == "" and installed.read_bytes() == before
