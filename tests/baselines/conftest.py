"""Tiny generated data for the real commands, made once for all tests of this folder."""

from pathlib import Path

import pytest

from tests.cli.processes import CROSS_ENTROPY, preprocess, train, write_text


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    raw = tmp_path_factory.mktemp("raw")
    write_text(raw, {"train": 200, "valid": 20, "test": 20})
    return preprocess(raw, tmp_path_factory.mktemp("data") / "bin")


@pytest.fixture(scope="session")
def teacher(data, tmp_path_factory) -> Path:
    """A plain fairseq Transformer of 4 + 3 layers, 40 wide, trained a little."""
    folder = tmp_path_factory.mktemp("teacher")
    train(
        *(data, folder, "--arch", "transformer_tiny", *CROSS_ENTROPY, "--max-update", "20"),
        *("--encoder-embed-dim", "40", "--encoder-layers", "4", "--decoder-layers", "3"),
    )
    return folder / "checkpoint_last.pt"
