"""The benchmark of attention in steps: its table."""

from tests.cli.processes import REPO, run


def test_a_time_for_every_length_and_precision(tmp_path):
    out = tmp_path / "out.md"
    script = REPO / "scripts/benchmarks/attention.py"
    run("python", script, "--tiny", "--out", out)
    head, _, *rows = [line for line in out.read_text().splitlines() if line.startswith("|")]
    assert "steps, training" in head
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[:2] for row in cells] == [
        [dtype, length] for dtype in ("bfloat16", "float32") for length in ("3", "20")
    ]
    assert all(float(time) >= 0 for row in cells for time in row[2:])
