"""`pet-fairseq sample-heads` on a wide student, then fairseq's own commands on the result."""

import os

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu

from tests.cli.processes import REPO, refusal, run, train

WIDE = [
    word
    for stack in ("encoder", "decoder")
    for word in (f"--{stack}-attention-heads", "6", f"--{stack}-head-dim", "16")
]
GENERATE = ("--user-dir", REPO / "pet_fairseq", "--cpu", "--required-batch-size-multiple", "1")
GENERATE += ("--beam", "2", "--max-len-b", "15")


@pytest.fixture(scope="module")
def wide(data, student_options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    train(data, folder, *student_options, *WIDE, "--max-update", "8")
    return folder / "checkpoint_best.pt"


@pytest.fixture(scope="module")
def sampled(data, wide, tmp_path_factory):
    out = tmp_path_factory.mktemp("sampled") / "target.pt"
    result = sample(wide, data, out)
    return out, result


def command(checkpoint, data, out, heads=2):
    return ("sample-heads", checkpoint, "--data", data, "--heads", heads, "--out", out)


def sample(*args, options=(), **more):
    return run("pet-fairseq", *command(*args, **more), *options)


def options_of(checkpoint):
    return run("pet-fairseq", "model-options", checkpoint).output.split("\n")[-2].split()


def test_reports_scores_and_sizes(sampled):
    _, result = sampled
    rows = [line for line in result.output.splitlines() if " layer " in line and "_attn" in line]
    assert len(rows) == 4 + 4 + 4
    assert all(row.count("*") == 2 for row in rows)
    assert "before:" in result.output and "active" in result.output


@pytest.mark.slow
def test_fine_tuning_and_generation_through_fairseq(data, sampled, student_options, tmp_path):
    target, _ = sampled
    options = options_of(target)
    assert "--encoder-kept-heads" in options and "--decoder-kept-cross-heads" in options
    log = train(
        *(data, tmp_path, *student_options, *options, "--finetune-from-model", target),
        *("--max-update", "8"),
    )
    assert "loading pretrained model" in log.output
    tuned = load_checkpoint_to_cpu(str(tmp_path / "checkpoint_last.pt"))["model"]
    started = load_checkpoint_to_cpu(str(target))["model"]
    assert {n: t.shape for n, t in tuned.items()} == {n: t.shape for n, t in started.items()}
    before = run("fairseq-generate", data, "--path", target, *GENERATE).output
    after = run(
        "fairseq-generate", data, "--path", tmp_path / "checkpoint_best.pt", *GENERATE
    ).output
    assert before.count("\nH-") == after.count("\nH-") == 30
    assert log.values("loss", "valid")[-1] < log.values("loss", "valid")[0]


@pytest.mark.slow
def test_keeping_every_head_changes_nothing(data, wide, tmp_path):
    sample(wide, data, tmp_path / "same.pt", heads=6)
    lines = [
        run("fairseq-generate", data, "--path", path, *GENERATE).printed("H")
        for path in (wide, tmp_path / "same.pt")
    ]
    assert lines[0] == lines[1] and len(lines[0]) == 30


@pytest.mark.slow
def test_weight_score_keeps_the_same_heads_in_sharing_layers(data, wide, tmp_path):
    sample(wide, data, tmp_path / "w.pt", options=("--score", "weight"))
    args = load_checkpoint_to_cpu(str(tmp_path / "w.pt"))["cfg"]["model"]
    layers = args.encoder_kept_heads.split("/")
    assert layers[0] == layers[2] and layers[1] == layers[3]


def test_bad_input(data, wide, sampled, teacher, tmp_path):
    out = tmp_path / "out.pt"
    cases = [
        (command(wide, data, out, heads=7), "--heads 7: give 1 to 6"),
        (command(wide, data, out, heads=0), "--heads 0: give 1 to 6"),
        (command(teacher, data, out), "not a PET model but transformer_tiny"),
        (command(sampled[0], data, out), "sampled before; give the wide student"),
        (command(wide, tmp_path, out), f"--data {tmp_path}"),
        (command(wide, data, tmp_path / "no/x.pt"), "--out"),
        (command(tmp_path / "none.pt", data, out), "no such file"),
    ]
    for words, message in cases:
        assert message in refusal(*words)
    assert os.listdir(tmp_path) == []


def test_written_file_is_small_and_safe(sampled, wide):
    target, _ = sampled
    state = torch.load(target, weights_only=True)
    assert "last_optimizer_state" not in state
    assert target.stat().st_size < wide.stat().st_size / 2
    assert list(target.parent.iterdir()) == [target]
