"""The commands that the READMEs of examples/ show are those that the recipes run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pet_fairseq.recipes.commands import recipe_parser
from tests.cli.processes import REPO


@pytest.mark.paper
def test_the_commands_in_the_readmes():
    script = REPO / "scripts/environment/readme_commands.py"
    result = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def documented_commands():
    """The commands of recipes in the documents, without what follows in a shell."""
    files = [REPO / "README.md", *(REPO / "docs").glob("*.md"), *REPO.glob("examples/**/*.md")]
    for file in files:
        text = file.read_text(encoding="utf-8").replace("\\\n", " ")
        for command in re.findall(
            r"(?:^|`)pet-fairseq (recipe \w[^`\s]* [^`\n]*)", text, re.MULTILINE
        ):
            yield shlex.split(command.split("#")[0])[1:]


@pytest.mark.paper
def test_recipes_take_the_documented_commands():
    commands = list(documented_commands())
    assert len(commands) > 20
    for name, *options in commands:
        if not any(word.isupper() for word in (name, *options)):  # NAME, TASK stand for something
            recipe_parser(Path(name).name).parse_args([w for w in options if w != "--help"])
