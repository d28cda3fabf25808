"""fairseq-train with the PET student and the distillation criterion."""

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu

import pet_fairseq
from pet_fairseq.checkpoints.saving import unique_tensors
from tests.cli.processes import REPO, TRAIN, preprocess, run, train


def model_state(folder):
    return load_checkpoint_to_cpu(str(folder / "checkpoint_last.pt"))["model"]


def test_logs_loss_perplexity_kl_and_agreement(student):
    _, log = student
    for key in ("loss", "nll_loss", "ppl", "kl", "agreement"):
        assert log.values(key, "valid"), key
    kl, agreement, ppl = (log.values(key, "valid") for key in ("kl", "agreement", "ppl"))
    assert kl[-1] < kl[0] and ppl[-1] < ppl[0]
    assert all(0 <= value <= 100 for value in agreement)
    nll = log.values("nll_loss", "valid")[-1]
    assert ppl[-1] == pytest.approx(2**nll, rel=0.01)


def test_logs_the_compression_rate(student):
    _, log = student
    assert "compression rate 0.50% of transformer_iwslt_de_en" in log.output
    # transformer_tiny: 2 x (4 d^2 + 2 d f + 9 d + f) + 2 x (8 d^2 + 2 d f + 15 d + f), d = f = 64
    assert "student 159,104, teacher 134,400; compression rate 118.38% of the teacher" in log.output


def test_checkpoint_holds_the_student_only_and_each_tensor_once(student):
    folder, _ = student
    state = load_checkpoint_to_cpu(str(folder / "checkpoint_last.pt"))
    assert state["criterion"] is None
    tensors = {
        n: t for n, t in state["model"].items() if not n.endswith(("version", "_float_tensor"))
    }
    assert unique_tensors(state["model"]).keys() == tensors.keys()
    assert not any("encoder.layers.2.fc1" in name for name in tensors)  # shared with layer 0
    trained = state["last_optimizer_state"]["param_groups"][0]["params"]
    assert len(trained) == len(tensors)


def test_file_is_no_larger_than_its_parameters(data, student_options, tmp_path):
    train(
        *(data, tmp_path, *student_options, "--max-update", "1", "--no-save-optimizer-state"),
        *("--encoder-embed-dim", "192", "--decoder-embed-dim", "192"),
        *("--encoder-ffn-embed-dim", "768", "--decoder-ffn-embed-dim", "768"),
    )
    parameters = sum(t.numel() for t in unique_tensors(model_state(tmp_path)).values())
    assert (tmp_path / "checkpoint_last.pt").stat().st_size <= 4 * parameters * 1.05


def test_resumed_training_equals_an_uninterrupted_one(data, student_options, tmp_path):
    """Within the first epoch: for a later one fairseq fills the batches anew when it resumes."""
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    train(data, whole, *student_options, "--max-update", "4")
    train(data, halves, *student_options, "--max-update", "2")
    log = train(data, halves, *student_options, "--max-update", "4")
    assert "Loaded checkpoint" in log.output
    for name, tensor in model_state(whole).items():
        torch.testing.assert_close(model_state(halves)[name], tensor, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--memory-efficient-fp16",),
        ("--fp16", "--fp16-no-flatten-grads"),  # without it fairseq wants a GPU
        ("--amp",),
        ("--update-freq", "2"),
        ("--distillation-temperature", "4", "--distillation-alpha", "0.1"),
        ("--report-accuracy", "--sentence-avg"),
        ("--encoder-normalize-before", "--decoder-normalize-before", "--store-ema"),
    ],
    ids=lambda options: options[0].lstrip("-"),
)
def test_works_with(options, data, student_options, tmp_path):
    log = train(data, tmp_path, *student_options, "--max-update", "12", *options)
    losses = log.values("loss", "valid")
    assert all(0 < loss < 100 for loss in losses)
    assert all(torch.isfinite(t).all() for t in model_state(tmp_path).values())


@pytest.mark.slow
def test_bf16(data, student_options, tmp_path):
    """fairseq's own --bf16 means a TPU."""
    arguments = ("--user-dir", REPO / "pet_fairseq", "--save-dir", tmp_path, *TRAIN)
    log = run(
        *("pet-fairseq", "train-bf16", data, *arguments, *student_options, "--max-update", "12")
    )
    kl = log.values("kl", "valid")
    assert kl[-1] < kl[0]
    history = load_checkpoint_to_cpu(str(tmp_path / "checkpoint_last.pt"))["optimizer_history"]
    assert history[-1]["optimizer_name"] == "FP16Optimizer"  # the one for half precision
    assert all(torch.isfinite(t).all() for t in model_state(tmp_path).values())


@pytest.mark.slow
def test_ensemble_and_joined_dictionary(raw, tmp_path):
    data = preprocess(raw, tmp_path / "bin", "--joined-dictionary")
    teachers = []
    for seed in ("1", "2"):
        folder = tmp_path / f"teacher{seed}"
        train(
            *(data, folder, "--arch", "transformer_tiny", "--criterion", "cross_entropy"),
            *("--seed", seed, "--max-update", "20", "--share-all-embeddings"),
        )
        teachers.append(str(folder / "checkpoint_best.pt"))
    log = train(
        *(data, tmp_path / "student", "--arch", "pet_transformer_tiny", "--share-all-embeddings"),
        *("--criterion", "pet_distillation", "--teacher-path", ":".join(teachers)),
        *("--max-update", "20"),
    )
    assert log.values("kl", "valid")[-1] > 0
    names = model_state(tmp_path / "student")
    assert "encoder.embed_tokens.weight" in names and "decoder.embed_tokens.weight" not in names
    generated = run(
        *("fairseq-generate", data, "--path", tmp_path / "student/checkpoint_last.pt", "--cpu"),
        *("--user-dir", pet_fairseq.__path__[0], "--required-batch-size-multiple", "1"),
    )
    assert generated.output.count("\nH-") == 30
