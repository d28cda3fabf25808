"""The scripts that measure how the server bears wrong requests and overload, at small size."""

import pytest

from tests.cli.processes import REPO, run

SCRIPTS = REPO / "scripts/reliability"


@pytest.mark.slow
def test_wrong_requests_do_no_harm():
    """No internal error, no traceback in the log, no hang; the script says which request it was."""
    result = run("python", SCRIPTS / "http_bodies.py", "--bodies", "200", "--seed", "2")
    assert "200 requests, seed 2." in result.output
    assert "Faults: 0." in result.output


@pytest.mark.slow
def test_overload():
    """Memory is not judged in such a short time."""
    script = SCRIPTS / "server_load.py"
    output = run("python", script, "--minutes", "0.1", check=False).output
    assert "| behaves |" in output
    assert [
        line for line in output.splitlines() if line.startswith("* ") and "memory" not in line
    ] == []
