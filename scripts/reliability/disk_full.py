"""Lets the disk become full while each command writes its files.

Usage: disk_full.py [--writers NAME ...]          needs Linux and the right to mount a tmpfs

Each command runs once with room, and then on a disk that has room for none, 30, 60 and 90% of what
it writes. It must end with an error of one line and a non-zero status, with every file there whole
or not at all and nothing beside them, and do its work when there is room again. Prints a row for
each writer and a line for each failure; the exit status is 1 if there was one.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Optional

from commands import Result, must, prepare, run
from workspace import FEW, PLAIN, TRAIN, Workspace

SIZE = 64 << 20  # bytes of the disk
PAGE = 4096  # what every file takes of it a multiple of
SHARES = (0.0, 0.3, 0.6, 0.9)


class Writer(NamedTuple):
    """A command that writes.

    Args:
        command: its words, for files in a folder of the disk.
        before: puts into that folder what the command expects there.
        unfinished: the names of files that may stay cut short, since the same command goes on.
        shares: of the room that there is; one for commands that start slow ones.
        ours: whether all that is written is written by this package; else only the status and that
            the work can be done again are looked at.
    """

    command: Callable[[Workspace, Path], tuple]
    before: Optional[Callable[[Workspace, Path], None]] = None
    unfinished: tuple[str, ...] = ()
    ours: bool = True
    shares: tuple[float, ...] = SHARES
    mend: Optional[Callable[[Path], tuple]] = (
        None  # a command to give before the work is done again
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writers", nargs="+", choices=WRITERS, metavar="NAME")
    names = parser.parse_args().writers or list(WRITERS)
    prepare()
    failures = 0
    print(f"{'writer':20} {'bytes':>10}  {'stopped':>7}  failures", flush=True)
    with tempfile.TemporaryDirectory(prefix="disk_full_") as folder:
        workspace = Workspace(Path(folder))
        with small_disk(Path(folder, "disk")) as disk:
            for name in names:
                failures += try_writer(name, WRITERS[name], workspace, disk)
    return int(failures > 0)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of a few MB that is gone afterwards."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode:
        sys.exit(f"cannot mount a disk: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def try_writer(name: str, writer: Writer, workspace: Workspace, disk: Path) -> int:
    """Run a command with and without room; prints its row, returns the number of failures."""
    folder, log = disk / "work", workspace.folder / "writer.log"
    start(writer, workspace, folder)
    before = sizes(folder)
    command = writer.command(workspace, folder)
    must(command, log)
    complete = sizes(folder)
    needed = sum(pages(size) for path, size in complete.items() if before.get(path) != size)
    needed = needed or max(map(pages, complete.values()))  # it replaces a file by one as large
    problems, stopped = [], 0
    for share in writer.shares:
        start(writer, workspace, folder)
        fill(disk, int(share * needed))
        result = run(command, log)
        stopped += result.status != 0
        (disk / "filler").unlink()
        found = wrong(writer, result, before, complete, sizes(folder))
        problems += [f"    with {share:.0%} of the room: {text}" for text in found]
        if result.status == 0:
            continue
        if writer.mend is not None:
            must(writer.mend(folder), log)
        again = run(command, log)
        if again.status != 0:
            problems.append(f"    does not go on when there is room: {last_line(again)}")
    print(f"{name:20} {needed:10,}  {stopped} of {len(writer.shares)}  {len(problems)}", flush=True)
    for line in problems:
        print(line, flush=True)
    return len(problems)


def start(writer: Writer, workspace: Workspace, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if writer.before is not None:
        writer.before(workspace, folder)


def fill(disk: Path, room: int) -> None:
    """Leave so many bytes of the disk free."""
    used = shutil.disk_usage(disk).used
    (disk / "filler").write_bytes(bytes(SIZE - used - room // PAGE * PAGE))


def pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def sizes(folder: Path) -> dict[str, int]:
    """The size of every file, by its path in the folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}


def wrong(
    writer: Writer,
    result: Result,
    before: dict[str, int],
    complete: dict[str, int],
    after: dict[str, int],
) -> list[str]:
    """What is not as it should be after a command that found no room."""
    if result.status == 0:
        return [] if after.keys() == complete.keys() else ["status 0, but files are missing"]
    if not writer.ours:
        return []
    problems = []
    if "Traceback" in result.output:
        problems.append(f"a traceback: {last_line(result)}")
    elif "error: " not in last_line(result):
        problems.append(f"no error in the last line: {last_line(result)}")
    for path, size in after.items():
        whole = size in (before.get(path), complete.get(path))
        if not whole and Path(path).name not in writer.unfinished:
            problems.append(f"{path} has {size:,} of {complete.get(path, 0):,} bytes")
    problems += [f"{path} is gone" for path in before if path not in after]
    return problems


