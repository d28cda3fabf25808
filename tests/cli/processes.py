"""Real processes on tiny generated data: what a user types, offline and on the CPU."""

import atexit
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Optional

import numpy as np

from pet_fairseq import cli

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
BIN = Path(sys.executable).parent
WITHOUT_DROPOUT = (
    *("--optimizer", "adam", "--lr", "5e-3", "--max-tokens", "500"),
    *("--required-batch-size-multiple", "1", "--no-epoch-checkpoints", "--log-format", "simple"),
    *("--cpu", "--num-workers", "0", "--seed", "3"),
)
TRAIN = (*WITHOUT_DROPOUT, "--dropout", "0.1")
ALONE = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
# of stock fairseq, which under numpy 2 trains no language model without our user directory
LANGUAGE_MODELING = (
    *("--task", "language_modeling", "--sample-break-mode", "eos", "--tokens-per-sample", "40"),
    *(() if np.__version__.startswith("1.") else ("--user-dir", REPO / "pet_fairseq")),
)
CROSS_ENTROPY = ("--criterion", "label_smoothed_cross_entropy")


# read while Python and torch are loaded: only a process of its own sees a change of these
IMPORT_TIME = ("PYTHON", "OMP_", "CUDA_")


@cache
def fork_server() -> str:
    """The address of this process's fork server, which ends with this process."""
    folder = tempfile.mkdtemp(prefix="fork_server_")
    address = f"{folder}/socket"
    server = subprocess.Popen(
        [sys.executable, HERE / "fork_server.py", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **ALONE},
    )
    lines = [""]
    while lines[-1] != "listening\n":
        lines.append(server.stdout.readline())
        assert lines[-1], "".join(lines)  # it has ended

    def stop():
        server.communicate()
        shutil.rmtree(folder)

    atexit.register(stop)
    return address


def command_line(command: str, *args, cold: bool) -> list[str]:
    """How to start one of the environment's commands, or `python SCRIPT`."""
    words = [str(BIN / command), *map(str, args)]
    if cold or "PET_FAIRSEQ_COLD" in os.environ or not hasattr(os, "pidfd_open"):  # Linux has it
        return words
    script = words[1:] if command == "python" else words
    return [sys.executable, "-IS", str(HERE / "fork_client.py"), fork_server(), *script]


def start(command: str, *args, **options) -> subprocess.Popen:
    """Start one of the environment's commands, output and errors in one pipe.

    It runs in a fork of a process that has fairseq loaded, unless the test is marked `cold` or the
    process is to begin with something that a fork does not take over.
    """
    env = options.pop("env", {})
    cold = args[:1] == ("-c",)
    cold |= any(name.startswith(IMPORT_TIME) for name in env)
    return subprocess.Popen(
        command_line(command, *args, cold=cold),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=options.pop("stdin", subprocess.DEVNULL),
        text=True,
        env={**os.environ, **ALONE, **env},
        **options,
    )


@dataclass
class Result:
    status: int
    output: str

    def values(self, key: str, tag: str) -> list[float]:
        """The numbers after `key` in fairseq's log lines with this tag, for example kl in valid."""
        lines = [line for line in self.output.splitlines() if f"| {tag} |" in line]
        fields = [part.split() for line in lines for part in line.split("|")]
        return [float(field[1]) for field in fields if len(field) == 2 and field[0] == key]

    def printed(self, kinds: str) -> list[list[str]]:
        """The fields of fairseq-generate's lines of these kinds, for example H, or HP for both."""
        lines = [line.split("\t") for line in self.output.splitlines()]
        return [fields for fields in lines if fields[0][:1] in kinds and fields[0][1:2] == "-"]


def run(
    command: str, *args, check: bool = True, text_in: Optional[str] = None, **options
) -> Result:
    """Run a command to its end; with `check` a failure fails the test and shows the output.

    It may take long where others use the machine: a quarter of an hour means that it hangs.
    """
    if text_in is not None:
        options["stdin"] = subprocess.PIPE
    process = start(command, *args, **options)
    output, _ = process.communicate(text_in, timeout=900)
    assert not check or process.returncode == 0, output[-3000:]
    return Result(process.returncode, output)


@contextmanager
def levels_restored() -> Iterator[None]:
    """Undo what a command does to the loggers of its process, which other tests share."""

    def levels() -> dict[str, int]:
        loggers = logging.root.manager.loggerDict.items()
        return {name: x.level for name, x in loggers if isinstance(x, logging.Logger)}

    before = levels()
    try:
        yield
    finally:
        for name in levels():
            logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


def in_process(*words) -> Result:
    """A command of pet-fairseq without a process of its own: for what it refuses, above all."""
    written = BytesIO()
    output = TextIOWrapper(written, encoding="utf-8", write_through=True)
    with levels_restored(), redirect_stdout(output), redirect_stderr(output):
        try:
            status = cli.main(list(map(str, words)))
        except SystemExit as stop:
            status = stop.code or 0
    return Result(status, written.getvalue().decode())


def refusal(*words) -> str:
    """The line with which a command of pet-fairseq refuses its words, in this process."""
    result = in_process(*words)
    assert result.status and "Traceback" not in result.output
    return result.output.splitlines()[-1]


def train(
    data: Path, save_dir: Path, *args, check: bool = True, common: tuple = TRAIN, **options
) -> Result:
    """fairseq-train with our user-dir; later options override the common ones."""
    return run(
        *("fairseq-train", data, "--user-dir", REPO / "pet_fairseq", "--save-dir", save_dir),
        *(*common, *args),
        check=check,
        **options,
    )


def write_text(folder: Path, sizes: dict[str, int], words: int = 40, seed: int = 0) -> None:
    """A toy language: each source word has one target word, and the order is reversed."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    for split, size in sizes.items():
        pairs = []
        for _ in range(size):
            numbers = [
                min(int(draw.expovariate(0.1)), words - 1) for _ in range(draw.randint(1, 9))
            ]
            pairs.append(
                (" ".join(f"a{n}" for n in numbers), " ".join(f"b{n}" for n in numbers[::-1]))
            )
        for lang, side in (("de", 0), ("en", 1)):
            (folder / f"{split}.{lang}").write_text("".join(pair[side] + "\n" for pair in pairs))


def preprocess(raw: Path, out: Path, *args) -> Path:
    prefixes = [f"--{split}pref={raw / split}" for split in ("train", "valid", "test")]
    run("fairseq-preprocess", "-s", "de", "-t", "en", *prefixes, f"--destdir={out}", *args)
    return out
