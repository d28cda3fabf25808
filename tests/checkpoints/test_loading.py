"""Data folders that are damaged: one line that names the file."""

import os
from argparse import Namespace
from pathlib import Path

import pytest

from pet_fairseq.checkpoints.loading import load_model, load_task
from pet_fairseq.checkpoints.subsets import load_subset
from pet_fairseq.errors import UserError
from pet_fairseq.export.export import export
from tests.translation import WORDS, make_task, save_model, write_subset


@pytest.fixture
def saved(tmp_path):
    """A task with a training set and a checkpoint of it."""
    task = make_task(tmp_path / "data", WORDS)
    write_subset(tmp_path / "data", "train", [[4, 5, 2], [6, 2]])
    return task, save_model(tmp_path / "model.pt", task)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text + b"\n",
        lambda text: text + b"word\n",
        lambda text: text + text.splitlines()[0] + b"\n",
        lambda text: text + "w\xf6rd 1\n".encode("latin-1"),
    ],
)
@pytest.mark.parametrize("language", ["de", "en"])
def test_a_damaged_dictionary_is_named(language, damage, saved, tmp_path):
    task, path = saved
    file = tmp_path / f"data/dict.{language}.txt"
    file.write_bytes(damage(file.read_bytes()))
    message = f"^--data {file}: not a dictionary of fairseq "
    with pytest.raises(UserError, match=message):
        load_task(Namespace(**vars(task.cfg)), str(tmp_path / "data"))
    with pytest.raises(UserError, match=message):
        load_model(str(path), "CHECKPOINT", str(tmp_path / "data"))


@pytest.mark.parametrize(
    "read",
    [
        lambda path, data: load_model(path, "CHECKPOINT", data),
        lambda path, data: export(path, data, "fairseq", Path(path).with_name("out")),
    ],
)
def test_the_data_that_a_checkpoint_names_have_moved(read, saved, tmp_path):
    path = str(saved[1])
    (tmp_path / "data").rename(tmp_path / "moved")
    message = f"^CHECKPOINT {path}: .*data, the data folder named in it, is not there; give --data$"
    with pytest.raises(UserError, match=message):
        read(path, None)


def test_a_set_that_is_cut_short(saved, tmp_path):
    task, _ = saved
    task = load_task(Namespace(**vars(task.cfg)), str(tmp_path / "data"))
    assert len(load_subset(task, "train")) == 2
    index = tmp_path / "data/train.de-en.de.idx"
    whole = index.read_bytes()
    for size in (len(whole) // 2, 12):
        os.truncate(index, size)
        with pytest.raises(UserError, match=r"^--subset train: its files in .*data are cut short"):
            load_subset(task, "train")
        index.write_bytes(whole)
