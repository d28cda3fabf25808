"""Breaks the package in one place at a time and shows which test notices.

    python tests/defects.py [--tree FOLDER] [NAME ...]

Each defect of tests/defect_list.py changes one function in a copy of the tree; then the tests of
that place run until one fails. It prints a row of a Markdown table for each; the exit status is 1
if one is not noticed.
"""

import argparse
import ast
import os
import re
import shutil
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Optional, Union

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO))

from tests.cli.processes import start  # noqa: E402
from tests.defect_list import DEFECTS, Defect  # noqa: E402

FOLDERS = ("pet_fairseq", "scripts", "examples", "tests", "docs")
COPIED = (*FOLDERS, "README.md", "Makefile", "pyproject.toml")
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
Place = Union[ast.Module, ast.FunctionDef, ast.ClassDef]


def put_into(tree: Path, defect: Defect) -> str:
    """The whole text of the defect's file, with the defect in it."""
    name, _, function = defect.place.partition(":")
    source = (tree / name).read_text()
    if not name.endswith(".py"):
        return replace_once(source, defect)
    place = find_definition(ast.parse(source), function)
    if place is None:
        sys.exit(f"{defect.name}: {name} has no {function}")
    changed = replace_once(ast.unparse(place), defect)
    if isinstance(place, ast.Module):
        return changed
    lines = source.splitlines(keepends=True)
    first = min(node.lineno for node in (place, *place.decorator_list)) - 1
    changed = textwrap.indent(changed, " " * place.col_offset) + "\n"
    return "".join([*lines[:first], changed, *lines[place.end_lineno :]])


def find_definition(module: ast.Module, qualified: str) -> Optional[Place]:
    """The function or class of a qualified name, as `Class.method`; the module itself for ""."""
    place: Place = module
    for name in qualified.split(".") if qualified else ():
        named = (node for node in ast.walk(place) if getattr(node, "name", None) == name)
        found = next((node for node in named if isinstance(node, DEFINITIONS)), None)
        if found is None:
            return None
        place = found
    return place


def replace_once(source: str, defect: Defect) -> str:
    count = source.count(defect.text)
    if count != 1:
        sys.exit(
            f"{defect.name}: in {defect.place}, {defect.text!r} stands {count} times, not once"
        )
    return source.replace(defect.text, defect.wrong)


def noticed_by(tree: Path, defect: Defect) -> str:
    """The first test that fails with the defect, "" if none does."""
    path = tree / defect.place.partition(":")[0]
    whole = path.read_text()
    path.write_text(put_into(tree, defect))
    options = ("-x", "-n", "0", "-p", "no:cacheprovider", "-rfE")
    tests = start("pytest", *options, *defect.tests.split(), cwd=tree)
    output, _ = tests.communicate()
    path.write_text(whole)
    if tests.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (tests/[^[\s]*)", output, re.MULTILINE)
    if tests.returncode != 1 or failed is None:
        sys.exit(f"{defect.name}: the tests could not run: {output[-3000:]}")
    return failed[1]


def copy_tree(tree: Path, copy: Path) -> None:
    copy.mkdir()
    for name in COPIED:
        if (tree / name).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(tree / name, copy / name, ignore=unwanted)
        elif (tree / name).exists():
            shutil.copy(tree / name, copy / name)
    (copy / ".venv").symlink_to((tree / ".venv").resolve())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="defects whose name holds one of these words")
    parser.add_argument("--tree", type=Path, default=REPO, help="the tree to break a copy of")
    args = parser.parse_args()
    chosen = [d for d in DEFECTS if not args.names or any(n in d.name for n in args.names)]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "tree")
        copy_tree(args.tree, copy)
        for defect in chosen:
            put_into(copy, defect)
        # for the process whose forks run the tests, see tests/cli/fork_server.py
        os.environ.update(PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1")
        for defect in chosen:
            began = time.perf_counter()
            test = noticed_by(copy, defect)
            missed += not test
            seconds = f"{time.perf_counter() - began:.0f} s"
            print(
                f"| {defect.name} | {defect.place} | {test or 'NOT NOTICED'} | {seconds} |",
                flush=True,
            )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
