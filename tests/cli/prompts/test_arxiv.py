"""examples/arxiv/prepare.sh on small data of our own; offline."""

import pytest

from tests.cli.prompts.downloads import json_lines, pack, recipe, records
from tests.cli.shell import refuses, sh

pytestmark = pytest.mark.slow


def paper(number: int, article=None, abstract=None) -> dict:
    return {
        "article_id": f"1001.{number}",
        "article_text": [f"paper {number} .", " it is\n long ."] if article is None else article,
        "abstract_text": [f"<S> paper {number} . </S>", "<S> short .</S>"]
        if abstract is None
        else abstract,
        "labels": None,
        "section_names": ["i"],
        "sections": [[f"paper {number} ."]],
    }


@pytest.mark.parametrize("zipped", [True, False])
def test_arxiv(env, public, tmp_path, zipped):
    sets = {
        "train": [paper(1), paper(2, article=[]), paper(3, abstract=["<S> </S>"]), paper(4)],
        "val": [paper(5)],
        "test": [paper(6)],
    }
    members = {f"{split}.txt": json_lines(items) for split, items in sets.items()}
    if zipped:
        members = {f"arxiv-dataset/{name}": text for name, text in members.items()}
        pack(public / "arxiv-dataset.zip", members | {"arxiv-dataset/vocab": "the 1\n"})
        where = {"MIRROR": f"file://{public}"}
        shown = sh(recipe("arxiv"), **env, **where, STAGES="raw").stdout
    else:
        for name, text in members.items():
            (public / name).write_text(text)
        shown = sh(recipe("arxiv"), public, **env, STAGES="raw").stdout
    assert "train: 2 papers, 2 without text or abstract left out" in shown
    for split, numbers in (("train", (1, 4)), ("valid", (5,)), ("test", (6,))):
        assert records(tmp_path / "out", split) == [
            {
                "query": "summarize",
                "prompt": f"paper {number} . it is long .",
                "response": f"paper {number} . short .",
            }
            for number in numbers
        ]


def test_bad_papers(env, public, tmp_path):
    good = json_lines([paper(1)])
    for train, message in (
        (good + '{"article_id": "1"}', "train.txt: line 2: not a paper"),
        (good + "paper", "train.txt: line 2: not a paper"),
        ("", "train.txt: no papers"),
    ):
        members = {"train.txt": train, "val.txt": good, "test.txt": good}
        pack(public / "arxiv-dataset.zip", members)
        refuses(sh(recipe("arxiv"), public, **env, STAGES="raw", check=False), message)
    pack(public / "arxiv-dataset.zip", {"train.txt": good, "test.txt": good})
    result = sh(recipe("arxiv"), public, **env, STAGES="raw", check=False)
    refuses(result, "there is no val.txt")
    assert not (tmp_path / "out/raw").exists()
