"""A damaged checkpoint_last.pt is replaced by the newest readable checkpoint."""

import os
from pathlib import Path

import pytest
import torch

from pet_fairseq.checkpoints.repair import Repair, repair_folder
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from tests.checkpoints.written import cut, write_checkpoint


def read(path):
    return load_checkpoint(str(path), "checkpoint")["optimizer_history"][0]["num_updates"]


@pytest.fixture
def folder(tmp_path):
    """Checkpoints of updates 1 (oldest) to 3 and a copy of the last, as fairseq leaves them."""
    for updates, name in enumerate(["checkpoint1.pt", "checkpoint_best.pt", "checkpoint2.pt"], 1):
        write_checkpoint(tmp_path / name, updates)
        os.utime(tmp_path / name, (updates, updates))
    write_checkpoint(tmp_path / "checkpoint_last.pt", 3)
    return tmp_path


def test_repair_of_nothing(folder, tmp_path_factory):
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert repair_folder(folder) == Repair(None, None)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    assert repair_folder(tmp_path_factory.mktemp("empty")) == Repair(None, None)


@pytest.mark.parametrize("damage", [cut, Path.unlink, lambda path: path.write_bytes(b"")])
def test_repair_of_the_last_checkpoint(folder, damage):
    last = folder / "checkpoint_last.pt"
    damage(last)
    names = {p.name for p in folder.iterdir()} | {last.name}
    assert repair_folder(folder) == Repair(last, folder / "checkpoint2.pt")
    assert read(last) == 3
    assert {p.name for p in folder.iterdir()} == names
    assert repair_folder(folder) == Repair(None, None)


def test_repair_takes_the_newest_readable_one(folder):
    cut(folder / "checkpoint_last.pt")
    cut(folder / "checkpoint2.pt")
    torch.save([1, 2], folder / "checkpoint_other.pt")
    repair = repair_folder(folder)
    assert repair == Repair(folder / "checkpoint_last.pt", folder / "checkpoint_best.pt")
    assert read(repair.damaged) == 2


def test_repair_is_impossible(folder):
    for path in folder.iterdir():
        cut(path)
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with pytest.raises(UserError, match=f"{folder}/checkpoint_last.pt: damaged, and no other"):
        repair_folder(folder)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    with pytest.raises(UserError, match=f"{folder}/none: no such folder"):
        repair_folder(folder / "none")


def test_too_little_memory_is_no_damage(folder, monkeypatch):
    def load(*args, **options):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")

    monkeypatch.setattr(torch, "load", load)
    before = (folder / "checkpoint_last.pt").read_bytes()
    with pytest.raises(UserError, match=r"checkpoint_last\.pt: too little memory to read it"):
        repair_folder(folder)
    assert (folder / "checkpoint_last.pt").read_bytes() == before
