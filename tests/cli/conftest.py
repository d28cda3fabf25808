"""A teacher and a student on tiny generated data, made once for all tests of this folder."""

from pathlib import Path

import pytest

from tests.cli.processes import CROSS_ENTROPY, Result, preprocess, train, write_text


@pytest.fixture(scope="session")
def raw(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    write_text(folder, {"train": 300, "valid": 30, "test": 30})
    return folder


@pytest.fixture(scope="session")
def data(raw, tmp_path_factory) -> Path:
    return preprocess(raw, tmp_path_factory.mktemp("data") / "bin")


@pytest.fixture(scope="session")
def teacher(data, tmp_path_factory) -> Path:
    """A plain fairseq Transformer, trained a little."""
    folder = tmp_path_factory.mktemp("teacher")
    train(data, folder, "--arch", "transformer_tiny", *CROSS_ENTROPY, "--max-update", "60")
    return folder / "checkpoint_best.pt"


@pytest.fixture(scope="session")
def student_options(teacher) -> tuple:
    return (
        *("--arch", "pet_transformer_tiny", "--criterion", "pet_distillation"),
        *("--teacher-path", str(teacher)),
    )


@pytest.fixture(scope="session")
def student(data, student_options, tmp_path_factory) -> tuple[Path, Result]:
    """A PET student of that teacher: its folder and the log of its training."""
    folder = tmp_path_factory.mktemp("student")
    return folder, train(data, folder, *student_options, "--max-update", "60")
