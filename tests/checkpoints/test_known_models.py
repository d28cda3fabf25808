"""Checkpoints of another plugin's model or task, or with another model's parameters: one line."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import build_model

from pet_fairseq import from_pretrained
from pet_fairseq.baselines.keep_layers import keep_layers
from pet_fairseq.checkpoints.backbone import load_backbone
from pet_fairseq.checkpoints.frozen_models import load_frozen_models
from pet_fairseq.checkpoints.known_models import naming_mismatch
from pet_fairseq.checkpoints.loading import load_model, load_transformer
from pet_fairseq.checkpoints.model_options import model_options
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.compress.teacher import read_teacher
from pet_fairseq.errors import UserError, user_message
from pet_fairseq.export.export import export
from pet_fairseq.pet.params import reference_model
from tests.translation import make_task, save_model

PLUGIN = "/home/me/ours"


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


@pytest.fixture
def written(task, tmp_path):
    """Writes a checkpoint of the plugin, as a function changes it; returns its path."""

    def written(change) -> str:
        path = save_model(tmp_path / "model.pt", task)
        state = torch.load(path)
        state["cfg"]["common"] = {"user_dir": PLUGIN}
        state["cfg"]["dataset"] = {"train_subset": "train", "dataset_impl": None}
        state["cfg"]["dataset"]["required_seq_len_multiple"] = 1  # the task's refer to these
        change(state)
        torch.save(state, path)
        return path

    return written


@pytest.fixture
def read(task, tmp_path):
    """Functions that build the model of a checkpoint, by what they call it in errors."""
    data, layers = task.cfg.data, {"encoder": "1", "decoder": "1"}
    return {
        "--teacher-path": lambda path: load_frozen_models(path, "--teacher-path", task),
        "--checkpoint": lambda path: load_transformer(path, "--checkpoint", data),
        "--model": lambda path: load_model(path, "--model", data),
        "--backbone-path": lambda path: load_backbone(path, task),
        "CHECKPOINT": lambda path: export(path, data, "fairseq", tmp_path / "out"),
        "path": lambda path: from_pretrained(path, data),
        "TEACHER": lambda path: read_teacher(tmp_path / "model.pt", tmp_path / "data"),
        "--reference": reference_model,
        "CHECKPOINT ": model_options,
        "CHECKPOINT  ": lambda path: keep_layers(path, layers, tmp_path / "kept.pt"),
    }


def refusals(read, path) -> list[str]:
    """The errors behind option and path."""
    found = []
    for option, load in read.items():
        with pytest.raises(UserError) as error:
            load(path)
        start = f"{option.strip()} {path}: "
        assert str(error.value).startswith(start) and "\n" not in str(error.value)
        found.append(str(error.value)[len(start) :])
    return found


def test_an_architecture_of_another_plugin(written, read):
    def rename(state):
        state["cfg"]["model"].arch = state["cfg"]["model"]._name = "our_model"

    for line in refusals(read, written(rename)):
        assert line.startswith("its architecture our_model is another plugin's; ")
        assert f"{PLUGIN}/__init__.py" in line and f"fairseq-train --user-dir {PLUGIN} " in line


def test_an_architecture_of_a_plugin_that_the_checkpoint_does_not_name(written, read):
    def rename(state):
        state["cfg"]["model"].arch = state["cfg"]["model"]._name = "our_model"
        del state["cfg"]["common"]

    assert all("--user-dir PLUGIN " in line for line in refusals(read, written(rename)))


@pytest.mark.parametrize("bleu_args", ["", "{}"])  # braces let fairseq's own message fail
def test_the_message_of_fairseqs_own_commands(bleu_args, task):
    options = Namespace(arch="our_model", eval_bleu_args=bleu_args)
    with pytest.raises((IndexError, AssertionError)) as error:
        build_model(options, task)
    assert "architecture is another plugin's" in user_message(error.value)


def test_a_task_of_another_plugin(written, read, task, tmp_path):
    """The tasks that a user's own one begins with are enough for what reads pairs of sentences."""

    def rename(state):
        state["cfg"]["task"]["_name"] = "our_task"

    path = written(rename)
    (line,) = refusals({"--model": read["--model"]}, path)
    assert line.startswith("its --task our_task is another plugin's; ")
    read["CHECKPOINT"](path)
    plain, _ = load_model(str(tmp_path / "out"), "CHECKPOINT")
    theirs = read["--teacher-path"](path).models[0]
    assert torch.equal(plain.encoder.embed_tokens.weight, theirs.encoder.embed_tokens.weight)


BUILDING = ("--teacher-path", "--checkpoint", "--model", "--backbone-path", "CHECKPOINT", "path")


def test_parameters_of_another_model(written, read):
    """Those of torch's wrappers, for example, whose names begin with `module.`."""

    def prefix(state):
        norm = "encoder.layers.0.final_layer_norm.weight"
        state["model"][f"module.{norm}"] = state["model"].pop(norm)

    reading = {option: read[option] for option in BUILDING}
    for line in refusals(reading, written(prefix)):
        norm = "encoder.layers.0.final_layer_norm.weight"
        assert line.startswith(f"lacks {norm} and has module.{norm}, unlike transformer_tiny ")


def test_parameters_of_another_size(written, read):
    def widen(state):
        state["model"]["encoder.layers.0.fc1.bias"] = torch.zeros(3)

    reading = {option: read[option] for option in BUILDING}
    for line in refusals(reading, written(widen)):
        assert line.startswith("has a size mismatch for encoder.layers.0.fc1.bias: ")


def test_another_error_is_left_alone(written):
    cfg = load_checkpoint(written(lambda state: None), "CHECKPOINT")["cfg"]
    memory = pytest.raises(RuntimeError, match="out of memory")
    with memory, naming_mismatch(cfg, "model.pt", "CHECKPOINT"):
        raise RuntimeError("out of memory")
