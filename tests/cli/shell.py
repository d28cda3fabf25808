"""The shell scripts as a user starts them."""

import os
import shlex
import subprocess
from pathlib import Path

from tests.cli.processes import BIN, REPO, command_line

FORKED = (
    *("fairseq-preprocess", "fairseq-train", "fairseq-generate", "fairseq-interactive"),
    "pet-fairseq",
)


def forked_commands() -> dict[str, str]:
    """Functions that bash finds before the commands of these names, which load fairseq."""
    return {
        f"BASH_FUNC_{name}%%": f'() {{ {shlex.join(command_line(name, cold=False))} "$@"; }}'
        for name in FORKED
    }


def bash(*args, check: bool = True, **env) -> subprocess.CompletedProcess:
    """Run bash with the environment's commands first on the path."""
    path = f"{BIN}:{os.environ['PATH']}"
    settings = {"PATH": path, "OMP_NUM_THREADS": "1", "WORKERS": "1", **env}
    result = subprocess.run(
        ["bash", *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, **forked_commands(), **settings},
        timeout=280,
    )
    assert not check or result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result


def sh(script: str, *args, **options) -> subprocess.CompletedProcess:
    return bash(REPO / script, *args, **options)


def write_command(path: Path, code: str) -> None:
    """Write a command that bash finds in the file's folder, if that is first on PATH."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/bash\n{code}\n")
    path.chmod(0o755)


def refuses(result: subprocess.CompletedProcess, *texts) -> None:
    """Failed with one line of error that holds the texts."""
    assert result.returncode != 0
    (line,) = result.stderr.strip().splitlines()
    for text in texts:
        assert str(text) in line
