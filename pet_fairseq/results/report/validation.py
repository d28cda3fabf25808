"""Reading what fairseq-validate printed for a run: validate.txt in its folder."""

import re
from pathlib import Path
from typing import NamedTuple, Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text

NAME = "validate.txt"
RESULT = re.compile(r"valid on '.*' subset \| .*")


class Validation(NamedTuple):
    """Bits per token of the validation set; None where the criterion does not log it."""

    nll: Optional[float] = None  # of the gold tokens
    kl: Optional[float] = None  # between teacher and student


NOT_VALIDATED = Validation()


def read_validation(path: Path) -> Validation:
    """Read the last result in the log.

    Raises:
        UserError: it is no text, or has no result.
    """
    results = RESULT.findall(read_text(path, "validation"))
    if not results:
        raise UserError(f"{path}: no result in it, unfinished; delete it and validate again")
    return Validation(*(_value(results[-1], name) for name in ("nll_loss", "kl")))


def _value(result: str, name: str) -> Optional[float]:
    match = re.search(rf"\| {name} (\d+(?:\.\d+)?)(?: |$)", result)
    return float(match[1]) if match else None
