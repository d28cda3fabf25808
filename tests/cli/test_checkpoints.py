"""What fairseq stores loads: to continue, as a teacher, to generate (docs/checkpoints.md)."""

import json

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


# as in fairseq's examples/translation/README.md, but for the sizes, the epochs and the CPU
IWSLT = (
    *("--arch", "transformer_iwslt_de_en", "--share-decoder-input-output-embed"),
    *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--clip-norm", "0.0"),
    *("--lr", "5e-4", "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "4000"),
    *("--dropout", "0.3", "--weight-decay", "0.0001"),
    *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
    *("--max-tokens", "4096", "--eval-bleu"),
    *("--eval-bleu-args", '{"beam": 5, "max_len_a": 1.2, "max_len_b": 10}'),
    *("--eval-bleu-detok", "moses", "--eval-bleu-remove-bpe", "--eval-bleu-print-samples"),
    *("--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"),
)
SMALL = [
    word
    for side in ("encoder", "decoder")
    for option, value in (("layers", 2), ("embed-dim", 32), ("ffn-embed-dim", 64))
    for word in (f"--{side}-{option}", str(value))
]


@pytest.fixture(scope="module")
def iwslt_teacher(data, tmp_path_factory):
    """A checkpoint of the command that most people train a first fairseq model with."""
    folder = tmp_path_factory.mktemp("iwslt")
    options = ("--cpu", "--max-update", "3", "--save-dir", folder, "--num-workers", "0")
    log = run("fairseq-train", data, *USER_DIR, *IWSLT, *SMALL, *options)
    assert log.values("best_bleu", "valid")
    return folder / "checkpoint_best.pt"


@pytest.mark.slow
def test_from_the_teacher_of_fairseqs_readme_to_a_report(iwslt_teacher, data, tmp_path):
    pytest.importorskip("ctranslate2")
    out = tmp_path / "out"
    command = ("compress", iwslt_teacher, "--data", data, "--out", out, "--rate", "60")
    done = run("pet-fairseq", *command, "--device", "cpu", "--updates", "3")
    assert "sentences/s" in done.output.splitlines()[-2]
    content = json.loads((out / "report.json").read_text())
    assert content["sentences"] == 30 and content["student"]["layer_parameters"] > 0


def test_commands_read_the_teacher_of_fairseqs_readme(iwslt_teacher, data, tmp_path):
    """The parameters, an export, and plugins around it."""
    assert "multiply-adds" in run("pet-fairseq", "params", iwslt_teacher).output
    out = tmp_path / "exported"
    run("pet-fairseq", "export", iwslt_teacher, "--data", data, "--to", "fairseq", "--out", out)
    exported = load_checkpoint(str(out / "model.pt"), "--path")
    assert exported["model"].keys() == load_checkpoint(str(iwslt_teacher), "--path")["model"].keys()
    plugins = ("--arch", "variator", "--backbone-path", iwslt_teacher, "--bottleneck-dim", "8")
    options = [word for word in TRAIN if word not in ("--dropout", "0.1")]
    log = run(
        *("fairseq-train", data, *USER_DIR, "--save-dir", tmp_path / "plugins", *options, *plugins),
        *("--criterion", "variator_distillation", "--compression-ratio", "2", "--max-update", "1"),
    )
    assert log.values("distance", "valid")[-1] > 0


def test_every_optimizer_and_scheduler_of_fairseq_has_a_row():
    ours = {"quantised_adam"}
    assert OPTIMIZER_REGISTRY.keys() - ours == OPTIMIZERS.keys()
    assert LR_SCHEDULER_REGISTRY.keys() == SCHEDULERS.keys()
