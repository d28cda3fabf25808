"""load_checkpoint: what it reads, and what it refuses in one line."""

import contextlib
import errno
import io
import os
import pickle
from argparse import Namespace
from collections import OrderedDict

import pytest
import torch
from fairseq.distributed import utils
from fairseq.logging.meters import AverageMeter, StopwatchMeter, TimeMeter

from pet_fairseq.checkpoints.dictionaries import trained_languages
from pet_fairseq.checkpoints.safe_loading import load_checkpoint, load_options
from pet_fairseq.errors import UserError
from tests.checkpoints.written import Malicious, write_checkpoint
from tests.helpers import dictionary


def test_load_checkpoint(tmp_path):
    model = write_checkpoint(tmp_path / "checkpoint.pt")
    state = load_checkpoint(str(tmp_path / "checkpoint.pt"), "--teacher-path")
    assert state["cfg"].model.arch == "tiny"
    assert state["model"].keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(state["model"][name], tensor)


def test_load_options_reads_no_tensors(tmp_path):
    path = str(tmp_path / "checkpoint.pt")
    write_checkpoint(path)
    state = torch.load(path)
    state["model"]["large"] = torch.zeros(2**20)
    torch.save(state, path)
    before = read_bytes()
    options = load_options(path, "--teacher-path")
    assert read_bytes() - before < 2**20 < os.path.getsize(path)
    assert options == load_checkpoint(path, "--teacher-path")["cfg"]


def test_load_options_of_the_format_before_torch_1_6(tmp_path):
    path = str(tmp_path / "checkpoint.pt")
    write_checkpoint(path)
    options = load_options(path, "--teacher-path")
    torch.save(torch.load(path), path, _use_new_zipfile_serialization=False)
    assert load_options(path, "--teacher-path") == options


def read_bytes():
    """How many bytes this process has read by system calls."""
    with open("/proc/self/io") as file:
        return int(dict(line.split(": ") for line in file)["rchar"])


def assert_unreadable(path, reason):
    """One line that names the option, the file and what is wrong."""
    with pytest.raises(UserError, match=reason) as error:
        load_checkpoint(str(path), "--teacher-path")
    assert str(error.value).startswith(f"--teacher-path {path}: ")
    assert "\n" not in str(error.value)


def test_missing_file(tmp_path):
    assert_unreadable(tmp_path / "none.pt", "no such file")
    assert_unreadable(tmp_path, "is a folder; give a checkpoint in it")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    """Whole, for all that is known: nothing is to be repaired. The tests may run as root."""

    def refuse(*args, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path)
    monkeypatch.setattr(torch, "load", refuse)
    assert_unreadable(path, "Permission denied; let yourself read it")


@pytest.mark.parametrize("left", [0.1, 0.5, 0.99])
def test_truncated_file(tmp_path, left):
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(left * len(whole))])
    assert_unreadable(path, "not a readable checkpoint")


@pytest.mark.parametrize(
    "text",
    # a pickle's first byte says what to do: these begin with many different ones
    [
        "",
        "\n",
        "hello world\n",
        "a brown dog\n",
        "quick\n",
        "two men\n",
        "Ein Hund\n",
        "Go\n",
        "G",
        "]\n",
        "{}",
    ],
)
def test_text_file(tmp_path, text):
    path = tmp_path / "checkpoint.pt"
    path.write_text(text)
    assert_unreadable(path, "not a readable checkpoint|refused")


@pytest.mark.parametrize(
    ("content", "lack"),
    [
        ([1, 2], "holds no checkpoint but a list"),
        ((1, 2), "holds no checkpoint but a tuple"),
        (None, "holds no checkpoint but a NoneType"),
        (3, "holds no checkpoint but a int"),
        ("text", "holds no checkpoint but a str"),
        (torch.ones(2), "holds no checkpoint but a Tensor"),
        ({}, "has no `model`"),
        ({"weight": torch.ones(2)}, "has no `model`"),
        ({"model": {}}, "has no `cfg` or `args`"),
    ],
)
def test_other_content(tmp_path, content, lack):
    torch.save(content, tmp_path / "other.pt")
    assert_unreadable(tmp_path / "other.pt", f"{lack}.*; give a checkpoint that fairseq-train")


def drop(state, *keys):
    for key in keys:
        del state[key]


