"""Reading what fairseq's commands printed: figures, and fairseq-generate's numbered lines."""

import re
from collections.abc import Collection
from pathlib import Path

from pet_fairseq.errors import UserError

NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]\d+)?|inf|nan)"  # a figure in a log, which has 1e+06 for 1,000,000
LINES = {  # group 1 is the sentence's number, group 2 its text
    "D": re.compile(r"^D-(\d+)\t[^\t\n]*\t(.*)$", re.MULTILINE),  # detokenised hypotheses
    "H": re.compile(r"^H-(\d+)\t[^\t\n]*\t(.*)$", re.MULTILINE),  # hypotheses, tokenised
    "S": re.compile(r"^S-(\d+)\t(.*)$", re.MULTILINE),  # sources, tokenised
    "T": re.compile(r"^T-(\d+)\t(.*)$", re.MULTILINE),  # targets
}


def numbered_lines(text: str, kind: str) -> dict[int, str]:
    """The texts of the D, H, S or T lines by the number of their sentence.

    Of several hypotheses for a sentence (--nbest) only the first, the best, is kept.
    """
    texts: dict[int, str] = {}
    for number, line in LINES[kind].findall(text):
        texts.setdefault(int(number), line)
    return texts


def lines_in_order(text: str, kind: str, path: Path) -> list[str]:
    """The texts of the D, H, S or T lines in corpus order; `path` is named in errors.

    Missing sentences at the very end cannot be noticed here: compare the number of lines.

    Raises:
        UserError: a sentence before the last one is missing.
    """
    texts = numbered_lines(text, kind)
    for i in range(len(texts)):
        if i not in texts:
            raise UserError(f"{path}: sentence {i} is missing; delete the file and generate again")
    return [texts[i] for i in range(len(texts))]


def check_hypotheses(hypotheses: Collection, option: str, path: Path) -> None:
    """Raises UserError if a file had no D lines; option: names it in the error."""
    if not hypotheses:
        raise UserError(f"{option} {path}: has no D- lines; give what fairseq-generate printed")
