"""examples/xsum/prepare.sh on small data of our own; offline."""

import io
import json
import tarfile
from pathlib import Path
from typing import Optional, Union

import pytest

from tests.cli.prompts.downloads import XSUM, XSUM_IDS, recipe, records
from tests.cli.shell import refuses, sh

pytestmark = pytest.mark.slow


def article(number: int, summary: Optional[str] = None, body: Optional[str] = None) -> str:
    summary = f"Summary {number}.\nIt  is." if summary is None else summary
    body = f"Share this with\n\nBody {number}.\nEmail me.\nFacebook\n" if body is None else body
    return (
        f"[SN]URL[SN]\nhttp://web.archive.org/{number}\n\n[SN]TITLE[SN]\nTitle {number}\n\n"
        f"[SN]FIRST-SENTENCE[SN]\n{summary}\n\n[SN]RESTBODY[SN]\n{body}\n"
    )


def write_xsum(folder: Path, articles: dict[str, Union[str, bytes]], ids: dict) -> None:
    with tarfile.open(folder / XSUM, "w:gz") as archive:
        for number, text in articles.items():
            data = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(f"bbc-summary-data/{number}.summary")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    (folder / XSUM_IDS).write_text(json.dumps(ids))


def test_xsum(env, public, tmp_path):
    articles = {str(i): article(i) for i in range(8)}
    articles |= {"8": article(8, summary=""), "9": article(9, body="Email\n"), "10": "no marks"}
    ids = {"train": ["3", "1", "8", "9", "10"], "validation": ["0", "2"], "test": ["4", "99"]}
    write_xsum(public, articles, ids)
    shown = sh(recipe("xsum"), **env, MIRROR=f"file://{public}", STAGES="raw").stdout
    assert "left out: 3 in no split, 3 empty, 1 of the list not in the archive" in shown
    for split, numbers in (("train", (1, 3)), ("valid", (0, 2)), ("test", (4,))):
        assert records(tmp_path / "out", split) == [
            {
                "query": "summarize",
                "prompt": f"Body {number}. Email me.",
                "response": f"Summary {number}. It is.",
            }
            for number in numbers
        ]


def test_bad_articles(env, public, tmp_path):
    ids = {"train": ["1"], "validation": ["2"], "test": ["3"]}
    articles = {str(i): article(i) for i in range(1, 4)}
    for changed, chosen, message in (
        ({}, {"train": ["1"], "test": ["3"]}, "not XSum's list of splits (KeyError('validation'))"),
        ({}, ids | {"test": ["4"]}, "not an article for each split"),
        ({"2": b"[SN]RESTBODY[SN]\n\xff"}, ids, "2.summary is not UTF-8 at byte 17"),
    ):
        write_xsum(public, articles | changed, chosen)
        refuses(sh(recipe("xsum"), public, **env, STAGES="raw", check=False), message)
    assert not (tmp_path / "out/raw").exists()
