"""A teacher and a student on tiny generated data, made once for all tests."""

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
