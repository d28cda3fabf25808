"""A small part of what scripts/reliability does, and that its checks can fail."""

import argparse
import sys

import pytest

from pet_fairseq.errors import UserError
from tests.cli.processes import REPO, run

SCRIPTS = REPO / "scripts/reliability"


@pytest.mark.slow
def test_wrong_inputs():
    result = run("python", SCRIPTS / "fuzz.py", "--inputs", "100", check=False)
    assert result.status == 0, result.output[-3000:]
    rows = [line.split() for line in result.output.splitlines()]
    assert len([row for row in rows if row[-1:] == ["0"]]) >= 14, result.output


@pytest.fixture
def fuzz(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import fuzz

    monkeypatch.setattr(fuzz, "SECONDS", 1)
    yield fuzz
    for name in [name for name in sys.modules if name.split("_")[0] == "fuzz"]:
        sys.modules.pop(name)


def hang():
    while True:
        pass


def eat_memory():
    return [bytearray(1 << 28) for _ in range(8)]


def refuse():
    raise UserError("one line")


def crash():
    raise KeyError("no such thing")


def several_lines():
    error = UserError("")
    error.args = ("one line\nand another",)
    raise error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "failures", "text"),
    [
        (refuse, 0, ""),
        (crash, 3, "KeyError"),
        (hang, 3, "took 1 s"),
        (eat_memory, 3, "MemoryError"),
        (several_lines, 3, "several lines"),
    ],
)
def test_what_counts_as_a_failure(read, failures, text, fuzz, monkeypatch, capfd):
    monkeypatch.setitem(fuzz.READERS, "reader", lambda folder: lambda draw: read)
    args = argparse.Namespace(inputs=3, seed=1, only=None)
    assert fuzz.fuzz("reader", args) == failures
    assert text in capfd.readouterr().out


@pytest.mark.slow
def test_a_disk_without_room():
    """The writers that need no trained model."""
    writers = ("demo-data", "score table", "import-bert", "prompts")
    result = run("python", SCRIPTS / "disk_full.py", "--writers", *writers, check=False)
    if "cannot mount" in result.output:
        pytest.skip("only root may mount a disk")
    assert result.status == 0, result.output[-3000:]
    rows = [line for line in result.output.splitlines() if " of 4  " in line]
    assert len(rows) == len(writers) and "4 of 4  0" in rows[0]


@pytest.mark.slow
def test_kills():
    result = run("python", SCRIPTS / "kill.py", "--kills", "3", check=False)
    assert result.status == 0, result.output[-3000:]
    assert "3 kills" in result.output and result.output.endswith("0 failed\n")
