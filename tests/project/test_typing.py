"""One style of type hints: builtin generics (ruff checks these) and Optional, never `| None`."""

import ast
import subprocess

from tests.cli.processes import REPO


def bars(source):
    """The lines of annotations that are written with a bar."""
    for node in ast.walk(ast.parse(source)):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            for part in ast.walk(annotation) if annotation is not None else ():
                if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
                    yield part.lineno


def test_optional_is_written_in_one_way():
    assert list(bars("def f(x: int | None, y: list[int]): pass")) == [1]
    names = subprocess.run(
        ["git", "ls-files", "--", "*.py"], cwd=REPO, capture_output=True, text=True, check=True
    ).stdout.split()
    found = {name: list(bars((REPO / name).read_text())) for name in names}
    assert {name: lines for name, lines in found.items() if lines} == {}
