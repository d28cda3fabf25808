"""Hand-made runs: small checkpoints and outputs of fairseq-generate."""

from argparse import Namespace

import torch
from fairseq.models import build_model
from omegaconf import OmegaConf

from tests import helpers

WORDS = 20  # with fairseq's four special ones
REFERENCE = ["a small dog runs over the green grass", "two men sit on a bench", "he said « yes »"]
WORSE = ["a small dog runs over grass", "two men stand on a long bench", "he said no"]


def layer_parameters(width, layers=1):
    """What that many encoder and decoder layers hold: attention, FFN of 2 width, norms."""
    attention = 4 * (width * width + width)
    ffn = width * 2 * width + 2 * width + 2 * width * width + width
    return layers * ((attention + ffn + 2 * 2 * width) + (2 * attention + ffn + 3 * 2 * width))


def model_options(width, arch="transformer", **options):
    options = dict(arch=arch, share_all_embeddings=True) | options
    for stack in ("encoder", "decoder"):
        options |= {f"{stack}_embed_dim": width, f"{stack}_ffn_embed_dim": 2 * width}
        options |= {f"{stack}_attention_heads": 2}
        options.setdefault(f"{stack}_layers", 1)
    return Namespace(**options)


def save_checkpoint(path, width, seconds=None, separate=False, **options):
    """A Transformer's checkpoint; separate: each name has a tensor of its own, as from a GPU."""
    args = model_options(width, **options)
    state = build_model(args, helpers.task(WORDS - 4)).state_dict()
    save_state(path, args, {n: t.clone() if separate else t for n, t in state.items()}, seconds)


def save_state(path, args, model, seconds=None):
    cfg = {"_name": None, "model": args, "task": {"_name": "translation"}}
    history = {"optimizer_name": "x", "lr_scheduler_state": {}, "num_updates": 1}
    state = {
        "args": None,
        "cfg": OmegaConf.create(cfg, flags={"allow_objects": True}),
        "model": model,
        "optimizer_history": [history],
        "extra_state": {"train_iterator": {"epoch": 1}, "previous_training_time": seconds},
        "last_optimizer_state": {"big": torch.zeros(100_000)},
    }
    torch.save(state, path)


def save_output(path, hypotheses, speed, targets=REFERENCE):
    lines = ["INFO something"]
    for i in reversed(range(len(hypotheses))):  # fairseq prints them in batch order
        lines += [f"S-{i}\tquelle", f"T-{i}\t{targets[i]}", f"H-{i}\t-0.5\t{hypotheses[i]}"]
        lines += [f"D-{i}\t-0.5\t{hypotheses[i]}", f"P-{i}\t-0.5"]
    n = len(hypotheses)
    lines.append(
        f"INFO: Translated {n} sentences (9 tokens) in 1.0s ({speed:.2f} sentences/s, 9 t)"
    )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def save_run(folder, width, outputs, seconds=90.0, **options):
    """A finished run; outputs: {(beam, repeat): (hypotheses, speed)}."""
    folder.mkdir()
    save_checkpoint(folder / "checkpoint_best.pt", width, **options)
    save_checkpoint(folder / "checkpoint_last.pt", width, seconds, **options)
    for (beam, k), (hypotheses, speed) in outputs.items():
        save_output(folder / f"generate.beam{beam}.{k}.txt", hypotheses, speed)
