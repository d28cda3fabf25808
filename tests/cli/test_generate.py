"""fairseq-generate and -validate with checkpoints of this package."""

import math

import pytest

from tests.cli.processes import CROSS_ENTROPY, REPO, TRAIN, run

USER_DIR = ("--user-dir", REPO / "pet_fairseq", "--cpu")
SHORT = ("--max-len-b", "15")  # a model that has learned little ends few sentences
ALL = ("--required-batch-size-multiple", "1")  # else fairseq drops an incomplete last batch


@pytest.mark.cold
def test_generate_scores_a_plain_checkpoint_as_fairseq_does(teacher, data):
    """The user-dir must not change what fairseq does with its own models."""
    result = run("fairseq-generate", data, "--path", teacher, *USER_DIR, *ALL, *SHORT)
    scores = [float(score) for _, score, _ in result.printed("H")]
    assert len(scores) == 30 and all(score < 0 and math.isfinite(score) for score in scores)


def test_validate_reports_kl(student, data, tmp_path):
    folder, log = student
    command = (
        *("fairseq-validate", data, "--path", folder / "checkpoint_last.pt", *USER_DIR, *ALL),
        *("--max-tokens", "500", "--task", "translation"),
    )
    out = run(*command).output
    line = next(line for line in out.splitlines() if "| kl " in line)
    kl = float(line.split("| kl ")[1].split()[0])
    assert kl == pytest.approx(log.values("kl", "valid")[-1], abs=2e-3)
    moved = tmp_path / "moved.pt"
    overrides = ("--model-overrides", repr({"teacher_path": str(moved)}))
    assert f"--teacher-path {moved}: no such file" in run(*command, *overrides, check=False).output


@pytest.mark.slow
@pytest.mark.cold
def test_stock_fairseq_trains_on_beside_the_plugin(data, tmp_path):
    """Loading the user-dir changes nothing about a plain training."""
    arguments = ("fairseq-train", data, "--arch", "transformer_tiny", *CROSS_ENTROPY, *TRAIN)
    losses = [
        run(*arguments, "--max-update", "3", "--save-dir", tmp_path / str(i), *extra).values(
            "loss", "valid"
        )
        for i, extra in enumerate(((), USER_DIR))
    ]
    assert losses[0] == losses[1] != []
