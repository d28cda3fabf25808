"""fairseq's own distributed training with the PET student and a teacher: two processes, gloo."""

import socket

import pytest
import torch

from tests.cli.processes import REPO, TRAIN, start

WORKER = REPO / "tests/cli/ddp_worker.py"


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
    for process in processes:
        output, _ = process.communicate(timeout=240)
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
