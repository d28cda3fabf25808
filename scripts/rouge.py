#!/usr/bin/env python3
"""ROUGE and accuracy of what fairseq-generate wrote, as JSON (percent).

    python scripts/rouge.py OUTPUT [--responses FILE] [--validation LOG]

OUTPUT was made with --bpe sentencepiece or --remove-bpe, so that it has detokenised text. Responses
are the T lines in it, or a file with one in a line. rouge-score with stemming, F-measures. LOG is
what fairseq-validate wrote: the responses' perplexity is taken from there.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.report.outputs import read_text

KINDS = ("rouge1", "rouge2", "rougeL")


def numbered(text: str, kind: str) -> dict[int, str]:
    """The first line of a kind (D, T) for each sentence, by its number."""
    score = r"[^\t\n]*\t" if kind == "D" else ""
    found: dict[int, str] = {}
    for number, line in re.findall(rf"^{kind}-(\d+)\t{score}(.*)$", text, re.MULTILINE):
        found.setdefault(int(number), line)
    return found


def score(output: Path, responses: Path | None) -> dict:
    """Mean scores.

    Raises:
        UserError: unusable files, or files about different sets; or rouge-score is missing.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ModuleNotFoundError as error:
        raise UserError("rouge-score is missing; pip install 'pet-fairseq[rouge]'") from error
    text = read_text(output, "output")
    found = numbered(text, "D")
    right = numbered(text, "T")
    if responses is not None:
        lines = read_text(responses, "responses").removesuffix("\n").split("\n")
        right = dict(enumerate(lines))
    if not found or set(found) != set(right):
        raise UserError(
            f"{output}: {len(found)} answers, but {len(right)} responses; generate again"
        )
    scorer = RougeScorer(KINDS, use_stemmer=True)
    scores = [scorer.score(right[i], found[i]) for i in found]
    means = {kind: 100 * sum(s[kind].fmeasure for s in scores) / len(scores) for kind in KINDS}
    same = sum(found[i].strip() == right[i].strip() for i in found)
    return {**means, "accuracy": 100 * same / len(found), "total": len(found)}


def perplexity(log: Path) -> float:
    """The last one in a log of fairseq-validate.

    Raises:
        UserError: there is none.
    """
    found = re.findall(r"valid on .* \| ppl ([\d.]+)", read_text(log, "log"))
    if not found:
        raise UserError(f"{log}: no perplexity in it; run fairseq-validate again")
    return float(found[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--responses", type=Path)
    parser.add_argument("--validation", type=Path)
    args = parser.parse_args()
    try:
        found = score(args.output, args.responses)
        if args.validation is not None:
            found["ppl"] = perplexity(args.validation)
        print(json.dumps(found))
    except (UserError, OSError) as error:
        sys.exit(f"rouge.py: error: {error}")


if __name__ == "__main__":
    main()
