"""fairseq-train in two processes, as a user starts it."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.cli.processes import REPO, TRAIN, run, start

WORKER = REPO / "tests/distributed/remembering_train.py"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def train_ranks(data, folder, options, world_size: int) -> list[dict]:
    """Parameters of every rank after training."""
    url = f"tcp://127.0.0.1:{free_port()}"
    processes = []
    for rank in range(world_size):
        distributed = (
            *("--distributed-world-size", world_size, "--distributed-rank", rank),
            *("--distributed-init-method", url, "--distributed-no-spawn"),
            *("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"),
        )
        processes.append(
            start(
                *("python", WORKER, folder / f"rank{rank}.pt", data, *TRAIN, *options),
                *("--user-dir", REPO / "pet_fairseq", "--save-dir", folder),
                *(distributed if world_size > 1 else ()),
                cwd=REPO,
            )
        )
    with ThreadPoolExecutor() as threads:  # all pipes are read: a full one would stop its process
        outputs = list(threads.map(lambda process: process.communicate(timeout=240)[0], processes))
    for process, output in zip(processes, outputs):
        assert process.returncode == 0, output[-3000:]
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(world_size)]


@pytest.mark.slow
@pytest.mark.cold
def test_two_processes_equal_one_with_update_freq_2(data, student_options, tmp_path):
    options = (*student_options, "--dropout", "0", "--max-update", "4")
    for name in ("one", "two", "start"):
        (tmp_path / name).mkdir()
    first, second = train_ranks(data, tmp_path / "two", options, world_size=2)
    (single,) = train_ranks(data, tmp_path / "one", (*options, "--update-freq", "2"), world_size=1)
    (start_state,) = train_ranks(
        data, tmp_path / "start", (*options, "--max-update", "1", "--lr", "0"), world_size=1
    )
    moved = 0.0
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
        torch.testing.assert_close(tensor, single[name], atol=2e-5, rtol=1e-4, msg=name)
        moved = max(moved, (tensor - start_state[name]).abs().max().item())
    assert moved > 1e-3  # it did train


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
