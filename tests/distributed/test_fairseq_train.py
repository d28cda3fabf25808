"""fairseq-train in two processes, as a user starts it."""

import pytest
import torch

from tests.cli.processes import REPO, TRAIN, run


def spawn(data, folder, *options, check=True):
    """fairseq-train with two GPUs, as far as it knows, and nothing about processes in its options.

    The backend is what cannot be the default on CPUs. fairseq draws the port, which another test
    may have taken: then it is tried again.
    """
    for _ in range(3):
        result = run(
            *("python", REPO / "tests/distributed/spawning_train.py", data, *TRAIN, *options),
            *("--user-dir", REPO / "pet_fairseq", "--save-dir", folder),
            *("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"),
            cwd=folder,
            check=False,
        )
        if "EADDRINUSE" not in result.output:
            break
    assert not check or result.status == 0, result.output[-3000:]
    return result


@pytest.mark.slow
@pytest.mark.cold
def test_the_command_as_it_is_with_two_gpus(data, teacher, tmp_path):
    """It starts two processes, goes on from its checkpoint in both, and says in one line what is
    wrong in them.
    """
    narrow = [f"--{stack}-embed-dim 32 --{stack}-layers 2" for stack in ("encoder", "decoder")]
    options = (
        *("--arch", "transformer_tiny", *" ".join(narrow).split(), "--dropout", "0"),
        *("--criterion", "patient_kd", "--teacher-path", teacher, "--disable-validation"),
    )
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole = spawn(data, tmp_path / "whole", *options, "--max-update", "4").output
    assert "training on 2 devices" in whole
    spawn(data, tmp_path / "parts", *options, "--max-update", "2")
    goes_on = spawn(data, tmp_path / "parts", *options, "--max-update", "4").output
    assert "Loaded checkpoint" in goes_on
    states = [torch.load(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "parts")]
    for part in ("model", "criterion"):
        assert states[0][part].keys() == states[1][part].keys()
        for name, tensor in states[0][part].items():
            torch.testing.assert_close(states[1][part][name], tensor, atol=1e-6, rtol=1e-5)
    wrong = spawn(data, tmp_path / "whole", *options, "--patience-weight", "-1", check=False)
    assert wrong.status != 0 and "Traceback" not in wrong.output
    assert wrong.output.splitlines()[-1].startswith("pet_fairseq: error: --patience-weight -1")
