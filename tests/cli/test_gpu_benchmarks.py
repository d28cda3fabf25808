"""The run of everything that needs a GPU: its slices, and all of it at tiny size on the CPU."""

import importlib.util
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

from pet_fairseq.errors import UserError
from tests.cli.processes import REPO, run

SCRIPT = REPO / "scripts/benchmarks/gpu.py"


@pytest.fixture
def gpu(monkeypatch):
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("gpu_benchmarks", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def args(tmp_path):
    return Namespace(
        **{"out": tmp_path / "out", "minutes": 9.0, "device": "cpu", "again": False},
        **{"tiny": True, "multi30k": None},
    )


def part(gpu, folder, name, script="echo figures >$0", minutes=1.0, **options):
    """A slice of a shell script; $0 is the product."""
    product = folder / "out" / f"{name}.md"
    command = ("sh", "-c", f"echo {name} >>{folder}/ran; {script}", str(product))
    return gpu.Slice(name, f"About {name}", minutes, command, product, product, **options)


def call(gpu, args, monkeypatch, parts, minutes=9.0):
    """One call; whether nothing is left, and the summary."""
    monkeypatch.setattr(gpu, "slices", lambda _: parts)
    args.out.mkdir(exist_ok=True)
    args.minutes = minutes
    complete = gpu.run_call(args, time.monotonic())
    gpu.write_summary(args, gpu.Notes(args.out))
    return complete, (args.out / "summary.md").read_text()


def ran(folder):
    return (folder / "ran").read_text().split()


def test_what_does_not_fit_is_left_for_the_next_call(gpu, args, monkeypatch, tmp_path):
    parts = [part(gpu, tmp_path, "a"), part(gpu, tmp_path, "b", minutes=6.0)]
    complete, text = call(gpu, args, monkeypatch, parts, minutes=5.0)
    assert not complete and ran(tmp_path) == ["a"] and "Still to do: b." in text
    complete, text = call(gpu, args, monkeypatch, parts, minutes=5.0)  # alone it is tried
    assert complete and ran(tmp_path) == ["a", "b"]
    assert "Nothing is left to do." in text
    assert text.index("## About a") < text.index("## About b") and text.count("figures") >= 4


def test_a_failure_is_named_and_stops_nothing(gpu, args, monkeypatch, tmp_path):
    parts = [part(gpu, tmp_path, "a", "echo broken; exit 3"), part(gpu, tmp_path, "b")]
    complete, text = call(gpu, args, monkeypatch, parts)
    assert complete and ran(tmp_path) == ["a", "b"]
    assert "Failed: a: sh failed with status 3: broken" in text and "## About a" not in text
    call(gpu, args, monkeypatch, parts)
    assert ran(tmp_path) == ["a", "b"]
    args.again = True
    call(gpu, args, monkeypatch, parts)
    assert ran(tmp_path) == ["a", "b", "a"]


@pytest.mark.slow
def test_a_call_ends_in_time_and_goes_on(gpu, args, monkeypatch, tmp_path):
    slow = f"test -e {tmp_path}/half && echo whole >$0 || {{ touch {tmp_path}/half; sleep 60; }}"
    parts = [part(gpu, tmp_path, "a"), part(gpu, tmp_path, "b", slow, can_be_cut=True)]
    call(gpu, args, monkeypatch, parts[:1])
    begun = time.monotonic()
    complete, text = call(gpu, args, monkeypatch, parts, minutes=2 / 60)
    assert not complete and time.monotonic() - begun < 30 and "Still to do: b." in text
    while not (tmp_path / "half").exists():  # where others use the machine
        call(gpu, args, monkeypatch, parts, minutes=2 / 60)
    cut = ran(tmp_path)
    assert cut == ["a", *["b"] * (len(cut) - 1)] and "b" in cut
    complete, text = call(gpu, args, monkeypatch, parts)
    assert complete and "whole" in text and ran(tmp_path) == [*cut, "b"]


def test_a_slice_that_never_fits_fails(gpu, args, monkeypatch, tmp_path):
    parts = [part(gpu, tmp_path, "a", "sleep 60")]
    complete, text = call(gpu, args, monkeypatch, parts, minutes=1 / 60)
    assert not complete and "Failed: did not end within the minutes of a call" in text


def test_other_options_are_refused(gpu, args, monkeypatch, tmp_path):
    call(gpu, args, monkeypatch, [part(gpu, tmp_path, "a")])
    with pytest.raises(UserError, match="was made otherwise"):
        call(gpu, args, monkeypatch, [part(gpu, tmp_path, "a", "echo other >$0")])


def test_dry_run_and_no_gpu(tmp_path):
    out = run("python", SCRIPT, "--dry-run", "--multi30k", tmp_path, cwd=tmp_path).output
    assert "--words 128000" in out and "# multi30k: 14 minutes" in out
    assert "pet_patient" in out and list(tmp_path.iterdir()) == []
    total = float(out.split("\n# ")[-1].split()[0])
    assert total <= 40
    result = run("python", SCRIPT, check=False, cwd=tmp_path)
    assert result.status == 1
    assert (
        result.output
        == "gpu.py: error: --device cuda: torch finds no GPU here; give --device cpu\n"
    )


@pytest.mark.slow
def test_everything_at_tiny_size(tmp_path):
    options = ("--tiny", "--device", "cpu", "--jobs", "2", "--minutes", "30")
    out = run("python", SCRIPT, *options, "--out", tmp_path / "out", cwd=tmp_path).output
    text = Path(tmp_path / "out/summary.md").read_text()
    assert "nothing is left to do" in out and "Failed" not in text and "left out" not in text
    assert text.count("\n## ") == 12
    for engine in ("fairseq", "fast", "ctranslate2", "ctranslate2 int8"):
        assert f"| {engine} |" in text
