"""A folder of runs: the seeds in its folders' names, order.txt, and result.json of each run.

The folders NAME.seed1, NAME.seed2, ... are one row, NAME; any other folder is a row of its own.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text

SEED = re.compile(r"(.+)\.seed(\d+)")
# that result.json may have, with their units, in the order of tables
SCORES = {
    **{"accuracy": "%", "rouge1": "%", "rouge2": "%", "rougeL": "%", "perplexity": ""},
    **{"exact_match": "%", "f1": "%", "matthews": "%"},
    **{"bleu": "%", "chrf": "%", "comet": "", "ppl": "", "read": ""},
    "prompt_ms": "",
}


def row_name(run: str) -> str:
    """A run's name without its seed."""
    match = SEED.fullmatch(run)
    return match[1] if match else run


def seed_of(run: str) -> Optional[int]:
    """The seed in a run's name, None without one."""
    match = SEED.fullmatch(run)
    return int(match[2]) if match else None


def read_order(runs: Path) -> list[str]:
    """The names of rows or runs in order.txt, one on each line; none without that file.

    Raises:
        UserError: it is no text.
    """
    file = runs / "order.txt"
    lines = read_text(file, "order").splitlines() if file.is_file() else []
    return [line.strip() for line in lines if line.strip()]


@dataclass(frozen=True)
class Result:
    """What `pet-fairseq score` found about a run, as its result.json has it.

    Attributes:
        scores: those in SCORES that it has, in that order.
        hits: 1 for each sentence that is right, 0 for each other one; empty if not known.
        cut: K, where the run read only the last 1/K of its prompts.
        majority_class: accuracy in percent of always choosing the most frequent class; 0: unknown.
    """

    scores: dict[str, float]
    hits: tuple[int, ...] = ()
    cut: int = 1
    majority_class: float = 0.0


def read_result(path: Path) -> Result:
    """Read the scores of a run.

    Raises:
        UserError: not a file of scores, or none that is known.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        result = Result(
            scores={name: float(content[name]) for name in SCORES if name in content},
            hits=tuple(map(int, content.get("by_sentence", ""))),
            cut=int(content.get("cut", 1)),
            majority_class=float(content.get("majority_class", 0)),
        )
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UserError(f"{path}: no scores in it; evaluate the run again") from error
    if not result.scores:
        raise UserError(f"{path}: has none of {', '.join(SCORES)}; evaluate the run again")
    return result
