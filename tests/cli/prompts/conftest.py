"""Folders for a recipe that makes prompts."""

from pathlib import Path

import pytest

from tests.cli.prompts.downloads import XSUM, XSUM_IDS


@pytest.fixture
def env(tmp_path) -> dict[str, str]:
    """No known sizes, output in a folder of its own."""
    names = ("movie_reviews.zip", XSUM, XSUM_IDS, "CoLA.zip")
    (tmp_path / "expected").write_text("".join(f"{name} -\n" for name in names))
    return {"EXPECTED": str(tmp_path / "expected"), "OUT": str(tmp_path / "out")}


@pytest.fixture
def public(tmp_path) -> Path:
    folder = tmp_path / "public"
    folder.mkdir()
    return folder
