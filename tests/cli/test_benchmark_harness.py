"""What the benchmarks have in common: options, turns, medians, tables and CSV files."""

import csv
import itertools
import os
import statistics

import pytest

from tests.cli.processes import REPO


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.syspath_prepend(str(REPO / "scripts/benchmarks"))
    import harness

    return harness


# --- turns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("warm_up", [0, 1, 2, 3])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_turns(rounds, warm_up, harness):
    """Neighbouring rounds are mirror images, and only what follows the warm-up is kept."""
    clock, calls = itertools.count(), []

    def way(name):
        calls.append(name)
        return next(clock)

    results = harness.take_turns({n: lambda n=n: way(n) for n in "abc"}, rounds, warm_up)
    by_round = ["".join(calls[i : i + 3]) for i in range(0, len(calls), 3)]
    assert len(by_round) == warm_up + rounds and set(by_round) <= {"abc", "cba"}
    assert all(one != other for one, other in itertools.pairwise(by_round))
    expected = {name: [] for name in "abc"}
    for moment, name in enumerate(calls):
        if moment >= 3 * warm_up:
            expected[name].append(moment)
    assert results == expected and list(results) == list("abc")


def test_ratios_are_taken_within_rounds(harness):
    """A machine that becomes slower does not change them, as it would those of the medians."""
    ours, theirs = [2.0, 30.0, 4.0], [1.0, 10.0, 4.0]
    ratios = sorted([2.0 / 1.0, 30.0 / 10.0, 4.0 / 4.0])
    assert harness.median_ratio(ours, theirs) == ratios[1]
    assert harness.median_ratio(ours, theirs) != statistics.median(ours) / statistics.median(theirs)
    with pytest.raises(ValueError):
        harness.median_ratio(ours, theirs[:2])


def test_a_process_of_its_own(harness):
    assert harness.in_own_process(os.getpid) != os.getpid()
    with pytest.raises(ZeroDivisionError):
        harness.in_own_process(divmod, 1, 0)


def test_times(harness):
    taken, result = harness.timed("cpu", sum, range(10**6))
    assert result == sum(range(10**6)) and 0 < taken < 60
    assert 0 < harness.processor_seconds(sum, range(10**6)) < 60


def test_memory_is_what_a_call_took_at_most(harness):
    """What was there before does not count, nor that all is free again in the end."""
    block, there = 64 << 20, b"x" * (256 << 20)
    taken, length = harness.memory_of("cpu", lambda: len(b"x" * block))
    assert length == block and 0.9 * block < taken < 1.5 * block
    assert harness.resident_bytes("VmRSS", os.getpid()) > len(there)


# --- options --------------------------------------------------------------------------------------

SIZES = {"--width": 512, "--ratio": 12.0, "--batch-sizes": [1, 32], "--rows": 4}
TINY = {"--width": 8, "--batch-sizes": [1]}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", (512, 12.0, [1, 32], 4)),
        ("--ratio 3 --batch-sizes 2 3", (512, 3.0, [2, 3], 4)),
        ("--tiny", (8, 12.0, [1], 4)),
        ("--width 9 --tiny", (9, 12.0, [1], 4)),
    ],
)
def test_sizes(words, expected, harness):
    args = harness.Parser("About.\n\nMore.", SIZES, TINY).parse_args(words.split())
    assert (args.width, args.ratio, args.batch_sizes, args.rows) == expected
    assert isinstance(args.ratio, float) and args.device == "cpu" and args.out is None


def test_wrong_options(harness, capsys):
    parser = harness.Parser("About.", SIZES, TINY)
    for words, message in (
        (["--width", "1.5"], "argument --width: invalid int value: '1.5'"),
        (["--device", "cuda"], "--device cuda: torch finds no GPU here; give --device cpu"),
    ):
        with pytest.raises(SystemExit):
            parser.parse_args(words)
        assert capsys.readouterr().err.splitlines()[-1].endswith(message)


# --- what is shown --------------------------------------------------------------------------------


def read_table(text):
    """The cells of a Markdown table by a reader of its own."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines]


def test_tables_and_files(harness, tmp_path, capsys):
    report = harness.Report("64 tokens")
    columns = {"way": "", "s": ".2f", "to, full": lambda x: f"{x} times", "MB": ",d"}
    report.begin_table(columns)
    rows = [("a, b", 0.125, 1 / 3, 1234), ("c", 10.0, None, 5)]
    for row in rows:
        report.add_row(*row)
    with pytest.raises(ValueError):
        report.add_row("too few", 1.0)
    report.begin_table({"k": "d"})
    report.add_row(7)
    report.say("\nthe end")
    report.write(tmp_path / "out.md", tmp_path / "out.csv")
    text = (tmp_path / "out.md").read_text()
    assert text == capsys.readouterr().out
    assert text.startswith("64 tokens\n") and text.endswith("\n\nthe end\n")
    about = text.splitlines()[1]
    assert "threads: " in about and "torch" in about and harness.processor() in about
    head, rule, *shown, head_2, rule_2, row_2 = read_table(text)
    assert head == list(columns) and rule == ["---", "---:", "---:", "---:"]
    assert shown == [
        ["a, b", "0.12", "0.3333333333333333 times", "1,234"],
        ["c", "10.00", "-", "5"],
    ]
    assert (head_2, rule_2, row_2) == (["k"], ["---:"], ["7"])
    with (tmp_path / "out.csv").open(newline="") as file:
        sheet = list(csv.DictReader(file))
    assert [float(row["s"]) for row in sheet] == [0.125, 10.0]
    assert [row["to, full"] for row in sheet] == [repr(1 / 3), ""]
    assert [row["way"] for row in sheet] == ["a, b", "c"]
    assert (tmp_path / "out.2.csv").read_text() == "k\n7\n"


def test_files_on_request(harness, tmp_path):
    parser = harness.Parser("About.", SIZES, TINY)
    words = ["--out", str(tmp_path / "a.md"), "--csv", str(tmp_path / "a.csv")]
    for options, expected in (([], 0), (words[:2], 1), (words, 2)):
        with harness.report(parser.parse_args(options), "About", {"k": "d"}) as result:
            result.add_row(1)
        assert len(list(tmp_path.iterdir())) == expected
