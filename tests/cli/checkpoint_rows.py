"""Short trainings over everything that changes what fairseq stores in a checkpoint."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import torch
from fairseq.checkpoint_utils import checkpoint_paths

LABEL_SMOOTHED = ("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1")
BLEU = ("--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_a": 1, "max_len_b": 2}')
ONE_BATCH = ("--max-tokens", "4000")  # an epoch is an update


def best(metric: str) -> tuple:
    return ("--best-checkpoint-metric", metric, "--maximize-best-checkpoint-metric")


BEST_BLEU = best("bleu")


def as_0_10(folder: Path) -> dict:
    """fairseq until 0.10 stored a Namespace under `args` in the place of a `cfg`."""
    state = torch.load(folder / "checkpoint_last.pt")
    state["args"], state["cfg"] = Namespace(**vars(state["cfg"]["model"])), None
    return state


def without_optimizer(folder: Path) -> dict:
    """As people leave it out before they publish a file."""
    state = torch.load(folder / "checkpoint_last.pt")
    del state["last_optimizer_state"]
    return state


def averaged(folder: Path) -> dict:
    """As fairseq's script average_checkpoints: the first file with the mean of all models."""
    files = checkpoint_paths(str(folder), r"checkpoint_\d+_(\d+)\.pt")
    assert len(files) > 1
    states = [torch.load(file) for file in files]
    for name, tensor in states[0]["model"].items():
        mean = sum(state["model"][name].float() for state in states) / len(states)
        states[0]["model"][name] = mean.to(tensor.dtype)
    return states[0]


@dataclass(frozen=True)
class Row:
    """A training, and what is left of it.

    Attributes:
        options: of fairseq-train, beside those of all rows.
        file: what the training is continued from, and what is a teacher.
        rewrite: makes the content of another file from the folder, which then replaces `file`.
        updates: that fairseq counts on from when it continues.
        command: that trains.
        why_not: it cannot run here: a package that is missing, for example.
    """

    options: tuple = ()
    file: str = "checkpoint_last.pt"
    rewrite: Optional[Callable[[Path], dict]] = None
    updates: int = 2
    command: tuple = ("fairseq-train",)
    why_not: str = ""


def optimizer(name: str, *options, lr: str = "1e-3", **more) -> Row:
    return Row(("--optimizer", name, "--lr", lr, *options), **more)


def scheduler(name: str, *options) -> Row:
    return Row(("--lr-scheduler", name, *options))


OPTIMIZERS = {
    "adam": optimizer("adam", "--adam-betas", "(0.9, 0.98)", "--weight-decay", "0.0001"),
    "adafactor": optimizer("adafactor", "--scale-parameter"),
    "adagrad": optimizer("adagrad"),
    "adadelta": optimizer("adadelta"),
    "adamax": optimizer("adamax"),
    "nag": optimizer("nag", "--momentum", "0.9"),
    "sgd": optimizer("sgd", "--momentum", "0.9"),
    "cpu_adam": optimizer("cpu_adam", why_not="needs deepspeed"),
    "lamb": optimizer("lamb", why_not="needs apex and a GPU"),
    "composite": optimizer("composite", why_not="its groups can be given to hydra only"),
}

SCHEDULERS = {
    "cosine": scheduler("cosine", "--warmup-updates", "1"),
    "fixed": scheduler("fixed", "--warmup-updates", "3"),
    "inverse_sqrt": scheduler("inverse_sqrt", "--warmup-updates", "3"),
    "manual": scheduler("manual", "--update2lr", "{'1-10': 1e-3}", "--epoch2lr", "{'1': 1e-3}"),
    "polynomial_decay": scheduler("polynomial_decay", "--total-num-update", "9"),
    "reduce_lr_on_plateau": scheduler("reduce_lr_on_plateau", "--lr-patience", "1"),
    "step": scheduler("step", "--lr-deacy-period", "3"),
    "tri_stage": scheduler(
        *("tri_stage", "--warmup-steps", "1", "--hold-steps", "3", "--decay-steps", "9")
    ),
    "triangular": scheduler("triangular", "--lr-period-updates", "4", "--max-lr", "1e-2"),
    "pass_through": Row(why_not="is a part of the optimizer composite"),
}

ROWS = {
    "eval_bleu": Row((*BLEU, *BEST_BLEU, "--eval-bleu-detok", "moses", "--eval-bleu-remove-bpe")),
    "eval_bleu_no_detok": Row((*BLEU, "--eval-bleu-detok", "space", "--eval-bleu-print-samples")),
    "eval_bleu_tokenized": Row((*BLEU, "--eval-tokenized-bleu", *BEST_BLEU)),
    "eval_bleu_best": Row((*BLEU, *BEST_BLEU), file="checkpoint_best.pt"),
    "best_loss": Row(("--keep-best-checkpoints", "1"), file="checkpoint_best.pt"),
    "best_accuracy": Row(
        (*LABEL_SMOOTHED, "--report-accuracy", *best("accuracy")),
        file="checkpoint_best.pt",
    ),
    "best_ppl": Row(("--best-checkpoint-metric", "ppl"), file="checkpoint_best.pt"),
    "epochs": Row(ONE_BATCH, file="checkpoint1.pt", updates=1),
    "updates": Row(("--save-interval-updates", "1"), file="checkpoint_1_1.pt", updates=1),
    "update_freq": Row(("--update-freq", "2")),
    "memory_efficient_fp16": Row(("--memory-efficient-fp16",)),
    "fp16": Row(("--fp16", "--fp16-no-flatten-grads")),  # flat gradients need a GPU
    "bf16": Row(command=("pet-fairseq", "train-bf16")),
    "memory_efficient_bf16": Row(why_not="fairseq looks for a TPU where there is no GPU"),
    "amp": Row(("--amp",)),
    "ema": Row(("--store-ema", "--ema-decay", "0.9")),
    "ema_fp32": Row(
        ("--store-ema", "--ema-fp32", "--memory-efficient-fp16"),
    ),
    "no_optimizer": Row(("--no-save-optimizer-state",), updates=0),
    "optimizer_removed": Row(rewrite=without_optimizer, updates=0),
    "averaged": Row(("--save-interval-updates", "1"), rewrite=averaged),
    "0.10": Row(rewrite=as_0_10),
    "eval_bleu_0.10": Row((*BLEU, *BEST_BLEU), rewrite=as_0_10),
    **{f"optimizer_{name}": row for name, row in OPTIMIZERS.items()},
    **{f"scheduler_{name}": row for name, row in SCHEDULERS.items()},
}
