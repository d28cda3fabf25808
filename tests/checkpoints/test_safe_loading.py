"""load_checkpoint: what it reads, and what it refuses in one line."""

import contextlib
import errno
import io
import os
import pickle

import pytest
import torch
from fairseq.distributed import utils

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from tests.checkpoints.written import Malicious, write_checkpoint


def test_load_checkpoint(tmp_path):
    model = write_checkpoint(tmp_path / "checkpoint.pt")
    state = load_checkpoint(str(tmp_path / "checkpoint.pt"), "--teacher-path")
    assert state["cfg"].model.arch == "tiny"
    assert state["model"].keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(state["model"][name], tensor)


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
    "content",
    [[1, 2], (1, 2), None, 3, "text", torch.ones(2), {}, {"weight": torch.ones(2)}, {"model": {}}],
    ids=lambda content: type(content).__name__,
)
def test_other_content(tmp_path, content):
    torch.save(content, tmp_path / "other.pt")
    assert_unreadable(tmp_path / "other.pt", "not a (readable|fairseq) checkpoint")


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
