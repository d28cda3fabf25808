"""The blocks of commands in the documents, and running them."""

import re
from pathlib import Path

from tests.cli.processes import REPO
from tests.cli.shell import bash

USER_DIR = "--user-dir $(pet-fairseq user-dir)"  # outside the project's folder


def block(page: str, start: str, **smaller) -> str:
    """A block of a page that begins so, with other values for the options that are given."""
    text = (REPO / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (commands,) = [b for language, b in blocks if not language and b.startswith(start)]
    for name, value in smaller.items():
        option = f"--{name.replace('_', '-')}"
        commands, number = re.subn(rf"{option} \S+", f"{option} {value}", commands)
        assert number, f"{page}: no {option} in the block of {start}"
    return commands


def run_in(folder: Path, commands: str) -> str:
    """What the commands print on standard output."""
    return bash("-euo", "pipefail", "-c", f"cd '{folder}'\n{commands}").stdout
