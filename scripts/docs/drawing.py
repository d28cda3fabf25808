"""The command line of the scripts that draw for the documents."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from pet_fairseq.files import check_folder


def draw_all(about: str, drawings: Mapping[str, Callable[[Path], None]], folder: Path) -> None:
    """Write each drawing as NAME.png into --out.

    Args:
        about: the script's docstring. folder: where they go without --out.
    """
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("--out", type=Path, default=folder, metavar="FOLDER")
    out = parser.parse_args().out
    check_folder(out, "--out")
    for name, draw in drawings.items():
        draw(out / f"{name}.png")
