"""Checkpoints are loaded under torch's safe loading, whatever command loads them."""

import os
import pickle

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu

import pet_fairseq  # noqa: F401  allows fairseq's types in checkpoints
from tests.cli.processes import CROSS_ENTROPY, REPO, TRAIN, run, train

USER_DIR = ("--user-dir", REPO / "pet_fairseq")


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


class Malicious:
    """Runs a shell command when unpickled without protection."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


@pytest.fixture
def malicious(tmp_path, teacher):
    """A real checkpoint with code in its pickle, and the marker that the code would create."""
    state = load_checkpoint_to_cpu(str(teacher))
    marker = tmp_path / "marker"
    state["cfg"] = {"model": state["cfg"].model, "task": dict(state["cfg"].task)}
    state["extra_state"]["gift"] = Malicious(marker)
    path = tmp_path / "malicious.pt"
    torch.save(state, path)
    yield path, marker
    with path.open("rb") as file:  # the trap was real: unsafe loading springs it
        torch.load(file, weights_only=False)
    assert marker.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        *("generate", pytest.param("resume", marks=pytest.mark.cold), "teacher"),
        *(slow(x) for x in ("validate", "interactive", "finetune")),
    ],
)
def test_code_in_a_checkpoint_is_refused(how, malicious, data, tmp_path):
    path, marker = malicious
    run_dir = tmp_path / "run"
    model = ("--arch", "transformer_tiny", *CROSS_ENTROPY)
    if how in ("generate", "validate", "interactive"):
        options = ("--task", "translation", "--batch-size", "1")
        result = run(
            *(f"fairseq-{how}", data, "--path", path, "--cpu", *USER_DIR, *options), check=False
        )
    elif how == "resume":
        result = train(data, run_dir, *model, "--restore-file", path, check=False)
    elif how == "finetune":
        result = train(data, run_dir, *model, "--finetune-from-model", path, check=False)
    else:
        options = ("--criterion", "pet_distillation", "--teacher-path", path)
        result = train(data, run_dir, *model, *options, check=False)
    assert result.status != 0
    assert not marker.exists()
    assert "Traceback" not in result.output
    line = result.output.strip().splitlines()[-1]
    assert str(path) in line and "refused" in line and "system" in line
    assert "weights_only=False" not in result.output


@pytest.mark.parametrize("how", ["generate", slow("train"), "command"])
def test_unsafe_loading_is_not_switched_on_by_accident(how, malicious, data, tmp_path):
    """Nothing is loaded under torch's variable for it; before, the code in the file ran."""
    path, marker = malicious
    command = {
        "generate": ("fairseq-generate", data, "--path", path, "--cpu", *USER_DIR),
        "train": (
            *("fairseq-train", data, "--restore-file", path, "--save-dir", tmp_path / "run"),
            *("--arch", "transformer_tiny", *CROSS_ENTROPY, *TRAIN, *USER_DIR),
        ),
        "command": ("pet-fairseq", "model-options", path),
    }[how]
    result = run(*command, check=False, env={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"})
    assert result.status != 0
    assert not marker.exists()
    assert "Traceback" not in result.output
    line = result.output.strip().splitlines()[-1]
    assert "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" in line
    assert "PET_FAIRSEQ_ALLOW_UNSAFE_LOADING=1" in line


def test_unsafe_loading_on_purpose(malicious, data):
    """fairseq then loads what the user trusts; what this package opens is still loaded safely."""
    path, marker = malicious
    env = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "PET_FAIRSEQ_ALLOW_UNSAFE_LOADING": "1"}
    result = run("pet-fairseq", "model-options", path, check=False, env=env)
    assert result.status != 0 and "refused" in result.output
    assert not marker.exists()
    run("fairseq-generate", data, "--path", path, "--cpu", *USER_DIR, check=False, env=env)
    assert marker.exists()


@pytest.mark.slow
def test_safe_loading_forced(data, student):
    """torch's variable for safe loading only changes nothing."""
    result = run(
        *("fairseq-generate", data, "--path", student[0] / "checkpoint_best.pt", "--cpu"),
        *USER_DIR,
        env={"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"},
    )
    assert "\nH-" in result.output


def test_a_pickle_that_is_no_checkpoint_is_refused(data, tmp_path):
    path = tmp_path / "plain.pt"
    path.write_bytes(pickle.dumps({"model": Malicious(tmp_path / "marker")}))
    result = run("fairseq-generate", data, "--path", path, "--cpu", *USER_DIR, check=False)
    assert result.status != 0 and "refused" in result.output.splitlines()[-1]
    assert not (tmp_path / "marker").exists()


def test_user_dir_loaded_twice(data, student, tmp_path):
    """By its name, by `pet-fairseq user-dir` and through a link: one registration, no clash."""
    installed = run("pet-fairseq", "user-dir").output.splitlines()[-1]
    code = """
import sys
from argparse import Namespace
from fairseq import utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
for user_dir in sys.argv[1:]:
    utils.import_user_module(Namespace(user_dir=user_dir))
assert MODEL_REGISTRY["pet_transformer"].__module__ == "pet_fairseq.pet.transformer"
assert ARCH_MODEL_REGISTRY["pet_transformer_tiny"] is MODEL_REGISTRY["pet_transformer"]
print("once")
"""
    folders = (
        REPO / "pet_fairseq",
        installed,
        f"{REPO}/pet_fairseq/",
        REPO / "tests/../pet_fairseq",
    )
    (tmp_path / "script.py").write_text(code)
    assert "once" in run("python", tmp_path / "script.py", *folders).output
    result = run(
        *("fairseq-generate", data, "--path", student[0] / "checkpoint_best.pt", "--cpu"),
        *("--user-dir", installed, "--max-len-b", "9"),
        cwd=tmp_path,
    )
    assert "\nH-" in result.output
