"""Reading checkpoints safely, shared tensors, repair; how errors reach the user."""

import contextlib
import os
import pickle
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from torch import nn

from pet_fairseq.checkpoints import (
    Repair,
    first_difference,
    load_checkpoint,
    repair_folder,
    tied_names,
    unique_tensors,
    vocabulary_sizes,
)
from pet_fairseq.errors import UserError, one_line
from tests.helpers import build, dictionary

REPO = Path(__file__).parents[1]


def write_checkpoint(path, seed=1):
    """What fairseq's trainer writes for a small model: options as dicts and a Namespace."""
    model = build(seed=seed)
    cfg = {"task": {"_name": "translation", "data": "bin"}, "model": Namespace(arch="tiny")}
    state = {
        "args": None,
        "cfg": cfg,
        "model": model.state_dict(),
        "optimizer_history": [
            {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": seed}
        ],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    checkpoint_utils.torch_persistent_save(state, str(path))
    return model


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


class Malicious:
    """Creates a file when unpickled without protection."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


# --- load_checkpoint ------------------------------------------------------------------------------


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
    assert_unreadable(tmp_path, "no such file|not a file")


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


def test_errors_of_fairseqs_own_loading(tmp_path):
    """fairseq-generate --path reads without our function: the hook finds the file's name."""
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path)
    cut(path)
    with pytest.raises((RuntimeError, OSError)) as error:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    line = one_line(error.value, error.value.__traceback__)
    assert line.startswith(f"{path}: not a readable checkpoint")
    assert "\n" not in line

    torch.save({"model": Malicious(tmp_path / "marker")}, path)
    with pytest.raises(pickle.UnpicklingError) as error:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    line = one_line(error.value, error.value.__traceback__)
    assert line.startswith(f"{path}: refused")
    assert "\n" not in line
    assert "weights_only" not in line
    assert not (tmp_path / "marker").exists()


# --- the hook -------------------------------------------------------------------------------------


def test_one_line():
    assert one_line(UserError("--x 3: wrong"), None) == "--x 3: wrong"
    for other in (ValueError("x"), RuntimeError("x"), KeyError("x"), KeyboardInterrupt()):
        assert one_line(other, None) is None


def python(code):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=REPO, capture_output=True, text=True
    )


def test_hook_shows_user_errors_in_one_line():
    result = python("import pet_fairseq.errors as errors; raise errors.UserError('--x 3: wrong')")
    assert result.returncode == 1
    lines = [line for line in result.stderr.splitlines() if not line.startswith("INFO:")]
    assert lines == ["pet_fairseq: error: --x 3: wrong"]
    assert result.stdout == ""


def test_hook_leaves_other_errors():
    result = python("import pet_fairseq; raise ValueError('a mistake of ours')")
    assert result.returncode == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.endswith("ValueError: a mistake of ours\n")


# --- shared tensors -------------------------------------------------------------------------------


def test_tied_names():
    model = nn.ModuleDict({name: nn.Linear(2, 2) for name in "abcd"})
    model["c"] = model["a"]
    model["d"].weight = model["b"].weight
    assert tied_names(model) == {"c.weight": "a.weight", "c.bias": "a.bias", "d.weight": "b.weight"}
    assert tied_names(nn.Linear(2, 2)) == {}


def test_unique_tensors():
    first, equal = torch.arange(6.0), torch.arange(6.0)
    state = {
        "first": first,
        "same": first,
        "view": first.view(6),
        "equal": equal,
        "half": first[:3],
        "other half": first[3:],
        "encoder.version": torch.ones(1),
        "decoder.embed_positions._float_tensor": torch.ones(1),
    }
    unique = unique_tensors(state)
    assert list(unique) == ["first", "equal", "half", "other half"]
    assert all(unique[name] is state[name] for name in unique)


@pytest.mark.parametrize("tied", [False, True])
def test_vocabulary_sizes(tied):
    """Also where the decoder's embeddings are stored under the encoder's name only."""
    state = build(share_all_embeddings=tied).state_dict()
    assert vocabulary_sizes(state) == {"source_lang": 20, "target_lang": 20}


def test_first_difference():
    ours = dictionary(5)
    assert first_difference(dictionary(5), ours) == ""
    assert first_difference(dictionary(6), ours) == "10 words against 9"
    assert first_difference(dictionary(2), ours) == "6 words against 9"
    theirs = dictionary(2)
    theirs.add_symbol("other")
    assert first_difference(theirs, ours) == "entry 6 is 'other' against 'w2'"


# --- repair ---------------------------------------------------------------------------------------


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
