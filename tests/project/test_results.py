"""The pages of docs/results, their data and pictures; README's first screen says what they say."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pet_fairseq.compress.training import batch_tokens, default_epochs, default_updates
from pet_fairseq.files import read_csv
from pet_fairseq.number_format import format_ratio
from pet_fairseq.runner.device import Device

REPO = Path(__file__).parents[2]
RESULTS = REPO / "docs" / "results"
PAGES = sorted(RESULTS.rglob("*.md"))
WRAPPED = [
    *(REPO / name for name in ("README.md", "CHANGELOG.md", "examples/README.md")),
    *(path for folder in (".", "howto") for path in sorted((REPO / "docs" / folder).glob("*.md"))),
    *PAGES,
]


def prose(path: Path) -> list[str]:
    """The lines of a document outside its blocks of code, without tables and lines with links."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = text.splitlines()
    return [line for line in lines if not line.lstrip().startswith("|") and "](" not in line]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(RESULTS)))
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
    [
        ("plots.py", RESULTS / "plots", set()),
        ("pictures.py", REPO / "docs" / "pictures", {"browser.png"}),  # a screenshot
    ],
)
def test_a_script_draws_every_picture(script, folder, by_hand, tmp_path):
    command = [sys.executable, REPO / "scripts" / "docs" / script, "--out", tmp_path]
    subprocess.run(command, check=True)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn | by_hand == {path.name for path in folder.iterdir()}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())


def test_the_first_table_of_the_readme_is_that_of_the_results():
    """Sizes, BLEU, speeds and seeds of the teacher and its students."""
    rows = {row["row"]: row for row in read_csv(RESULTS / "data" / "frontier.csv")}
    lines = [line for line in (REPO / "README.md").read_text().splitlines() if line[:1] == "|"]
    shown = [re.findall(r"\d+\.\d+|\b\d+(?= \|$)", line) for line in lines[2:5]]
    assert shown == [
        [
            *(f"{float(rows[name][column]):.2f}" for column in ("mb_int8", "bleu_int8")),
            format_ratio(float(rows[name]["times_teacher_2"])),
            rows[name]["seeds"],
        ]
        for name in ("teacher", "kd", "tenth_kd")
    ]


def test_speeds_of_the_frontier_are_rounded():
    """In the last column of the first table; the rows are those of the CSV file."""
    with (RESULTS / "data" / "frontier.csv").open() as file:
        rows = [
            [format_ratio(float(row[f"times_teacher_{threads}"])) for threads in (1, 2)]
            for row in csv.DictReader(file)
        ]
    table = (RESULTS / "bytes.md").read_text().partition("\n\n![BLEU over megabytes")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert [line.split("|")[-2].strip().split(", ") for line in lines] == rows


def test_the_first_screen_says_what_was_lost():
    """As the pages with the tables do; speeds stand in the table alone."""
    screen, _, rest = (REPO / "README.md").read_text().replace("\n", " ").partition("## Set up")
    lost = re.findall(r"[-+]?\d+\.\d+ ± \d+\.\d+", screen)
    shared, letters, *longer = re.findall(r"[-+]\d\.\d{3,} ± \d\.\d{3,}", rest)  # of KL
    page, test = (
        (RESULTS / f"{name}.md").read_text().partition("## Multi30k")[0].replace("\n", " ")
        for name in ("bytes", "fair_test")
    )
    assert len(lost) == 4 and all(one in page for one in lost)  # in int8 and in float32
    assert f"{shared} bits in KL" in test
    assert all(f"{figure} bits of KL" in test for figure in (letters, longer[0]))
    assert all(figure.lstrip("-") in test for figure in longer[1:]) and len(longer) == 3
    assert "as fast" not in screen


@pytest.mark.slow
def test_sizes_of_larger_teachers_are_computed():
    """The script prints the page's table, and README has its sizes."""
    script = REPO / "scripts/docs/sizes.py"
    printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    rows = [line for line in printed.stdout.splitlines() if line.startswith("|")][2:]
    page, readme = (RESULTS / "compress.md").read_text(), (REPO / "README.md").read_text()
    assert len(rows) == 3 and all(row in page for row in rows)
    for row in rows:
        cells = row.strip("| ").split(" | ")
        assert f"{cells[1]} million" in readme
        assert f"| {cells[2]} | {cells[4]} | {cells[5]} |" in readme


def test_the_lengths_of_training_are_those_of_the_rule():
    """25 tokens a pair, batches of a CPU, of a GPU, of 2 and of 8 GPUs."""
    page = (REPO / "docs" / "howto" / "own_teacher.md").read_text()
    shown = re.findall(
        r"^\| ([\d,]+) \| ([\d.]+)" + r" \| ([\d,]+)" * 4 + r" \|$", page, re.MULTILINE
    )
    assert [row[0] for row in shown] == ["30,000", "1,000,000", "5,000,000", "50,000,000"]
    for pairs, epochs, *updates in shown:
        tokens = 25 * int(pairs.replace(",", ""))
        devices = [Device("cpu"), *(Device("cuda", count=count) for count in (1, 2, 8))]
        assert epochs == f"{default_epochs(tokens):.3g}"
        assert updates == [
            f"{default_updates(tokens, batch_tokens(device, (1, 1)), device.count):,}"
            for device in devices
        ]


def test_the_shown_output_of_compress_is_the_measured_one():
    docs = REPO / "docs"
    pages = (RESULTS / "compress.md", REPO / "README.md", docs / "compress.md", docs / "start.md")
    measured, *shown = (re.findall("^.* MB -> .*$", page.read_text(), re.M) for page in pages)
    multi30k, *demos = measured
    assert shown[:2] == [[multi30k], demos[:1]] and sorted(shown[2]) == sorted(demos)
    samples, in_start = (re.findall(r"^\| .*\. \|$", page.read_text(), re.M) for page in pages[::3])
    assert samples and set(in_start) <= set(samples)
