"""What fairseq stores loads: to continue, as a teacher, to generate (docs/checkpoints.md)."""

import pytest
import torch
from fairseq.optim import OPTIMIZER_REGISTRY
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from tests.cli.checkpoint_rows import OPTIMIZERS, ROWS, SCHEDULERS, Row
from tests.cli.processes import REPO, TRAIN, run

USER_DIR = ("--user-dir", REPO / "pet_fairseq")
QUICK = ("eval_bleu", "0.10", "optimizer_adafactor")  # the other rows are slow only together
COMMON = tuple(word for word in TRAIN if word != "--no-epoch-checkpoints")


def train_row(row: Row, data, folder, *more):
    options = (*USER_DIR, "--save-dir", folder, "--arch", "transformer_tiny", *COMMON, *more)
    return run(*row.command, data, *options, *row.options)


@pytest.mark.parametrize(
    "name",
    [pytest.param(row, marks=() if row in QUICK else pytest.mark.slow) for row in ROWS],
)
def test_what_fairseq_stores(name, data, tmp_path):
    """A training is stopped and continued; what it stored is a teacher, and translates."""
    row = ROWS[name]
    if row.why_not:
        pytest.skip(row.why_not)
    folder = tmp_path / "run"
    train_row(row, data, folder, "--max-update", "2")
    file = folder / row.file
    if row.rewrite is not None:
        file = tmp_path / "rewritten.pt"
        torch.save(row.rewrite(folder), file)
    load_checkpoint(str(file), "--restore-file")

    log = train_row(
        *(row, data, tmp_path / "continued", "--max-update", "4", "--restore-file", file)
    ).output
    assert f"@ {row.updates} updates)" in log
    again = load_checkpoint(str(tmp_path / "continued/checkpoint_last.pt"), "--restore-file")
    assert again["optimizer_history"][-1]["num_updates"] == 4

    student = ("--arch", "pet_transformer_tiny", "--criterion", "pet_distillation")
    log = run(
        *("fairseq-train", data, *USER_DIR, "--save-dir", tmp_path / "student", *TRAIN),
        *(*student, "--teacher-path", file, "--max-update", "1"),
    )
    assert log.values("kl", "valid")[-1] > 0
    options = (*USER_DIR, "--cpu", "--beam", "1", "--max-len-b", "9")
    generated = run("fairseq-generate", data, "--path", file, *options)
    assert len(generated.printed("H")) >= 24


def test_every_optimizer_and_scheduler_of_fairseq_has_a_row():
    ours = {"quantised_adam"}
    assert OPTIMIZER_REGISTRY.keys() - ours == OPTIMIZERS.keys()
    assert LR_SCHEDULER_REGISTRY.keys() == SCHEDULERS.keys()
