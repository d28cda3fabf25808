"""Movie reviews as prompts that ask for their polarity.

    python records.py ARCHIVE OUT

ARCHIVE is movie_reviews.zip with reviews in pos/ and neg/, named cvNNN_*.txt. Writes
{train,valid,test}.jsonl to the new folder OUT: of each label the reviews cv000 to cv799, cv800 to
cv899 and cv900 to cv999, labels alternating.
"""

import argparse
import json
import re
import sys
import zipfile
from pathlib import Path

QUERY = "is this review positive or negative?"
LABELS = {"neg": "negative", "pos": "positive"}
NAME = re.compile(r"(?:.*/)?(neg|pos)/cv(\d{3})_[^/]*\.txt")


class BadInputError(Exception):
    """A file that cannot be used; the message says which."""


def split_of(number: int) -> str:
    return "train" if number < 800 else "valid" if number < 900 else "test"


def records(archive: zipfile.ZipFile) -> dict[str, list[dict]]:
    """The records of each split, in the order of their numbers."""
    members = []
    for name in archive.namelist():
        if match := NAME.fullmatch(name):
            members.append((int(match[2]), match[1], name))
    splits: dict[str, list[dict]] = {"train": [], "valid": [], "test": []}
    for number, label, name in sorted(members):
        try:
            review = " ".join(archive.read(name).decode("utf-8").split())
        except UnicodeDecodeError as error:
            raise BadInputError(f"{name} is not UTF-8 at byte {error.start}") from error
        record = {"query": QUERY, "prompt": review, "response": LABELS[label]}
        splits[split_of(number)].append(record)
    for split, chosen in splits.items():
        if {record["response"] for record in chosen} != set(LABELS.values()):
            raise BadInputError(f"no reviews of both labels for {split}")
    return splits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()

    try:
        with zipfile.ZipFile(args.archive) as archive:
            splits = records(archive)
    except (OSError, BadInputError, zipfile.BadZipFile) as error:
        sys.exit(f"records.py: {args.archive}: {error}; give another file")
    args.out.mkdir(parents=True)
    for split, chosen in splits.items():
        text = "".join(json.dumps(record) + "\n" for record in chosen)
        (args.out / f"{split}.jsonl").write_text(text)
        positive = sum(record["response"] == "positive" for record in chosen)
        print(f"{split}: {len(chosen)} reviews, {positive} positive")


if __name__ == "__main__":
    main()
