#!/usr/bin/env python3
"""Writes the commands of the recipes into the READMEs of examples/, or checks that they are there.

    python scripts/environment/readme_commands.py [--check]

A README has a comment with a dry run of `pet-fairseq recipe`, and below it a block with the output.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- (pet-fairseq recipe .* --dry-run) -->\n+```\n)(.*?)(```\n)", re.DOTALL)


def printed(command: str) -> str:
    """What the command prints in a folder where nothing was trained."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "pet_fairseq.cli", *shlex.split(command)[1:]]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(
            words, cwd=folder, env=environment, check=True, capture_output=True, text=True
        ).stdout


def is_recipe(folder: Path) -> bool:
    script = folder / "run.sh"
    return script.is_file() and "pet-fairseq recipe" in script.read_text(encoding="utf-8")


def main() -> None:
    wrong = []
    for readme in sorted((ROOT / "examples").glob("*/README.md")):
        text = readme.read_text(encoding="utf-8")
        if is_recipe(readme.parent) and not BLOCK.search(text):
            wrong.append(f"{readme.relative_to(ROOT)}: shows no commands")
        new = BLOCK.sub(lambda block: block[1] + printed(block[2]) + block[4], text)
        if new == text:
            continue
        if "--check" in sys.argv[1:]:
            wrong.append(f"{readme.relative_to(ROOT)}: shows other commands than the recipe runs")
        else:
            readme.write_text(new, encoding="utf-8")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
