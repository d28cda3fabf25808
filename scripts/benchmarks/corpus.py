"""`pet-fairseq translate-corpus`: lines a second, memory over time, and disk, with a tiny teacher.

The teacher is trained for a moment on a language of 40 words in which every word has one
translation, so that its translations end as sentences do. Its speed is that of a tiny model; what
the figures say is whether memory stays flat and what the folder takes. Of memory it is the resident
pages of all processes of the command, so that pages which several share count several times.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from harness import Parser, report, resident_bytes

from pet_fairseq.errors import UserError
from pet_fairseq.number_format import format_speed
from pet_fairseq.runner.run import resolve

SIZES = {"--lines": 1_000_000, "--shard-lines": 100_000, "--jobs": [1], "--updates": 400}
TINY = {"--lines": 300, "--shard-lines": 100, "--jobs": [1, 2], "--updates": 10}
PARTS = ("1st", "2nd", "3rd", "4th")  # quarters of the time
COLUMNS = {
    "jobs": "d",
    "pairs": ",d",
    "lines/s": format_speed,
    **{f"peak MB, {part} quarter": ".0f" for part in PARTS},
    "disk MB": ".1f",
}
WORDS = 40
SECONDS_BETWEEN_SAMPLES = 0.2
SHAPE = (
    *("--arch", "transformer", "--encoder-layers", "2", "--decoder-layers", "1"),
    *(word for stack in ("encoder", "decoder") for word in (f"--{stack}-embed-dim", "64")),
    *(word for stack in ("encoder", "decoder") for word in (f"--{stack}-ffn-embed-dim", "128")),
    *(word for stack in ("encoder", "decoder") for word in (f"--{stack}-attention-heads", "4")),
)
TRAINING = (
    *("--optimizer", "adam", "--lr", "5e-3", "--max-tokens", "1000", "--cpu", "--num-workers", "0"),
    *("--no-epoch-checkpoints", "--no-last-checkpoints", "--seed", "1"),
)


def sentences(number: int, draw: random.Random) -> Iterator[list[int]]:
    for _ in range(number):
        yield [min(int(draw.expovariate(0.1)), WORDS - 1) for _ in range(draw.randint(1, 15))]


def write_side(path: Path, letter: str, texts: Iterator[list[int]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(" ".join(f"{letter}{n}" for n in numbers) + "\n" for numbers in texts)


def run(*words: object) -> None:
    """Run a command; its last line ends the benchmark if it fails."""
    done = subprocess.run(resolve([*map(str, words)]), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{words[0]} failed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")


def make_engine(folder: Path, updates: int) -> Path:
    """A trained teacher in CTranslate2."""
    for split, size in (("train", 2_000), ("valid", 50)):
        for language, letter in (("de", "a"), ("en", "b")):
            write_side(folder / f"{split}.{language}", letter, sentences(size, random.Random(size)))
    data, trained, engine = folder / "bin", folder / "trained", folder / "engine"
    prefixes = ("--trainpref", folder / "train", "--validpref", folder / "valid")
    run("fairseq-preprocess", "-s", "de", "-t", "en", *prefixes, "--destdir", data)
    options = (*SHAPE, *TRAINING, "--max-update", updates, "--save-dir", trained)
    run("fairseq-train", data, *options)
    export = ("--data", data, "--to", "ctranslate2", "--precision", "int8", "--out", engine)
    run("pet-fairseq", "export", trained / "checkpoint_best.pt", *export)
    return engine


def tree(pid: int) -> list[int]:
    """A process and all that it has started, as far as they live (Linux)."""
    try:
        files = list(Path(f"/proc/{pid}/task").glob("*/children"))
        children = [int(child) for file in files for child in file.read_text().split()]
    except OSError:  # it has just ended
        return []
    return [pid, *(one for child in children for one in tree(child))]


def resident(pid: int) -> int:
    """Bytes of memory of a process tree."""
    total = 0
    for one in tree(pid):
        try:
            total += resident_bytes("VmRSS", one)
        except (OSError, IndexError):  # it has just ended
            continue
    return total


def measure(engine: Path, text: Path, out: Path, jobs: int, args: Namespace) -> list[float]:
    """The cells of a row behind `jobs`.

    Raises:
        UserError: the command failed.
    """
    command = (
        *("pet-fairseq", "translate-corpus", str(engine), "--data", str(engine.parent / "bin")),
        *("--text", str(text), "--out", str(out), "--jobs", str(jobs), "--device", "cpu"),
        *("--beam", "1", "--shard-lines", str(args.shard_lines)),
    )
    start, samples = time.monotonic(), []
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(resolve(command), stdout=printed, stderr=subprocess.STDOUT)
        while process.poll() is None:
            samples.append(resident(process.pid))
            time.sleep(SECONDS_BETWEEN_SAMPLES)
        if process.returncode:
            printed.seek(0)
            raise UserError(printed.read().strip().splitlines()[-1])
    seconds = time.monotonic() - start
    size = len(samples) / len(PARTS)
    quarters = [
        samples[int(i * size) : max(int((i + 1) * size), int(i * size) + 1)] for i in range(4)
    ]
    pairs = json.loads((out / "summary.json").read_text())["pairs"]
    disk = sum(file.stat().st_size for file in out.iterdir() if file.is_file())
    return [pairs, args.lines / seconds, *(max(some) / 1e6 for some in quarters), disk / 1e6]


def main() -> None:
    args = Parser(__doc__, SIZES, TINY, ("--out", "--csv")).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        engine = make_engine(folder, args.updates)
        text = folder / "text.de"
        write_side(text, "a", sentences(args.lines, random.Random(3)))
        about = f"{args.lines:,} lines in {text.stat().st_size / 1e6:.1f} MB of text, greedy, int8"
        with report(args, f"{about}, {len(os.sched_getaffinity(0))} cores", COLUMNS) as result:
            for jobs in args.jobs:
                cells = measure(engine, text, folder / f"pairs{jobs}", jobs, args)
                result.add_row(jobs, *cells)


if __name__ == "__main__":
    main()
