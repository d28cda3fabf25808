"""Imported by disk_full.py: the commands that write, and what they expect on the disk."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Optional

from workspace import FEW, PLAIN, PROMPTS, TRAIN, Command, Workspace

SHARES = (0.0, 0.3, 0.6, 0.9)


class Writer(NamedTuple):
    """A command that writes.

    Args:
        command: for files in a folder of the disk.
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


# --- the writers ----------------------------------------------------------------------------------


def pet(*parts: str) -> tuple[str, ...]:
    """The words of a command."""
    return ("pet-fairseq", *" ".join(parts).split())


LANGUAGES = "--source-lang fi --target-lang en"
FILES_OF_A_BANK = ("memory.f32", "first.f32", "index.bin", "bank.json")

WRITERS = {
    "demo-data": Writer(pet("demo-data {out}/demo --train-size 300 --pieces 300")),
    "demo-teacher": Writer(pet("demo-teacher {out}/teacher")),
    "score --out": Writer(pet("score bleu {w.generated} {w.raw}/test.en --out {out}/s.json")),
    "score table": Writer(pet("score table {out} pet"), write_scores),
    "test-text": Writer(pet("test-text {w.data}", LANGUAGES, "--out {out}/text")),
    "teacher-text": Writer(
        pet(
            f"teacher-text {{w.generated_training}} --data {{w.data}} {LANGUAGES}",
            "--out {out}/data",
        ),
        shares=SHARES[1:2],
    ),
    "import-bert": Writer(pet("import-bert {w.bert} --out {out}/bert")),
    "repair": Writer(pet("repair {out}"), copy_damaged),
    "export": Writer(pet("export {w.student} --data {w.data} --to fairseq --out {out}/x")),
    "export ctranslate2": Writer(
        pet("export {w.student} --data {w.data} --to ctranslate2 --out {out}/x")
    ),
    "translate-corpus": Writer(
        pet(
            "translate-corpus {w.teacher} --data {w.data} --text {w.raw}/train.fi --beam 1",
            "--tokenizer space --shard-lines 100 --out {out}/pairs",
        ),
        # seconds, and the times in a lock's note, differ
        unfinished=("00000.json", "00001.json", "summary.json", ".lock"),
    ),
    "report": Writer(pet("report {out} --reference {w.raw}/test.en"), copy_runs),
    "sample-heads": Writer(
        pet(
            "sample-heads {w.student} --data {w.data} --sentences 20 --heads 2",
            "--out {out}/cut.pt",
        )
    ),
    "suggest-pairs": Writer(
        pet(
            "suggest-pairs {w.teacher} --data {w.data} --sentences 20",
            "--out {out}/pairs",
        )
    ),
    "new-plugins": Writer(pet("new-plugins {w.teacher} --out {out}/plugins.pt")),
    "plugins": Writer(pet("plugins {out} --backbone teacher"), copy_runs),
    "neurons": Writer(
        pet("neurons {w.plugins} --data {w.data} --sentences 20 --out {out}/neurons")
    ),
    "prompts": Writer(PROMPTS),
    "memory-map": Writer(
        pet("memory-map {w.selfcp} --data {w.prompts} --subset valid --out {out}/map")
    ),
    "choose": Writer(
        pet(
            "choose {w.selfcp} --data {w.prompts} --subset valid --candidates ba ko",
            "--out {out}/c.json",
        )
    ),
    "bank build": Writer(
        pet("bank build {w.selfcp} --data {w.prompts} --block 10 --out {out}/bank"),
        unfinished=FILES_OF_A_BANK,
    ),
    "compress": Writer(
        pet("compress {w.teacher} --data {w.data} --out {out}/small --updates 2"),
        ours=False,  # fairseq writes its checkpoints and logs
        shares=SHARES[1:2],
    ),
    "fairseq-train": Writer(
        ("fairseq-train", "{w.data}", "--save-dir", "{out}/run", *TRAIN, *FEW, *PLAIN),
        ours=False,
        mend=pet("repair {out}/run"),
    ),
}
