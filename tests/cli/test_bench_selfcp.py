"""SelfCP's benchmarks run on the smallest sizes and count what is read; times are not judged."""

import pytest

from tests.cli.processes import REPO, run

pytestmark = pytest.mark.slow


def table(output: str, first: str) -> list[list[str]]:
    """Cells of the rows of the table whose header begins so."""
    text = output[output.index(f"| {first} |") :].split("\n\n")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]  # others are the log's
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_shots():
    script = REPO / "scripts/benchmarks/shots.py"
    out = run("python", script, "--tiny", "--shots", "1", "3").output
    rows = table(out, "shots")
    assert [row[0] for row in rows] == ["1", "3"]
    # </s>, a query of 8 and a prompt of 16, behind demonstrations of 40 tokens or ceil(40 / 12) = 4
    assert [row[1] for row in rows] == [f"{25 + 40 * n}" for n in (1, 3)]
    assert [row[4] for row in rows] == [f"{25 + 4 * n}" for n in (1, 3)]
    assert all(float(row[i]) > 0 for row in rows for i in (2, 5, 7))


def test_ways_to_read():
    script = REPO / "scripts/benchmarks/selfcp.py"
    out = run("python", script, "--tiny", "--lengths", "512", "2048").output
    costs = {row[0]: float(row[5]) for row in table(out, "way")}
    assert costs["full"] == 1 and costs["truncated"] < 0.5  # 16 of 64 tokens, and what all share
    assert [row[:2] for row in table(out, "tokens to compress")] == [
        [length, number] for length in ("512", "2048") for number in ("2", "4", "8", "16")
    ]
