"""Movie reviews as tables of GLUE's SST-2, for an encoder that classifies them.

    python tables.py RAW OUT

RAW has {train,valid,test}.jsonl as records.py writes them; OUT gets train.tsv, dev.tsv and
test.tsv, which `examples/glue/prepare.sh sst2 OUT` takes.
"""

import argparse
import json
import sys
from pathlib import Path

NAMES = {"train": "train", "valid": "dev", "test": "test"}
CLASSES = {"negative": "0", "positive": "1"}


def table(lines: list[str]) -> str:
    """The table of records: a review and its class in each row."""
    rows = [("sentence", "label")]
    for record in map(json.loads, lines):
        rows.append((" ".join(record["prompt"].split()), CLASSES[record["response"]]))
    return "".join("\t".join(row) + "\n" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("raw", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()

    tables = {}
    for split, name in NAMES.items():
        path = args.raw / f"{split}.jsonl"
        try:
            tables[name] = table(path.read_text(encoding="utf-8").splitlines())
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            sys.exit(f"tables.py: {path}: no records of movie reviews; make them by records.py")
    args.out.mkdir(parents=True, exist_ok=True)
    for name, text in tables.items():
        (args.out / f"{name}.tsv").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
