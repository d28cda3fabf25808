"""A table of scores over seeds: mean and sample standard deviation of result.json files."""

import json
import re
import statistics
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.files import write_text
from pet_fairseq.markdown import table

SCORES = ("accuracy", "rouge1", "rouge2", "rougeL", "exact_match", "f1", "bleu", "ppl", "read")


def write_seeds_table(runs: Path, names: list[str]) -> str:
    """Write RUNS/table.md from all RUNS/NAME.seed<N>/result.json, and return the table.

    Raises:
        UserError: a name without a finished run, or a result.json without scores.
    """
    by_name = {name: read_seeds(runs, name) for name in names}
    columns = [s for s in SCORES if any(s in scores for scores in by_name.values())]
    rows = [
        [
            name,
            str(max(map(len, scores.values()))),
            *(format_scores(scores[c]) if c in scores else "-" for c in columns),
        ]
        for name, scores in by_name.items()
    ]
    text = table(["run", "seeds", *columns], rows)
    write_text(runs / "table.md", text)
    return text


def read_seeds(runs: Path, name: str) -> dict[str, list[float]]:
    """The values of a run's scores over its seeds, by the score's name.

    Raises:
        UserError: no finished run of that name, or a result.json without scores.
    """
    by_score: dict[str, list[float]] = {}
    for folder in sorted(runs.glob("*.seed*")):
        path = folder / "result.json"
        if not re.fullmatch(re.escape(name) + r"\.seed\d+", folder.name) or not path.is_file():
            continue
        try:
            scores = {k: float(v) for k, v in json.loads(path.read_text()).items() if k in SCORES}
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{path}: no scores in it; evaluate the run again") from error
        for key, value in scores.items():
            by_score.setdefault(key, []).append(value)
    if not by_score:
        raise UserError(f"{runs}: no scores of {name}; finish its runs or leave it out")
    return by_score


def format_scores(values: list[float]) -> str:
    mean = f"{statistics.mean(values):.2f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.2f}"
