"""What a byte buys: the benchmark on tiny models, what it keeps, and its figures."""

import csv
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from sacrebleu.metrics import BLEU

from pet_fairseq.errors import UserError
from tests.cli.processes import REPO, run
from tests.results.report.test_plots import lines

SCRIPT = REPO / "scripts/benchmarks/frontier.py"
QUICK = ("--beam", "1", "--rounds", "1", "--threads", "1")


@pytest.fixture
def frontier(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("frontier", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def frontier_plots(frontier):
    """The module of its plots."""
    return sys.modules["frontier_plots"]


@pytest.fixture
def frontier_cells(frontier):
    """The module that measures a run."""
    return sys.modules["frontier_cells"]


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def runs(teacher, student, raw, data, tmp_path):
    """A recipe's folder with its data and three runs of two rows."""
    pytest.importorskip("ctranslate2")
    runs = tmp_path / "runs"
    (runs / "data").mkdir(parents=True)
    (runs / "data/bin").symlink_to(data)
    (runs / "data/raw").symlink_to(raw)
    sources = {"teacher": teacher, "pet.seed1": student[0] / "checkpoint_best.pt"}
    for name, checkpoint in (*sources.items(), ("pet.seed2", teacher)):
        (runs / name).mkdir()
        shutil.copy(checkpoint, runs / name / "checkpoint_best.pt")
    (runs / "pet.seed1/name.txt").write_text("Small\n")
    return runs


def measured(output):
    """What was measured now, as it says."""
    lines = (line for line in output.splitlines() if not line.startswith("no translate.py: "))
    return [line for line in lines if ": " in line and line[0] not in "|-B"]


def read_csv(runs):
    rows = csv.DictReader((runs / "frontier.beam1/frontier.csv").open())
    return {row["row"]: row for row in rows}


@pytest.mark.slow
def test_measures_what_is_missing(runs, data, raw, tmp_path):
    first = run("python", SCRIPT, runs, "--rows", "teacher", *QUICK).output
    assert measured(first) == [
        *("teacher: 32 bits", "teacher: 8 bits", "teacher: 4 bits"),
        *("teacher: CTranslate2 int8", "teacher: CTranslate2 int8_float16", "teacher: 1 thread"),
    ]
    second = run("python", SCRIPT, runs, "--rows", "teacher", "pet", "frontier", *QUICK).output
    assert len(measured(second)) == 6 + 5  # one seed is timed
    assert not any(line.startswith("teacher") for line in measured(second))
    assert "left out: kd, speed_kd" in second
    assert any(line.startswith("| Teacher | `teacher` | 1 |") for line in second.splitlines())
    out = runs / "frontier.beam1"
    assert (out / "frontier.md").read_text() in second
    for name in ("bleu_over_megabytes.png", "bleu_over_speed.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")

    rows = read_csv(runs)
    assert list(rows) == ["teacher", "pet"]
    assert (rows["pet"]["title"], rows["pet"]["seeds"]) == ("Small", "2")
    assert rows["teacher"]["mb_8_spread"] == "" and float(rows["pet"]["mb_8_spread"]) > 0
    assert rows["pet"]["times_teacher_1_spread"] == ""
    assert float(rows["teacher"]["times_teacher_1"]) == 1
    teacher, file = runs / "teacher/checkpoint_best.pt", tmp_path / "packed"
    for bits in (8, 4):
        file.unlink(missing_ok=True)
        run("pet-fairseq", "pack", teacher, "--data", data, "--bits", bits, "--out", file)
        assert float(rows["teacher"][f"mb_{bits}"]) == file.stat().st_size / 1e6
    engine = tmp_path / "engine"
    options = ("--to", "ctranslate2", "--precision", "int8", "--out", engine)
    run("pet-fairseq", "export", teacher, "--data", data, *options)
    size = sum(path.stat().st_size for path in engine.iterdir())
    assert float(rows["teacher"]["mb_int8"]) == size / 1e6
    generate = ("--user-dir", REPO / "pet_fairseq", "--cpu", "--required-batch-size-multiple", "1")
    output = run("fairseq-generate", data, "--path", teacher, *generate, "--beam", "1")
    texts = {int(fields[0][2:]): fields[2] for fields in output.printed("D")}
    reference = (raw / "test.en").read_text().splitlines()
    score = BLEU().corpus_score([texts[i] for i in range(30)], [reference]).score
    assert float(rows["teacher"]["bleu_32"]) == pytest.approx(score)

    shutil.copy(runs / "pet.seed1/checkpoint_best.pt", runs / "pet.seed2/checkpoint_best.pt")
    third = run("python", SCRIPT, runs, *QUICK).output
    assert {line.split(":")[0] for line in measured(third)} == {"pet.seed2"}
    assert float(read_csv(runs)["pet"]["mb_8_spread"]) == 0


def test_what_ends_in_one_line(runs, tmp_path):
    for options, message in (
        (("--rows", "cat"), "--rows cat: there is no run of it; give some of teacher, pet, or a"),
        (("--teacher", "kd"), "--teacher kd: no finished run of it in"),
        (("--reference", tmp_path / "none"), "none: no such file; give the raw target text"),
        (("--data", tmp_path / "none"), "none: no such folder"),
    ):
        failed = run("python", SCRIPT, runs, *QUICK, *options, check=False)
        assert failed.status == 1 and message in failed.output.splitlines()[-1]


def test_models_of_lower_case_are_scored_by_lower_case(frontier_cells, tmp_path):
    for folder in ("raw", "lower"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test.en").touch()
    assert frontier_cells.find_reference(tmp_path / "bin", "en") == tmp_path / "lower/test.en"
    (tmp_path / "lower/test.en").unlink()
    assert frontier_cells.find_reference(tmp_path / "bin", "en") == tmp_path / "raw/test.en"


def test_pronunciations_have_no_bleu(teacher, raw, data, tmp_path):
    for name, folder in (("raw", raw), ("bin", data)):
        shutil.copytree(folder, tmp_path / "data" / name)
    (tmp_path / "data/raw/test.pronunciations").touch()
    (tmp_path / "teacher").mkdir()
    shutil.copy(teacher, tmp_path / "teacher/checkpoint_best.pt")
    failed = run("python", SCRIPT, tmp_path, *QUICK, check=False)
    assert failed.status == 1
    assert "is scored by word errors, not by BLEU; use pet-fair" in failed.output.splitlines()[-1]


def test_what_was_refused_is_measured_again(frontier_cells, tmp_path):
    answers = iter([UserError("ctranslate2 is missing"), {"bytes": 1}])

    def measure_form(checkpoint: Path):
        answer = next(answers)
        if isinstance(answer, UserError):
            raise answer
        return answer

    bench = SimpleNamespace(about=lambda path: {}, forms=lambda timed: {"int8": measure_form})
    for expected in ({"refused": "ctranslate2 is missing"}, {"bytes": 1}, {"bytes": 1}):
        cells = frontier_cells.measure(bench, tmp_path / "run", False, tmp_path / "run.json")
        assert cells == {"int8": expected}


# --- figures --------------------------------------------------------------------------------------


def test_speeds_are_ratios_within_a_round_times_the_teachers(frontier):
    slow_day = {"sentences": 60, "seconds": [4.0, 8.0, 6.0], "teacher_seconds": [12.0, 12.0, 24.0]}
    quick_day = {"sentences": 60, "seconds": [6.0], "teacher_seconds": [6.0]}
    rows = [
        frontier.Row("teacher", "T", [{"1 thread": quick_day}]),
        frontier.Row("pet", "P", [{"1 thread": slow_day}, {}]),
        frontier.Row("can", "C", [{"1 thread": {"refused": "no"}}]),
    ]
    columns = {column.name: column for column in frontier.columns(rows, [1])}
    assert columns["times_teacher_1"].of(rows[1]).values == [3.0]  # of 3, 1.5 and 4
    # the teacher's rounds: 10, 5, 5 and 2.5 sentences a second
    assert columns["speed_1"].of(rows[1]).values == [15.0]
    assert columns["speed_1"].of(rows[0]).values == [5.0]
    assert columns["speed_1"].of(rows[2]) is None
    speeds = [columns["speed_1"], columns["times_teacher_1"]]
    assert frontier.markdown(rows[1:2], speeds).splitlines()[2] == "| P | `pet` | 2 | 15.0 | 3.0 |"


def test_seeds_are_one_line_with_mean_and_spread(frontier, tmp_path):
    runs = [{"8 bits": {"bytes": 1_500_000, "bleu": score}} for score in (37.0, 39.0)]
    rows = [frontier.Row("pet", "P", runs), frontier.Row("kd", "K", [{"8 bits": {"bleu": 38.0}}])]
    columns = [column for column in frontier.columns(rows, []) if column.name.endswith("_8")]
    assert frontier.markdown(rows, columns).splitlines()[2:] == [
        "| P | `pet` | 2 | 1.50 ± 0.00 | 38.00 ± 1.41 |",
        "| K | `kd` | 1 | - | 38.00 |",
    ]
    frontier.write_figures(rows, columns, tmp_path / "frontier.csv")
    head, pet, kd = csv.reader((tmp_path / "frontier.csv").open())
    assert head[3:] == ["mb_8", "mb_8_spread", "bleu_8", "bleu_8_spread"]
    assert list(map(float, pet[2:])) == pytest.approx([2, 1.5, 0, 38, 2**0.5])
    assert kd[2:] == ["1", "", "", "38.0", ""]


def test_rows_groups_and_unfinished_runs(frontier, tmp_path):
    for name in ("teacher", "kd.seed1", "kd.seed2", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "checkpoint_best.pt").touch()
    record = {"command": [], "inputs": {}, "finished": False}
    (tmp_path / "kd.seed2/.checkpoint_best.pt.made.json").write_text(json.dumps(record))
    finished = frontier.finished_runs(tmp_path)
    assert {row: [f.name for f in folders] for row, folders in finished.items()} == {
        **{"teacher": ["teacher"], "kd": ["kd.seed1"], "mine": ["mine"]}
    }
    assert frontier.choose_rows(None, finished) == ["teacher", "kd", "mine"]
    assert frontier.choose_rows(["mine", "quantised"], finished)[:4] == [
        *("mine", "teacher", "kd", "kd_int8"),
    ]
    with pytest.raises(UserError, match="--rows kat: there is no run of it"):
        frontier.choose_rows(["kat"], finished)


# --- plots ----------------------------------------------------------------------------------------


@pytest.fixture
def figures(frontier_plots, monkeypatch):
    """The figures that the plot functions would save, by file name."""
    kept = {}
    monkeypatch.setattr(
        frontier_plots, "write_figure", lambda path, figure: kept.update({path.stem: figure})
    )
    return kept


def test_trades_of_sizes_and_of_speeds(frontier_plots, figures, tmp_path):
    points = [
        frontier_plots.Trade("A", "one", 8.0, 39.0, 0.2),
        frontier_plots.Trade("A", "two", 2.0, 38.9),
        frontier_plots.Trade("B", "one", 4.0, 38.0),
        frontier_plots.Trade("B", "two", 1.0, 38.0),
        frontier_plots.Trade("C", "two", 2.0, 37.0),
    ]
    frontier_plots.plot_size_trades(points, "MB", tmp_path / "sizes.png")
    frontier_plots.plot_speed_trades(points, "sentences/s", tmp_path / "speeds.png")
    sizes, speeds = lines(figures["sizes"]), lines(figures["speeds"])
    for shown in (sizes, speeds):
        assert shown["A"] == [(2.0, 38.9), (8.0, 39.0)] and shown["C"] == [(2.0, 37.0)]
    assert sizes["none is better"] == [(1.0, 38.0), (2.0, 38.9), (8.0, 39.0)]
    dashed = [line for line in figures["speeds"].axes[0].lines if line.get_linestyle() == "--"]
    assert [list(zip(*line.get_data())) for line in dashed] == [[(8.0, 39.0)], [(2.0, 38.9)]]
    axes = figures["sizes"].axes[0]
    assert axes.get_xscale() == "log" and figures["speeds"].axes[0].get_xscale() == "linear"
    marks = {
        line.get_marker() for line in axes.lines if line.get_color() == axes.lines[0].get_color()
    }
    assert {"o", "s"} <= marks
    for figure in figures.values():
        assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == [
            *("A", "B", "C", "one", "two", "none is better"),
        ]


def test_twenty_trades_have_colours_of_their_own(frontier_plots, figures, tmp_path):
    points = [frontier_plots.Trade(f"model {i}", "8 bits", 1.0 + i, 30.0 + i) for i in range(20)]
    frontier_plots.plot_size_trades(points, "MB", tmp_path / "sizes.png")
    drawn = figures["sizes"].axes[0].lines
    colours = {line.get_color() for line in drawn if line.get_label().startswith("model")}
    assert len(colours) == 20


@pytest.mark.parametrize("more_is_better", [False, True])
def test_undominated(frontier_plots, more_is_better):
    random = Random(1)
    points = [
        frontier_plots.Trade("A", "", random.randint(1, 8), float(random.randint(1, 8)))
        for _ in range(25)
    ]

    def beats(a, b):
        better_x = a.x >= b.x if more_is_better else a.x <= b.x
        return better_x and a.bleu >= b.bleu and (a.x, a.bleu) != (b.x, b.bleu)

    expected = {(b.x, b.bleu) for b in points if not any(beats(a, b) for a in points)}
    best = frontier_plots.undominated(points, more_is_better)
    assert [(t.x, t.bleu) for t in best] == sorted(expected, reverse=more_is_better)
