"""What the benchmarks of fairseq-train have in common: a short training and its counts."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from pet_fairseq.runner.device import KEEP_MEMORY
from pet_fairseq.runner.run import find_program


def train(
    program: Sequence[str], options: Sequence[str], updates: int, variables: Mapping[str, str]
) -> list[dict]:
    """fairseq's counts of ten parts of a training on the CPU, without the first; nothing is saved.

    Args:
        program: what trains, as fairseq-train does. variables: of the environment, in place of
            KEEP_MEMORY.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(find_program(program[0]), *program[1:], *options, "--cpu", "--no-save"),
            *("--save-dir", folder, "--disable-validation", "--max-update", str(updates)),
            *("--log-format", "json", "--log-interval", str(max(1, updates // 10))),
        ]
        others = {k: v for k, v in os.environ.items() if k not in KEEP_MEMORY}
        done = subprocess.run(command, env={**others, **variables}, capture_output=True, text=True)
    output = done.stdout + done.stderr
    counts = logged(output)[1:]
    # not by the exit status: torch may abort a process that is through, after so short a training
    if "| done training in" not in output or not counts:
        sys.exit(f"{' '.join(program)} failed: {done.stderr.strip().splitlines()[-1:]}")
    return counts


def logged(output: str) -> list[dict]:
    """fairseq's own counts, one for each log interval."""
    lines = (line[line.index("{") :] for line in output.splitlines() if "| train_inner |" in line)
    return [json.loads(line) for line in lines]
