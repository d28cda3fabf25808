"""A teacher and a student on tiny generated data, made once for all tests."""

import os
import sys
from pathlib import Path

import pytest

from tests.cli.processes import CROSS_ENTROPY, Result, preprocess, train, write_text


@pytest.fixture(scope="session")
def raw(once) -> Path:
    return once("raw", lambda folder: write_text(folder, {"train": 300, "valid": 30, "test": 30}))


@pytest.fixture(scope="session")
def data(raw, once) -> Path:
    return once("data", lambda folder: preprocess(raw, folder))


@pytest.fixture(scope="session")
def teacher(data, once) -> Path:
    """A plain fairseq Transformer, trained a little."""
    options = ("--arch", "transformer_tiny", *CROSS_ENTROPY, "--max-update", "60")
    return once("teacher", lambda folder: train(data, folder, *options)) / "checkpoint_best.pt"


@pytest.fixture(scope="session")
def student_options(teacher) -> tuple:
    return (
        *("--arch", "pet_transformer_tiny", "--criterion", "pet_distillation"),
        *("--teacher-path", str(teacher)),
    )


@pytest.fixture(scope="session")
def student(data, student_options, once) -> tuple[Path, Result]:
    """A PET student of that teacher: its folder and the log of its training."""

    def fill(folder):
        log = train(data, folder, *student_options, "--max-update", "60").output
        (folder / "train.log").write_text(log)

    folder = once("student", fill)
    return folder, Result(0, (folder / "train.log").read_text())


COMET = """
from types import SimpleNamespace
import json, os

def download_model(name):
    if name != "Unbabel/tiny":
        raise KeyError(f"Model '{name}' not supported by COMET.")
    return os.environ["COMET_MODEL"]

def load_from_checkpoint(path):
    assert open(path).read() == "weights"
    return Model()

class Model:
    def predict(self, samples, batch_size, gpus, progress_bar):
        assert gpus == 0 and not progress_bar
        scores = [len(s["src"]) + len(s["mt"]) / 10 + len(s["ref"]) / 100 for s in samples]
        return SimpleNamespace(scores=scores, system_score=sum(scores) / len(scores))
"""


@pytest.fixture
def comet(tmp_path, monkeypatch):
    """A package that has COMET's functions; its folder with a model."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library/comet.py").write_text(COMET)
    monkeypatch.syspath_prepend(tmp_path / "library")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"), prepend=os.pathsep)
    monkeypatch.delitem(sys.modules, "comet", raising=False)
    model = tmp_path / "model/checkpoints/model.ckpt"
    model.parent.mkdir(parents=True)
    model.write_text("weights")
    monkeypatch.setenv("COMET_MODEL", str(model))
    yield tmp_path / "model"
    sys.modules.pop("comet", None)
