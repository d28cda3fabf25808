"""Training with few bits a weight, and packed files, as a user types them."""

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu

from pet_fairseq.quantisation.rounding import fake_quantise
from tests.cli.processes import REPO, TRAIN, refusal, run, train

FOUR_BITS = ("--optimizer", "quantised_adam", "--quantised-bits", "4")
GENERATE = ("--user-dir", REPO / "pet_fairseq", "--cpu", "--required-batch-size-multiple", "1")
GENERATE += ("--max-len-b", "12", "--beam", "1")


@pytest.fixture(scope="module")
def quantised(data, student, student_options, tmp_path_factory):
    """The student, trained on in 4 bits: the options and the folder."""
    start = ("--finetune-from-model", student[0] / "checkpoint_best.pt")
    options = (*student_options, *FOUR_BITS, *start)
    folder = tmp_path_factory.mktemp("quantised")
    log = train(data, folder, *options, "--max-update", "4").output
    assert "weights in 4 bits" in log
    return options, folder


def model_state(folder):
    state = load_checkpoint_to_cpu(str(folder / "checkpoint_last.pt"))["model"]
    return {name: p for name, p in state.items() if not name.endswith("_float_tensor")}


def test_saved_weights_are_on_the_grid_and_resuming_changes_nothing(data, quantised, tmp_path):
    options, folder = quantised
    for value in model_state(folder).values():
        assert torch.equal(value, fake_quantise(value, 4))
    train(data, tmp_path, *options, "--max-update", "2")
    log = train(data, tmp_path, *options, "--max-update", "4")
    assert "Loaded checkpoint" in log.output
    for name, value in model_state(folder).items():
        torch.testing.assert_close(model_state(tmp_path)[name], value, msg=name)


@pytest.mark.slow
def test_pack_and_unpack(data, quantised, tmp_path):
    checkpoint = quantised[1] / "checkpoint_best.pt"
    file, folder = tmp_path / "student.int4", tmp_path / "wide"
    packed = run("pet-fairseq", "pack", checkpoint, "--data", data, "--bits", "4", "--out", file)
    assert f"wrote {file}: " in packed.output
    assert packed.output.splitlines()[-1] == "every value is that of the checkpoint"
    run("pet-fairseq", "unpack", file, "--out", folder)
    before, after = (
        run("fairseq-generate", data, "--path", path, *GENERATE).printed("HP")
        for path in (checkpoint, folder / "model.pt")
    )
    assert len(before) == 60 and before == after


def test_what_ends_in_one_line(data, student_options, tmp_path):
    line = refusal("unpack", REPO / "README.md", "--out", "out")
    assert "README.md: cut short, damaged or not written by" in line
    arguments = ("--user-dir", REPO / "pet_fairseq", "--save-dir", tmp_path, *TRAIN)
    options = (*arguments, *student_options, *FOUR_BITS)
    failed = run("pet-fairseq", "train-bf16", data, *options, check=False)
    line = failed.output.strip().splitlines()[-1]
    assert failed.status and ": error: --bf16: with --optimizer quantised_adam" in line
