"""Imported by disk_full.py: the commands that write, and what they expect on the disk."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Optional

from workspace import FEW, PLAIN, TRAIN, Workspace

SHARES = (0.0, 0.3, 0.6, 0.9)

Command = Callable[[Workspace, Path], tuple]


class Writer(NamedTuple):
    """A command that writes.

    Args:
        command: its words, for files in a folder of the disk.
        before: puts into that folder what the command expects there.
        unfinished: the names of files that may stay cut short, since the same command goes on.
        shares: of the room that there is; one for commands that start slow ones.
        ours: whether this package writes all files; if not, only the status is checked, and that
            the work can be done again.
        mend: a command to give before the work is done again.
    """

    command: Command
    before: Optional[Callable[[Workspace, Path], None]] = None
    unfinished: tuple[str, ...] = ()
    ours: bool = True
    shares: tuple[float, ...] = SHARES
    mend: Optional[Command] = None


# --- what is there before -------------------------------------------------------------------------


def write_scores(workspace: Workspace, folder: Path) -> None:
    for seed in (1, 2):
        run_folder = folder / f"pet.seed{seed}"
        run_folder.mkdir()
        (run_folder / "result.json").write_text(json.dumps({"bleu": 30.0 + seed}))


def copy_runs(workspace: Workspace, folder: Path) -> None:
    """Two finished runs, as a recipe leaves them."""
    for name, checkpoint in (("teacher", workspace.teacher), ("pet", workspace.student)):
        (folder / name).mkdir()
        shutil.copy(checkpoint, folder / name)
        shutil.copy(workspace.generated, folder / name / "generate.beam5.1.txt")
        (folder / name / "result.json").write_text('{"bleu": 30.0}')


def copy_damaged(workspace: Workspace, folder: Path) -> None:
    """A training folder whose last checkpoint was cut short."""
    shutil.copy(workspace.teacher, folder)
    (folder / "checkpoint_last.pt").write_bytes(workspace.teacher.read_bytes()[:1000])


def write_bert(workspace: Workspace, folder: Path) -> None:
    """The files of a BERT of one layer, outside the disk."""
    import torch
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models

    files = workspace.folder / "bert"
    if files.exists():
        return
    files.mkdir()
    width, inner, words = 8, 16, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    config = {
        **{"model_type": "bert", "hidden_act": "gelu", "hidden_size": width},
        **{"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": inner},
        **{"max_position_embeddings": 16, "type_vocab_size": 2, "vocab_size": len(words)},
        **{"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
        "layer_norm_eps": 1e-12,
    }
    (files / "config.json").write_text(json.dumps(config))
    vocabulary = {word: i for i, word in enumerate(words)}
    Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]")).save(str(files / "tokenizer.json"))
    layer = "encoder.layer.0"
    shapes = {
        "embeddings.word_embeddings.weight": (len(words), width),
        "embeddings.position_embeddings.weight": (16, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        f"{layer}.intermediate.dense.weight": (inner, width),
        f"{layer}.intermediate.dense.bias": (inner,),
        f"{layer}.output.dense.weight": (width, inner),
        f"{layer}.output.dense.bias": (width,),
    }
    for name in ("query", "key", "value"):
        shapes[f"{layer}.attention.self.{name}.weight"] = (width, width)
        shapes[f"{layer}.attention.self.{name}.bias"] = (width,)
    shapes[f"{layer}.attention.output.dense.weight"] = (width, width)
    shapes[f"{layer}.attention.output.dense.bias"] = (width,)
    norms = ("embeddings", f"{layer}.attention.output", f"{layer}.output")
    shapes |= {
        f"{norm}.LayerNorm.{part}": (width,) for norm in norms for part in ("weight", "bias")
    }
    save_file(
        {name: torch.ones(shape) for name, shape in shapes.items()}, files / "model.safetensors"
    )


# --- the writers ----------------------------------------------------------------------------------


def pet(line: str) -> tuple[str, ...]:
    """The words of a command; no path in it has a space."""
    return ("pet-fairseq", *line.split())


LANGUAGES = "--source-lang fi --target-lang en"
FILES_OF_A_BANK = ("memory.f32", "first.f32", "index.bin", "bank.json")

# w: the workspace's data and models; out: a folder on the disk
WRITERS = {
    "demo-data": Writer(lambda w, out: pet(f"demo-data {out}/demo --train-size 300 --pieces 300")),
    "score --out": Writer(
        lambda w, out: pet(f"score bleu {w.generated} {w.raw}/test.en --out {out}/s.json")
    ),
    "score table": Writer(lambda w, out: pet(f"score table {out} pet"), write_scores),
    "test-text": Writer(lambda w, out: pet(f"test-text {w.data} {LANGUAGES} --out {out}/text")),
    "teacher-text": Writer(
        lambda w, out: pet(
            f"teacher-text {w.generated_training} --data {w.data} {LANGUAGES} --out {out}/data"
        ),
        shares=SHARES[1:2],
    ),
    "import-bert": Writer(
        lambda w, out: pet(f"import-bert {w.folder}/bert --out {out}/bert"), write_bert
    ),
    "repair": Writer(lambda w, out: pet(f"repair {out}"), copy_damaged),
    "export": Writer(
        lambda w, out: pet(f"export {w.student} --data {w.data} --to fairseq --out {out}/x")
    ),
    "export ctranslate2": Writer(
        lambda w, out: pet(f"export {w.student} --data {w.data} --to ctranslate2 --out {out}/x")
    ),
    "report": Writer(lambda w, out: pet(f"report {out} --reference {w.raw}/test.en"), copy_runs),
    "sample-heads": Writer(
        lambda w, out: pet(
            f"sample-heads {w.student} --data {w.data} --sentences 20 --heads 2 --out {out}/cut.pt"
        )
    ),
    "suggest-pairs": Writer(
        lambda w, out: pet(
            f"suggest-pairs {w.teacher} --data {w.data} --sentences 20 --out {out}/pairs"
        )
    ),
    "new-plugins": Writer(lambda w, out: pet(f"new-plugins {w.teacher} --out {out}/plugins.pt")),
    "plugins": Writer(lambda w, out: pet(f"plugins {out} --backbone teacher"), copy_runs),
    "neurons": Writer(
        lambda w, out: pet(
            f"neurons {w.plugins} --data {w.data} --sentences 20 --out {out}/neurons"
        )
    ),
    "prompts": Writer(lambda w, out: w.prompts_command(out / "bin")),
    "memory-map": Writer(
        lambda w, out: pet(
            f"memory-map {w.selfcp} --data {w.prompts} --subset valid --out {out}/map"
        )
    ),
    "choose": Writer(
        lambda w, out: pet(
            f"choose {w.selfcp} --data {w.prompts} --subset valid --candidates ba ko "
            f"--out {out}/c.json"
        )
    ),
    "bank build": Writer(
        lambda w, out: pet(f"bank build {w.selfcp} --data {w.prompts} --block 10 --out {out}/bank"),
        unfinished=FILES_OF_A_BANK,
    ),
    "compress": Writer(
        lambda w, out: pet(f"compress {w.teacher} --data {w.data} --out {out}/small --updates 2"),
        ours=False,  # fairseq writes its checkpoints and logs
        shares=SHARES[1:2],
    ),
    "fairseq-train": Writer(
        lambda w, out: ("fairseq-train", w.data, "--save-dir", out / "run", *TRAIN, *FEW, *PLAIN),
        ours=False,
        mend=lambda w, out: pet(f"repair {out}/run"),
    ),
}
