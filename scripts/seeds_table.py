#!/usr/bin/env python3
"""A table of scores: a row for each name, mean and sample standard deviation over its seeds.

    python scripts/seeds_table.py RUNS NAME...

Reads RUNS/NAME.seed<N>/result.json; the Markdown is printed and written to RUNS/table.md.
"""

import argparse
import json
import re
import statistics
import sys
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.files import write_whole

SCORES = ("accuracy", "rouge1", "rouge2", "rougeL", "exact_match", "f1", "bleu", "ppl")


def read_seeds(runs: Path, name: str) -> dict[str, list[float]]:
    """The scores of every seed, by name of the score.

    Raises:
        UserError: no finished run of that name, or one without scores.
    """
    found: dict[str, list[float]] = {}
    for folder in sorted(runs.glob(f"{name}.seed*")):
        path = folder / "result.json"
        if not re.fullmatch(re.escape(name) + r"\.seed\d+", folder.name) or not path.is_file():
            continue
        try:
            scores = {k: float(v) for k, v in json.loads(path.read_text()).items() if k in SCORES}
        except (ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: no scores in it; evaluate the run again") from error
        for key, value in scores.items():
            found.setdefault(key, []).append(value)
    if not found:
        raise UserError(f"{runs}: no scores of {name}; finish its runs or leave it out")
    return found


def format_scores(values: list[float]) -> str:
    mean = f"{statistics.mean(values):.2f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.2f}"


def make_table(runs: Path, names: list[str]) -> str:
    by_name = {name: read_seeds(runs, name) for name in names}
    columns = [s for s in SCORES if any(s in scores for scores in by_name.values())]
    rows = [["run", "seeds", *columns], ["---"] + ["---:"] * (1 + len(columns))]
    for name, scores in by_name.items():
        cells = [format_scores(scores[c]) if c in scores else "-" for c in columns]
        rows.append([name, str(max(map(len, scores.values()))), *cells])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("names", nargs="+", metavar="NAME")
    args = parser.parse_args()
    try:
        text = make_table(args.runs, args.names)
    except UserError as error:
        sys.exit(f"seeds_table.py: error: {error}")
    write_whole(args.runs / "table.md", lambda file: file.write_text(text, encoding="utf-8"))
    print(text, end="")


if __name__ == "__main__":
    main()
