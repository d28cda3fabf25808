"""The commands that the READMEs of examples/ show are those that the recipes run."""

import subprocess
import sys

import pytest

from tests.cli.processes import REPO


@pytest.mark.slow
@pytest.mark.paper
def test_the_commands_in_the_readmes():
    script = REPO / "scripts/environment/readme_commands.py"
    result = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
