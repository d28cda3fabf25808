"""Every test starts from the same random state, on one thread; what is costly is made once."""

import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock

import pet_fairseq

pet_fairseq.register()  # as --user-dir does
torch.set_num_threads(1)


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("torch finds no GPU here")


@pytest.fixture(autouse=True)
def seed():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


@pytest.fixture(autouse=True)
def log_levels():
    """A command that a test runs here silences loggers; the next test has them as they were."""
    loggers = [logging.getLogger(name) for name in ("fairseq", "pet_fairseq")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels):
        logger.setLevel(level)


@pytest.fixture(autouse=True)
def cold(request, monkeypatch):
    """In tests marked so, commands start with nothing loaded."""
    if request.node.get_closest_marker("cold"):
        monkeypatch.setenv("PET_FAIRSEQ_COLD", "1")


@pytest.fixture(scope="session")
def once(tmp_path_factory, worker_id) -> Callable[[str, Callable[[Path], object]], Path]:
    """A maker of folders that all workers of a run share: the first one to ask for it fills it."""
    root = tmp_path_factory.getbasetemp()
    shared = (root if worker_id == "master" else root.parent) / "shared"
    shared.mkdir(exist_ok=True)

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder, complete = shared / name, shared / f"{name}.complete"
        with FileLock(shared / f"{name}.lock"):
            if not complete.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                complete.touch()
        return folder

    return make


@pytest.fixture(scope="session")
def prepared(once) -> Path:
    """A folder with what the cases of tests/distributed read: dictionaries and small models."""
    from tests.distributed.cases import prepare  # here: most tests do without it

    return once("prepared", prepare)
