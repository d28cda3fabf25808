#!/usr/bin/env python3
"""Runs a notebook from top to bottom, as Jupyter would, and can write the outputs into it.

    python scripts/docs/run_notebook.py examples/quickstart.ipynb [--folder FOLDER] [--write]

It knows what our notebooks use: cells of Python, cells of shell commands that begin with `!`, and
figures of matplotlib. A cell that fails ends it.
"""

import argparse
import base64
import contextlib
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib

from pet_fairseq.errors import UserError, install_excepthook
from pet_fairseq.files import read_text, write_text

Cell = dict[str, Any]


def run_shell(source: str) -> str:
    """Run the shell commands of a cell; their output is shown and returned.

    Raises:
        UserError: a command fails.
    """
    script = "set -e\n" + "\n".join(line.removeprefix("!") for line in source.splitlines())
    process = subprocess.Popen(
        ["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = []
    for line in process.stdout or ():
        print(line, end="", flush=True)
        lines.append(line)
    if process.wait():
        raise UserError(f"a command of this cell failed with status {process.returncode}: {source}")
    return "".join(lines)


def run_python(source: str, names: dict[str, Any]) -> str:
    """Run a cell of Python; its output is shown and returned."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "<cell>", "exec"), names)
    print(printed.getvalue(), end="", flush=True)
    return printed.getvalue()


def figures() -> list[Cell]:
    """The open figures of matplotlib as outputs of a cell; closes them."""
    from matplotlib import pyplot

    outputs = []
    for number in pyplot.get_fignums():
        file = io.BytesIO()
        pyplot.figure(number).savefig(file, format="png", dpi=80)
        image = base64.b64encode(file.getvalue()).decode()
        outputs.append({"output_type": "display_data", "data": {"image/png": image}})
        outputs[-1]["metadata"] = {}
    pyplot.close("all")
    return outputs


def run_cell(cell: Cell, number: int, names: dict[str, Any]) -> None:
    """Run a cell of code and keep its outputs in it."""
    source = "".join(cell["source"])
    print(f"\n--- cell {number}\n{source}\n---", flush=True)
    text = run_shell(source) if source.startswith("!") else run_python(source, names)
    stream = {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
    cell["outputs"] = ([stream] if text else []) + figures()
    cell["execution_count"] = number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument(
        "--folder",
        type=Path,
        help="where its commands run, made if it is not there (default: the notebook's own folder)",
    )
    parser.add_argument("--write", action="store_true", help="write the outputs into the notebook")
    args = parser.parse_args()
    install_excepthook()
    notebook = json.loads(read_text(args.notebook, "NOTEBOOK"))
    path = args.notebook.resolve()
    folder = args.folder or path.parent
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    start = time.monotonic()
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        run_cell(cell, number, names)
    print(f"\n{len(code)} cells in {(time.monotonic() - start) / 60:.1f} minutes")
    if args.write:
        write_text(path, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
