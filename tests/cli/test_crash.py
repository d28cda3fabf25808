"""Nothing that interrupts saving costs the previous checkpoint."""

import signal
import time

import pytest

from pet_fairseq.checkpoints.repair import is_intact
from tests.cli.processes import BIN, REPO, TRAIN, run, start, train

SAVE_OFTEN = ("--save-interval-updates", "1", "--keep-interval-updates", "2", "--max-update", "400")


@pytest.mark.slow
def test_kill_while_saving(data, student_options, tmp_path):
    """kill -9 in the middle of saving, several times; each time the training goes on."""
    updates = []
    for delay in (0.05, 0.2, 0.35):
        process = start(
            *("fairseq-train", data, "--user-dir", REPO / "pet_fairseq", "--save-dir", tmp_path),
            *(*TRAIN, *student_options, *SAVE_OFTEN, "--disable-validation"),
        )
        for line in process.stdout:
            if "Finished saving checkpoint" in line:
                break
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        run("pet-fairseq", "repair", tmp_path)
        last = tmp_path / "checkpoint_last.pt"
        assert is_intact(last)
        updates.append(number_of_updates(last))
    assert updates == sorted(set(updates))  # every run went on from where the one before was killed


def number_of_updates(path) -> int:
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    return load_checkpoint_to_cpu(str(path))["optimizer_history"][-1]["num_updates"]


LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_full_disk(data, student_options, tmp_path):
    """A file size limit stands for the full disk: the save fails, the last checkpoint stays."""
    train(data, tmp_path, *student_options, "--max-update", "2")
    last = tmp_path / "checkpoint_last.pt"
    before = last.read_bytes()
    script = tmp_path / "limited.py"
    script.write_text(LIMITED.format(limit=len(before) // 2))
    result = run(
        *("python", script, BIN / "fairseq-train", data, *TRAIN, *student_options),
        *("--user-dir", REPO / "pet_fairseq", "--save-dir", tmp_path, "--max-update", "4"),
        check=False,
    )
    assert result.status != 0
    assert "File too large" in result.output or "write" in result.output
    assert last.read_bytes() == before
    train(data, tmp_path, *student_options, "--max-update", "4")
    assert number_of_updates(last) == 4


@pytest.mark.slow
def test_repair_replaces_a_half_copied_checkpoint(data, student_options, tmp_path):
    train(data, tmp_path, *student_options, "--max-update", "4")
    last = tmp_path / "checkpoint_last.pt"
    last.write_bytes(last.read_bytes()[:1000])
    output = run("pet-fairseq", "repair", tmp_path).output
    assert "now a copy of checkpoint_best.pt" in output
    log = train(data, tmp_path, *student_options, "--max-update", "5")
    assert "Loaded checkpoint" in log.output
