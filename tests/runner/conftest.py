"""What tests of the runner start from."""

import pytest


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "input").write_text("a\n")
    return tmp_path
