"""What the recipes that make prompts download, and what they wrote."""

import json
import zipfile
from pathlib import Path
from typing import Union

XSUM, XSUM_IDS = (
    "XSUM-EMNLP18-Summary-Data-Original.tar.gz",
    "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json",
)


def recipe(name: str) -> str:
    return f"examples/{name}/prepare.sh"


def pack(path: Path, members: dict[str, Union[str, bytes]]) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)


def records(folder: Path, split: str) -> list[dict]:
    return [json.loads(line) for line in (folder / f"raw/{split}.jsonl").read_text().splitlines()]


def made(tmp_path: Path) -> dict[str, list[dict]]:
    return {split: records(tmp_path / "out", split) for split in ("train", "valid", "test")}


def json_lines(items: list[dict]) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


def write_duc(folder: Path) -> None:
    """Two topics as NIST's archives unpack."""
    topics = ""
    models = folder / "mainEval/ROUGE/models"
    models.mkdir(parents=True)
    (folder / "mainEval/ROUGE/peers").mkdir()
    for number in ("01", "02"):
        documents = ("XIE19980304.0061", f"NYT199807{number}.0137")
        topics += (
            f"<topic>\n<num> D07{number}A </num>\n<title> Title {number} </title>\n<narr>\nWhat is "
            f"{number}?\nWhy &amp; how? \n</narr>\n<docs>\n{chr(10).join(documents)}\n</docs>\n"
            "</topic>\n"
        )
        place = folder / f"duc2007_testdocs/main/D07{number}A"
        place.mkdir(parents=True)
        for name in documents:
            (place / name).write_text(
                f"<DOC>\n<DOCNO> {name} </DOCNO>\n<BODY>\n<HEADLINE> Head </HEADLINE>\n<TEXT>\n"
                f"<P>\n  {number} in {name}\n</P>\n<P>A &lt; B</P>\n</TEXT>\n</BODY>\n</DOC>\n"
            )
        for letter in "DCB":
            text = f"Summary {number}\nby {letter}.\n"
            (models / f"D07{number}.M.250.A.{letter}").write_text(text)
        (folder / f"mainEval/ROUGE/peers/D07{number}.M.250.A.10").write_text("by a system")
    (models / "D0701.M.250.A.D").write_bytes(b"caf\xe9")
    (folder / "duc2007_topics.sgml").write_text(topics)
