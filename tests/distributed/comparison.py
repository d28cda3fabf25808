"""Trains all cases in one process and in two, and compares; alone it prints a Markdown table.

Usage: comparison.py
"""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO))

import torch  # noqa: E402

from tests.cli.processes import run  # noqa: E402
from tests.distributed.cases import BACKENDS, CASES, WORKERS  # noqa: E402

# what a log says about time, or about how many batches were counted as one
NOT_COMPARED = {"wps", "ups", "wpb", "bsz", "wall", "train_wall"}


class Compared(NamedTuple):
    """How far the parameters of two processes are from each other's and from one process's."""

    between_processes: float
    from_one: float
    moved: float  # by training
    logs: float  # relative


def train_all(folder: Path) -> dict[tuple[int, int], dict]:
    """What the workers wrote, by number of processes and rank."""
    run("python", REPO / "tests/distributed/worker.py", folder)
    return {
        (processes, rank): torch.load(folder / f"{processes}.{rank}.pt")
        for processes, rank in WORKERS
    }


def compare(results: dict[tuple[int, int], dict], name: str, backend: str) -> Compared:
    """Compare a case with a backend; raises AssertionError with the traceback of a failure."""
    one, first, second = results[1, 0][name, ""], results[2, 0], results[2, 1]
    first, second = first[name, backend], second[name, backend]
    for result in (one, first, second):
        assert "error" not in result, result["error"]
    assert len(one["logs"]) == len(first["logs"]) == len(second["logs"])
    for result in (first, second):
        assert largest_difference(result.get("loaded", result["end"]), result["end"]) == 0
    return Compared(
        largest_difference(first["end"], second["end"]),
        largest_difference(first["end"], one["end"]),
        largest_difference(one["begin"], one["end"]),
        max(log_difference(*logs) for logs in zip(first["logs"], one["logs"])),
    )


def largest_difference(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    assert a.keys() == b.keys()
    return max((tensor - b[name]).abs().max().item() for name, tensor in a.items())


def log_difference(ours: dict, theirs: dict) -> float:
    """The largest relative difference of what two logs say of the same update."""
    keys = theirs.keys() - NOT_COMPARED
    assert keys == ours.keys() - NOT_COMPARED and "loss" in keys
    pairs = [(float(ours[key]), float(theirs[key])) for key in keys]
    return max(abs(a - b) / max(abs(b), 1e-6) for a, b in pairs)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = train_all(Path(folder))
    print("| case |", " | ".join(f"`{backend}`" for backend in BACKENDS), "|")
    print("|---" * (1 + len(BACKENDS)) + "|")
    for name in CASES:
        cells = []
        for backend in BACKENDS:
            found = compare(results, name, backend)
            cells.append(f"{max(found.between_processes, found.from_one):g}")
        print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
