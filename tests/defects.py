"""Breaks the package in one place at a time and shows which test notices.

    python tests/defects.py [--tree FOLDER] [NAME ...]

Each defect of tests/defect_list.py replaces a text that stands once in pet_fairseq or scripts, in a
copy of the tree; then the tests of that place run until one fails. It prints a row of a Markdown
table for each; the exit status is 1 if one is not noticed.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO))

from tests.cli.processes import start  # noqa: E402
from tests.defect_list import DEFECTS, Defect  # noqa: E402

FOLDERS = ("pet_fairseq", "scripts")  # where a defect's text is looked for
COPIED = (*FOLDERS, "examples", "tests", "docs", "README.md", "Makefile", "pyproject.toml")


def find(tree: Path, defect: Defect) -> Path:
    """The file with the defect's text, which stands once in the tree."""
    files = [path for folder in FOLDERS for path in (tree / folder).rglob("*.*") if path.is_file()]
    counts = {path: path.read_bytes().count(defect.text.encode()) for path in files}
    places = [path for path, count in counts.items() for _ in range(count)]
    if len(places) != 1:
        sys.exit(f"{defect.name}: its text stands {len(places)} times, not once: {defect.text!r}")
    return places[0]


def noticed_by(tree: Path, defect: Defect) -> str:
    """The first test that fails with the defect, "" if none does."""
    path = find(tree, defect)
    whole = path.read_text()
    path.write_text(whole.replace(defect.text, defect.wrong))
    options = ("-x", "-n", "0", "-p", "no:cacheprovider", "-rfE")
    tests = start("pytest", *options, *defect.tests.split(), cwd=tree)
    output, _ = tests.communicate()
    path.write_text(whole)
    if tests.returncode == 0:
        return ""
    marks = ("FAILED ", "ERROR ")
    lines = [line.split()[1] for line in output.splitlines() if line.startswith(marks)]
    if tests.returncode != 1 or not lines:
        sys.exit(f"{defect.name}: the tests could not run: {output[-3000:]}")
    return lines[0].split("[")[0]


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
            find(copy, defect)
        # for the process whose forks run the tests, see tests/cli/fork_server.py
        os.environ.update(PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1")
        for defect in chosen:
            began = time.perf_counter()
            test = noticed_by(copy, defect)
            missed += not test
            seconds = f"{time.perf_counter() - began:.0f} s"
            file = find(copy, defect).relative_to(copy)
            print(f"| {defect.name} | {file} | {test or 'NOT NOTICED'} | {seconds} |", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
