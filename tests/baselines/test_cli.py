"""fairseq-train and fairseq-generate with the baselines."""

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu

from tests.cli.processes import CROSS_ENTROPY, REPO, run, train

SMALL = (
    *("--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "32", "--encoder-layers", "2"),
    *("--decoder-embed-dim", "32", "--decoder-ffn-embed-dim", "32", "--decoder-layers", "2"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
)


def load(folder) -> dict:
    return load_checkpoint_to_cpu(str(folder / "checkpoint_last.pt"))


def generate(data, checkpoint, *options) -> str:
    return run(
        *("fairseq-generate", data, "--path", checkpoint, "--user-dir", REPO / "pet_fairseq"),
        *("--cpu", "--required-batch-size-multiple", "1", "--max-len-b", "15", *options),
    ).output


@pytest.mark.slow
def test_can_trains_and_translates(data, tmp_path):
    log = train(
        *(data, tmp_path, "--arch", "can_transformer", *SMALL, *CROSS_ENTROPY),
        *("--max-update", "12", "--fp16", "--fp16-no-flatten-grads"),
    )
    losses = log.values("loss", "valid")
    assert losses[-1] < losses[0]
    assert all(torch.isfinite(tensor).all() for tensor in load(tmp_path)["model"].values())
    out = generate(data, tmp_path / "checkpoint_last.pt", "--beam", "4", "--print-alignment")
    assert out.count("\nH-") == 20 and "nan" not in out


def test_can_refuses_in_one_line(data, tmp_path):
    options = ("--arch", "can_transformer", *CROSS_ENTROPY, "--no-cross-attention")
    result = train(data, tmp_path, *options, check=False)
    line = result.output.strip().splitlines()[-1]
    assert result.status != 0
    assert line.startswith("pet_fairseq: error: --no-cross-attention is not supported")


# narrower than the teacher, 3 + 2 layers
STUDENT = ("--arch", "transformer_tiny", "--encoder-embed-dim", "24", "--encoder-layers", "3")


@pytest.fixture
def patient(teacher, tmp_path) -> tuple:
    """The options of a student; the teacher lies in tmp_path."""
    copy = tmp_path / "teacher.pt"
    copy.write_bytes(teacher.read_bytes())
    return (*STUDENT, "--criterion", "patient_kd", "--teacher-path", copy)


@pytest.fixture(scope="module")
def plain(data, tmp_path_factory):
    """The student as another criterion leaves it."""
    folder = tmp_path_factory.mktemp("plain")
    train(data, folder, *STUDENT, *CROSS_ENTROPY, "--max-update", "1")
    return folder


@pytest.mark.slow
def test_patient_kd_resumes_and_saves_its_maps_beside_the_model(data, patient, plain, tmp_path):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    log = train(data, whole, *patient, "--max-update", "4")
    train(data, halves, *patient, "--max-update", "2")
    first = load(halves)["criterion"]
    assert "Loaded checkpoint" in train(data, halves, *patient, "--max-update", "4").output
    state, resumed = load(whole), load(halves)
    for key in ("model", "criterion"):
        for name, tensor in state[key].items():
            torch.testing.assert_close(resumed[key][name], tensor, msg=name)

    shapes = {name: tuple(tensor.shape) for name, tensor in state["criterion"].items()}
    assert shapes == {
        "maps.encoder.0.weight": (40, 24),
        "maps.encoder.1.weight": (40, 24),
        "maps.decoder.0.weight": (40, 24),
    }
    assert all(not torch.equal(state["criterion"][name], first[name]) for name in first)
    assert state["model"].keys() == load(plain)["model"].keys()

    assert 0 < log.values("patience", "valid")[-1] < 4
    assert "follow the teacher's: {'encoder': [2, 3], 'decoder': [2]}" in log.output
    assert "first batch, per token: distillation " in log.output
    (tmp_path / "teacher.pt").unlink()
    assert generate(data, whole / "checkpoint_last.pt").count("\nH-") == 20


def test_patient_kd_in_half_precision_after_another_criterion(data, patient, plain, tmp_path):
    log = train(
        *(data, tmp_path / "run", *patient, "--max-update", "3"),
        *("--finetune-from-model", plain / "checkpoint_last.pt"),
        *("--fp16", "--fp16-no-flatten-grads"),
    )
    assert "holds no patience maps; they start anew" in log.output
    state = load(tmp_path / "run")
    tensors = [*state["model"].values(), *state["criterion"].values()]
    assert all(torch.isfinite(tensor).all() for tensor in tensors)


@pytest.mark.slow
def test_patient_kd_starts_from_what_other_commands_write(data, patient, plain, tmp_path):
    checkpoint, packed = plain / "checkpoint_last.pt", tmp_path / "packed"
    given = (checkpoint, "--data", data)
    run("pet-fairseq", "pack", *given, "--bits", "8", "--out", packed)
    run("pet-fairseq", "unpack", packed, "--out", tmp_path / "unpacked")
    run("pet-fairseq", "export", *given, "--to", "fairseq", "--out", tmp_path / "exported")
    for folder in ("unpacked", "exported"):
        start = ("--finetune-from-model", tmp_path / folder / "model.pt")
        log = train(data, tmp_path / f"{folder}_on", *patient, "--max-update", "1", *start)
        assert "holds no patience maps; they start anew" in log.output
