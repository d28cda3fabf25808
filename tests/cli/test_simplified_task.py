"""The warm-up by fairseq-train, and distillation that starts from it."""

import re
from shutil import copyfile, copytree

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu

from tests.cli.processes import train


@pytest.fixture(scope="module")
def options(teacher):
    return (
        *("--arch", "pet_transformer_tiny", "--criterion", "pet_simplified_task"),
        *("--teacher-path", teacher),
    )


def state(folder, part="model"):
    return load_checkpoint_to_cpu(str(folder / "checkpoint_last.pt"))[part]


def test_distillation_goes_on_from_the_warm_up(data, options, student_options, tmp_path):
    warm, student = tmp_path / "warm", tmp_path / "student"
    log = train(
        *(data, warm, *options, "--confident-correct", "auto", "--confident-wrong", "auto"),
        *("--teacher-cache-mb", "10", "--max-update", "40"),
    )
    losses, accuracy = log.values("loss", "valid"), log.values("class_accuracy", "valid")
    assert losses[-1] < losses[0] and 0 < accuracy[-1] <= 100
    shares = [log.values(f"class{i}", "train")[-1] for i in range(4)]
    assert sum(shares) == pytest.approx(100, abs=0.1) and min(shares) > 0
    assert "thresholds 0." in log.output
    goes_on = train(
        *(data, student, *student_options, "--finetune-from-model", warm / "checkpoint_last.pt"),
        *("--lr", "1e-9", "--max-update", "1", "--teacher-cache-mb", "10"),
    )
    assert "loading pretrained model" in goes_on.output
    assert state(warm).keys() == state(student).keys()
    for name, tensor in state(warm).items():
        torch.testing.assert_close(state(student)[name], tensor, atol=1e-6, rtol=0, msg=name)


def test_criterions_with_other_parameters_take_over(data, options, teacher, tmp_path):
    """Each starts from the other's checkpoint; what it trains beside the model starts anew."""
    warm, patient, again = (tmp_path / name for name in ("warm", "patient", "again"))
    narrow = ("--encoder-embed-dim", "32", "--max-update", "1")  # patience needs maps
    project = (*options, *narrow, "--simplified-head", "project")
    train(data, warm, *project)
    log = train(
        *(data, patient, "--arch", "pet_transformer_tiny", "--criterion", "patient_kd"),
        *("--teacher-path", teacher, *narrow),
        *("--finetune-from-model", warm / "checkpoint_last.pt"),
    )
    assert log.output.count("holds no patience maps; they start anew") == 1
    assert all(name.startswith("maps.") for name in state(patient, "criterion"))
    log = train(data, again, *project, "--finetune-from-model", patient / "checkpoint_last.pt")
    assert log.output.count("holds no weights of the class layer; they start anew") == 1
    result = train(
        *(data, tmp_path / "wrong", *options, *narrow, "--simplified-head", "replace"),
        *("--finetune-from-model", warm / "checkpoint_last.pt"),
        check=False,
    )
    assert result.status != 0 and "Traceback" not in result.output
    line = result.output.strip().splitlines()[-1]
    assert line.startswith("pet_fairseq: error: --criterion: class_layer.weight is 4 x ")


def test_thresholds_are_the_same_in_a_resumed_training(data, options, tmp_path):
    """It goes on in the second of two data folders, whose training set is another one."""
    second = tmp_path / "second"
    copytree(data, second)
    for file in second.glob("train.*"):
        copyfile(data / file.name.replace("train", "valid", 1), file)
    auto = ("--confident-correct", "auto", "--confident-wrong", "auto")
    found = []
    for epochs in ("1", "2"):
        log = train(f"{data}:{second}", tmp_path / "out", *options, *auto, "--max-epoch", epochs)
        found.append(re.findall(r"thresholds .*", log.output))
    assert "Loaded checkpoint" in log.output
    assert len(found[0]) == 1 and found[1] == found[0]


@pytest.mark.slow
@pytest.mark.parametrize("head", ["project", "replace"])
def test_ablation_heads_resume_and_stay_out_of_the_model(head, data, options, tmp_path):
    chosen = (*options, "--simplified-head", head)
    train(data, tmp_path, *chosen, "--max-update", "3")
    log = train(data, tmp_path, *chosen, "--max-update", "6")
    assert "Loaded checkpoint" in log.output
    assert list(state(tmp_path, "criterion")) == ["class_layer.weight", "class_layer.bias"]
    assert not any("class" in name for name in state(tmp_path))


@pytest.mark.slow
def test_half_precision(data, options, tmp_path):
    # a small first scale: fairseq counts an overflow with CUDA
    half = ("--memory-efficient-fp16", "--fp16-init-scale", "4")
    log = train(data, tmp_path, *options, "--max-update", "12", *half)
    assert all(0 < loss < 100 for loss in log.values("loss", "valid"))
    assert all(torch.isfinite(t).all() for t in state(tmp_path).values())


def test_bad_threshold_is_one_line(data, options, tmp_path):
    result = train(data, tmp_path, *options, "--confident-wrong", "1.5", check=False)
    assert result.status != 0 and "Traceback" not in result.output
    assert "--confident-wrong 1.5: give a number above 0" in result.output.splitlines()[-1]
