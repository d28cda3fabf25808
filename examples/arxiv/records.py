"""Papers from arXiv as prompts to summarise.

    python records.py OUT FILE...

FILE... is arxiv-dataset.zip of Cohan et al. (2018), or its train.txt, val.txt and test.txt: an
object a line with article_text and abstract_text, lists of sentences; those of the abstract are
in <S> and </S>. Writes {train,valid,test}.jsonl to the new folder OUT, a paper at a time.
"""

import argparse
import json
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Optional

QUERY = "summarize"
SPLITS = {"train.txt": "train", "val.txt": "valid", "test.txt": "test"}


class BadInputError(Exception):
    """A file that cannot be used; the message says which."""


def opened(paths: list[Path]) -> Iterator[tuple[str, BinaryIO]]:
    """Yields the name and the content of each file, or of those in the archive."""
    for path in paths:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if Path(name).name in SPLITS:
                        with archive.open(name) as file:
                            yield Path(name).name, file
        else:
            with path.open("rb") as file:
                yield path.name, file


def record(line: bytes) -> Optional[dict]:
    """The record of a paper, None if it has no text or no abstract."""
    paper = json.loads(line)
    article = " ".join(" ".join(paper["article_text"]).split())
    abstract = " ".join(paper["abstract_text"]).replace("<S>", " ").replace("</S>", " ")
    abstract = " ".join(abstract.split())
    return (
        {"query": QUERY, "prompt": article, "response": abstract} if article and abstract else None
    )


def convert(name: str, lines: BinaryIO, path: Path) -> None:
    """Write the records of one file and say how many."""
    written = left_out = 0
    with path.open("w") as file:
        for number, line in enumerate(lines, 1):
            try:
                paper = record(line)
            except (ValueError, KeyError, TypeError) as error:
                raise BadInputError(f"{name}: line {number}: not a paper ({error!r})") from error
            if paper is None:
                left_out += 1
                continue
            print(json.dumps(paper), file=file)
            written += 1
    if not written:
        raise BadInputError(f"{name}: no papers")
    without = f", {left_out} without text or abstract left out" if left_out else ""
    print(f"{path.stem}: {written} papers{without}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()

    args.out.mkdir(parents=True)
    try:
        for name, lines in opened(args.files):
            convert(name, lines, args.out / f"{SPLITS[name]}.jsonl")
        missing = [n for n, split in SPLITS.items() if not (args.out / f"{split}.jsonl").exists()]
        if missing:
            raise BadInputError(f"there is no {missing[0]}")
    except (OSError, EOFError, zlib.error, BadInputError, zipfile.BadZipFile) as error:
        sys.exit(f"records.py: {', '.join(map(str, args.files))}: {error}; give other files")


if __name__ == "__main__":
    main()
