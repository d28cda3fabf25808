"""A toy language and its teacher."""

import pytest

from tests.cli.processes import preprocess, write_text
from tests.translation import load_task, save_model


@pytest.fixture(scope="session")
def made(once):
    """Binary data of a toy language of whole words, and its raw text."""

    def fill(folder):
        write_text(folder / "raw", {"train": 300, "valid": 20, "test": 20})
        preprocess(folder / "raw", folder / "bin")

    return once("toy_text", fill)


@pytest.fixture
def teacher(made, tmp_path):
    task = load_task(made / "bin", max_source_positions=9, max_target_positions=9)
    save_model(tmp_path / "teacher.pt", task)
    return tmp_path / "teacher.pt"