def last_line(result: Result) -> str:
    return (result.output.strip().splitlines() or [""])[-1]


# --- the writers ----------------------------------------------------------------------------------


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


def pet(*words: object) -> tuple:
    return ("pet-fairseq", *words)


LANGUAGES = ("--source-lang", "de", "--target-lang", "en")

WRITERS = {
    "toy-data": Writer(lambda w, out: pet("toy-data", out / "toy", "--train-size", "300")),
    "score --out": Writer(
        lambda w, out: pet("score", "bleu", w.generated, w.raw / "test.en", "--out", out / "s.json")
    ),
    "score table": Writer(lambda w, out: pet("score", "table", out, "pet"), write_scores),
    "test-text": Writer(lambda w, out: pet("test-text", w.data, *LANGUAGES, "--out", out / "text")),
    "teacher-text": Writer(
        lambda w, out: pet(
            "teacher-text",
            w.generated_training,
            "--data",
            w.data,
            *LANGUAGES,
            "--out",
            out / "data",
        ),
        shares=SHARES[1:2],
    ),
    "import-bert": Writer(
        lambda w, out: pet("import-bert", w.folder / "bert", "--out", out / "bert"), write_bert
    ),
    "repair": Writer(lambda w, out: pet("repair", out), copy_damaged),
    "export": Writer(
        lambda w, out: pet(
            "export", w.student, "--data", w.data, "--to", "fairseq", "--out", out / "x"
        )
    ),
    "export ctranslate2": Writer(
        lambda w, out: pet(
            "export", w.student, "--data", w.data, "--to", "ctranslate2", "--out", out / "x"
        )
    ),
    "report": Writer(
        lambda w, out: pet("report", out, "--reference", w.raw / "test.en"), copy_runs
    ),
    "sample-heads": Writer(
        lambda w, out: pet(
            "sample-heads",
            "--checkpoint",
            w.student,
            "--data",
            w.data,
            "--sentences",
            "20",
            "--heads",
            "2",
            "--out",
            out / "cut.pt",
        )
    ),
    "suggest-pairs": Writer(
        lambda w, out: pet(
            "suggest-pairs",
            "--checkpoint",
            w.teacher,
            "--data",
            w.data,
            "--sentences",
            "20",
            "--out",
            out / "pairs",
        )
    ),
    "new-plugins": Writer(
        lambda w, out: pet("new-plugins", "--backbone-path", w.teacher, "--out", out / "plugins.pt")
    ),
    "plugins": Writer(lambda w, out: pet("plugins", out, "--backbone", "teacher"), copy_runs),
    "neurons": Writer(
        lambda w, out: pet(
            "neurons",
            "--checkpoint",
            w.plugins,
            "--data",
            w.data,
            "--sentences",
            "20",
            "--out",
            out / "neurons",
        )
    ),
    "prompts": Writer(lambda w, out: w.prompts_command(out / "bin")),
    "memory-map": Writer(
        lambda w, out: pet(
            "memory-map",
            "--path",
            w.selfcp,
            "--data",
            w.prompts,
            "--subset",
            "valid",
            "--out",
            out / "map",
        )
    ),
    "choose": Writer(
        lambda w, out: pet(
            "choose",
            "--path",
            w.selfcp,
            "--data",
            w.prompts,
            "--subset",
            "valid",
            "--candidates",
            "ba",
            "ko",
            "--out",
            out / "c.json",
        )
    ),
    "bank build": Writer(
        lambda w, out: pet(
            "bank",
            "build",
            "--path",
            w.selfcp,
            "--data",
            w.prompts,
            "--block",
            "10",
            "--out",
            out / "bank",
        ),
        unfinished=("memory.f32", "first.f32", "index.bin", "bank.json"),
    ),
    "compress": Writer(
        lambda w, out: pet(
            "compress", w.teacher, "--data", w.data, "--out", out / "small", "--updates", "2"
        ),
        ours=False,  # its trainings and logs are fairseq's
        shares=SHARES[1:2],
    ),
    "fairseq-train": Writer(
        lambda w, out: ("fairseq-train", w.data, "--save-dir", out / "run", *TRAIN, *FEW, *PLAIN),
        ours=False,
        mend=lambda out: pet("repair", out / "run"),
    ),
}

if __name__ == "__main__":
    sys.exit(main())
