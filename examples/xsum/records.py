"""XSum's articles as prompts to summarise.

    python records.py ARCHIVE SPLITS OUT

ARCHIVE is XSUM-EMNLP18-Summary-Data-Original.tar.gz with bbc-summary-data/ID.summary, SPLITS is
XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json with the ids of train, validation and test. Writes
{train,valid,test}.jsonl to the new folder OUT, article by article, in the archive's order.

The response is the article's first sentence, the prompt is the rest, without the lines that the
web page has around its text.
"""

import argparse
import json
import re
import sys
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Optional

QUERY = "summarize"
SPLITS = {"train": "train", "validation": "valid", "test": "test"}
MARK = re.compile(r"\[SN\](URL|TITLE|FIRST-SENTENCE|RESTBODY)\[SN\]")
AROUND = {
    *("Share this with", "Email", "Facebook", "Messenger", "Twitter", "Pinterest", "WhatsApp"),
    *("LinkedIn", "Linkedin", "Copy this link"),
    "These are external links and will open in a new window",
}


class BadInputError(Exception):
    """A file that cannot be used; the message says which."""


def split_of_ids(path: Path) -> dict[str, str]:
    """The split of each article's id."""
    try:
        ids = json.loads(path.read_bytes())
        return {number: ours for theirs, ours in SPLITS.items() for number in ids[theirs]}
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{path}: not XSum's list of splits ({error!r})") from error


def summaries(path: Path) -> Iterator[tuple[str, str]]:
    """Id and text of each article."""
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            name = Path(member.name)
            if not member.isfile() or name.suffix != ".summary":
                continue
            try:
                yield name.stem, archive.extractfile(member).read().decode("utf-8")
            except UnicodeDecodeError as error:
                raise BadInputError(f"{name} is not UTF-8 at byte {error.start}") from error


def record(text: str) -> Optional[dict]:
    """The record of an article, None if it has no first sentence or nothing else."""
    parts = MARK.split(text)
    sections = {name: " ".join(clean(part)) for name, part in zip(parts[1::2], parts[2::2])}
    summary, article = (sections.get(name, "") for name in ("FIRST-SENTENCE", "RESTBODY"))
    return {"query": QUERY, "prompt": article, "response": summary} if summary and article else None


def clean(text: str) -> Iterator[str]:
    """The words of the text's own lines."""
    for line in text.splitlines():
        if line.strip() not in AROUND:
            yield from line.split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("splits", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()

    counts: Counter = Counter()
    try:
        splits = split_of_ids(args.splits)
        args.out.mkdir(parents=True)
        with ExitStack() as stack:
            files = {
                split: stack.enter_context((args.out / f"{split}.jsonl").open("w"))
                for split in SPLITS.values()
            }
            for number, text in summaries(args.archive):
                split, article = splits.pop(number, None), record(text)
                if split is None or article is None:
                    counts["in no split" if split is None else "empty"] += 1
                    continue
                print(json.dumps(article), file=files[split])
                counts[split] += 1
        if not all(counts[split] for split in SPLITS.values()):
            raise BadInputError("not an article for each split")
    except (OSError, EOFError, zlib.error, tarfile.TarError, BadInputError) as error:
        sys.exit(f"records.py: {args.archive}: {error}; give another file")
    for split in SPLITS.values():
        print(f"{split}: {counts[split]} articles")
    left_out = [f"{counts[why]} {why}" for why in ("in no split", "empty") if counts[why]]
    left_out += [f"{len(splits)} of the list not in the archive"] if splits else []
    if left_out:
        print(f"left out: {', '.join(left_out)}")


if __name__ == "__main__":
    main()
