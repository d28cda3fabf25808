"""The main task of DUC 2007 as prompts: topics, their documents, summaries by people.

    python records.py FOLDER OUT

FOLDER has, in any folders below it, duc2007_topics.sgml, a folder of documents for each topic
(D0701A/XIE19980304.0061) and the assessors' summaries (D0701.M.250.A.B, a letter at the end), as
NIST's archives unpack. Writes test.jsonl to the new folder OUT, a record for each topic.

The query is the topic's narrative, the prompt its documents in the topic's order, the response the
first assessor's summary; "references" holds those of all assessors.
"""

import argparse
import html
import json
import re
import sys
from pathlib import Path

TOPICS = "duc2007_topics.sgml"


class BadInputError(Exception):
    """A folder that cannot be used; the message says why."""


def read(path: Path) -> str:
    """The text of a file from NIST, which is ASCII except for a few characters."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def inside(tag: str, text: str) -> list[str]:
    """What stands between each <tag> and </tag>."""
    return re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL | re.IGNORECASE)


def plain(text: str) -> str:
    """The text without tags and entities, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def document(path: Path) -> str:
    texts = inside("TEXT", read(path))
    if not texts:
        raise BadInputError(f"{path} has no <TEXT>")
    return plain(" ".join(texts))


def summaries(folder: Path, topic: str) -> list[str]:
    """The assessors' summaries of a topic, by their letters."""
    pattern = re.compile(rf"{re.escape(topic[:-1])}\.M\.\d+\.[A-Z]\.[A-Z]")
    files = [p for p in folder.rglob(f"{topic[:-1]}.M.*") if pattern.fullmatch(p.name)]
    by_name = {path.name: path for path in files}  # mainEval has some files twice
    return [plain(read(by_name[name])) for name in sorted(by_name)]


def record(folder: Path, topic: str) -> dict:
    """The record of a <topic>."""
    fields = {tag: inside(tag, topic) for tag in ("num", "narr", "docs")}
    missing = [tag for tag, texts in fields.items() if not texts]
    if missing:
        raise BadInputError(f"{TOPICS}: a topic without <{missing[0]}>")
    number = plain(fields["num"][0])
    folders = [path for path in folder.rglob(number) if path.is_dir()]
    if not folders:
        raise BadInputError(f"there is no folder {number} with documents")
    texts = []
    for name in fields["docs"][0].split():
        files = [path / name for path in folders if (path / name).is_file()]
        if not files:
            raise BadInputError(f"there is no document {number}/{name}")
        texts.append(document(files[0]))
    references = summaries(folder, number)
    if not references:
        raise BadInputError(f"there is no summary {number[:-1]}.M.250.*.*")
    return {
        "query": plain(fields["narr"][0]),
        "prompt": " ".join(texts),
        "response": references[0],
        "references": references,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()

    try:
        files = sorted(args.folder.rglob(TOPICS))
        if not files:
            raise BadInputError(f"there is no {TOPICS}")
        records = [record(args.folder, topic) for topic in inside("topic", read(files[0]))]
        if not records:
            raise BadInputError(f"{files[0]} has no topics")
    except (OSError, BadInputError) as error:
        sys.exit(f"records.py: {args.folder}: {error}; give the unpacked files of DUC 2007")
    args.out.mkdir(parents=True)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (args.out / "test.jsonl").write_text(lines)
    print(f"test: {len(records)} topics")


if __name__ == "__main__":
    main()