@pytest.mark.parametrize(
    ("change", "lack"),
    [
        (lambda state: drop(state, "model"), "has no `model`"),
        (
            lambda state: state.update(model={"encoder.flat_param_0": torch.ones(9)}),
            "holds a part of the model, as --use-sharded-state writes one for each GPU",
        ),
        (lambda state: state.update(model=[1]), "its `model` is not a dict of tensors"),
        (lambda state: state.update(model={"a": 1}), "its `model` is not a dict of tensors"),
        (lambda state: drop(state, "cfg"), "has no `cfg` or `args`"),
        (lambda state: drop(state, "cfg", "args"), "has no `cfg` or `args`"),
        (lambda state: state.update(cfg=[1]), "its `cfg` is a list"),
        (lambda state: drop(state["cfg"], "model"), "has no options of a model"),
        (lambda state: drop(state["cfg"], "task"), "has no options of a task"),
        (lambda state: state["cfg"].update(task=None), "has no options of a task"),
        (lambda state: drop(state, "optimizer_history"), "has no `optimizer_history`"),
        (lambda state: state.update(optimizer_history=[]), "has no `optimizer_history`"),
        (lambda state: drop(state, "extra_state"), "has no `extra_state`"),
        (lambda state: state.update(extra_state=None), "has no `extra_state`"),
    ],
)
def test_a_part_that_is_missing(tmp_path, change, lack):
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path)
    state = torch.load(path)
    change(state)
    torch.save(state, path)
    assert_unreadable(path, f"{lack}.*; give a checkpoint that fairseq-train wrote")


def test_options_of_a_task_as_a_namespace(tmp_path):
    """As multilingual checkpoints have them; what uses such a task says what it can do with it."""
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path)
    state = torch.load(path)
    state["cfg"]["task"] = Namespace(_name="translation_multi_simple_epoch", langs=["de", "en"])
    torch.save(state, path)
    task = load_checkpoint(str(path), "--teacher-path")["cfg"].task
    assert task.langs == ["de", "en"]
    assert trained_languages(task, "") == {"source_lang": None, "target_lang": None}


def test_meters_of_fairseq_0_9(tmp_path):
    """It stored the objects, of a module that has moved since."""
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path)
    state = torch.load(path)
    meters = {"loss": AverageMeter(), "wall": TimeMeter(), "train_wall": StopwatchMeter()}
    meters["loss"].update(2.5)
    state["extra_state"]["train_meters"] = OrderedDict(meters)
    torch.save(state, path, _use_new_zipfile_serialization=False)
    written = path.read_bytes()
    assert written.count(b"cfairseq.logging.meters\n") == 3
    path.write_bytes(written.replace(b"cfairseq.logging.meters\n", b"cfairseq.meters\n"))
    read = load_checkpoint(str(path), "--path")["extra_state"]["train_meters"]
    assert read["loss"].avg == 2.5 and type(read["wall"]) is TimeMeter


def test_a_dictionary_in_the_state_of_a_task(tmp_path):
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path)
    state = torch.load(path)
    state["task_state"] = {"target_dictionary": dictionary(5)}
    torch.save(state, path)
    read = load_checkpoint(str(path), "--path")["task_state"]["target_dictionary"]
    assert read.symbols == dictionary(5).symbols and read.index("<unk>") == 3


@pytest.mark.parametrize(
    "save",
    [
        torch.save,
        lambda state, path: path.write_bytes(pickle.dumps(state, protocol=2)),
        lambda state, path: path.write_bytes(pickle.dumps(state)),
    ],
    ids=["torch.save", "pickle 2", "pickle"],
)
def test_malicious_file_is_refused(tmp_path, save):
    path, marker = tmp_path / "checkpoint.pt", tmp_path / "marker"
    write_checkpoint(path)
    state = torch.load(path)
    state["extra_state"]["more"] = Malicious(marker)
    save(state, path)
    assert_unreadable(path, "refused.*source you trust")
    assert not marker.exists()

    with contextlib.suppress(RuntimeError):  # a plain pickle is harmful, but no checkpoint
        torch.load(path, weights_only=False)
    assert marker.exists(), "the file of this test is harmless"


def test_what_fairseq_sends_to_other_processes(tmp_path):
    """A checkpoint that one process has read for all, with its tensors sent on their own."""
    write_checkpoint(tmp_path / "checkpoint.pt")
    state = load_checkpoint(str(tmp_path / "checkpoint.pt"), "--restore-file")
    tensors = []
    sent = io.BytesIO()
    torch.save(utils._split_tensors_from_obj(state, tensors), sent)
    sent.seek(0)
    received = utils._put_tensors_in_obj(torch.load(sent, map_location="cpu"), tensors)
    assert received["cfg"] == state["cfg"]
    assert received["model"].keys() == state["model"].keys()
    assert all(received["model"][name] is tensor for name, tensor in state["model"].items())
