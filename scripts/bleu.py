#!/usr/bin/env python3
"""sacreBLEU of what fairseq-generate wrote, as JSON.

    python scripts/bleu.py OUTPUT REFERENCE

OUTPUT was made with --tokenizer and --remove-bpe, so that it has detokenised text; REFERENCE is the
raw target text of the test set.
"""

import argparse
import json
import sys
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.report.measure import cached_bleu
from pet_fairseq.report.outputs import read_hypotheses, read_text


def score(output: Path, reference: Path) -> dict:
    """BLEU and its signature.

    Raises:
        UserError: unusable files, or files about different sets.
    """
    hypotheses = read_hypotheses(output)
    lines = read_text(reference, "reference").removesuffix("\n").split("\n")
    if len(hypotheses) != len(lines):
        raise UserError(f"{output}: {len(hypotheses)} sentences, but {reference} has {len(lines)}")
    bleu = cached_bleu(lines)
    found = bleu.corpus_score(hypotheses, None)
    return {"bleu": found.score, "signature": str(bleu.get_signature()), "total": len(lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("reference", type=Path)
    args = parser.parse_args()
    try:
        print(json.dumps(score(args.output, args.reference)))
    except (UserError, OSError) as error:
        sys.exit(f"bleu.py: error: {error}")


if __name__ == "__main__":
    main()
