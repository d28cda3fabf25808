"""The pages of docs/results, their data and pictures; README's first screen says what they say."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
RESULTS = REPO / "docs" / "results"
PAGES = sorted(RESULTS.glob("*.md"))
WRAPPED = [
    *(REPO / name for name in ("README.md", "CHANGELOG.md", "examples/README.md")),
    *(path for folder in (".", "howto") for path in sorted((REPO / "docs" / folder).glob("*.md"))),
    *PAGES,
]
BY_HAND = {"memory_map.png"}  # of a checkpoint: `pet-fairseq memory-map`


def prose(path: Path) -> list[str]:
    """The lines of a document outside its blocks of code, without tables and lines with links."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = text.splitlines()
    return [line for line in lines if not line.lstrip().startswith("|") and "](" not in line]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_tables_have_at_most_six_columns(path):
    rows = [line for line in path.read_text().splitlines() if line.startswith("|")]
    assert [row for row in rows if row.replace("\\|", "").count("|") > 7] == []


@pytest.mark.parametrize("path", WRAPPED, ids=lambda path: str(path.relative_to(REPO)))
def test_lines_are_wrapped(path):
    assert [line for line in prose(path) if len(line) > 100] == []


def test_every_data_file_and_plot_is_shown():
    text = "".join(path.read_text() for path in PAGES)
    files = [*(RESULTS / "data").iterdir(), *(RESULTS / "plots").iterdir()]
    assert files
    assert [file.name for file in files if f"{file.parent.name}/{file.name})" not in text] == []


@pytest.mark.parametrize(
    "script, folder, by_hand",
    [("plots.py", RESULTS / "plots", BY_HAND), ("pictures.py", REPO / "docs" / "pictures", set())],
)
def test_a_script_draws_every_picture(script, folder, by_hand, tmp_path):
    command = [sys.executable, REPO / "scripts" / "docs" / script, "--out", tmp_path]
    subprocess.run(command, check=True)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn | by_hand == {path.name for path in folder.iterdir()}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())


def test_the_first_table_of_the_readme_is_that_of_the_results():
    """Sizes, BLEU, speeds and seeds of the teacher and its students."""
    with (RESULTS / "data" / "frontier.csv").open() as file:
        rows = {row["row"]: row for row in csv.DictReader(file)}
    lines = [line for line in (REPO / "README.md").read_text().splitlines() if line[:1] == "|"]
    shown = [re.findall(r"\d+\.\d+|\b\d+(?= \|$)", line) for line in lines[2:5]]
    columns = ("mb_int8", "bleu_int8", "times_teacher_1", "times_teacher_2")
    assert shown == [
        [*(f"{float(rows[name][column]):.2f}" for column in columns), rows[name]["seeds"]]
        for name in ("teacher", "kd", "tenth_kd")
    ]


def test_the_shown_output_of_compress_is_the_measured_one():
    docs = REPO / "docs"
    pages = (RESULTS / "compress.md", REPO / "README.md", docs / "compress.md", docs / "start.md")
    measured, *shown = (re.findall("^.* MB -> .*$", page.read_text(), re.M) for page in pages)
    multi30k, demo = measured
    assert shown == [[multi30k], [demo], [demo]]
    samples, in_start = (re.findall(r"^\| .*\. \|$", page.read_text(), re.M) for page in pages[::3])
    assert len(samples) == 6 and in_start == samples
