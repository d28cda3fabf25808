"""The report on hand-made runs: numbers one can check by hand; how the plots are laid out."""

import argparse
import json
from collections import OrderedDict

import pytest
import torch
from matplotlib.text import Annotation, Text
from sacrebleu.metrics import BLEU

from pet_fairseq.errors import UserError
from pet_fairseq.report import plots, write_report
from pet_fairseq.report.measure import Run, read_lines

REFERENCE = ["a small dog runs over the green grass", "two men sit on a bench", "he said « yes »"]
WORSE = ["a small dog runs over grass", "two men stand on a long bench", "he said no"]


def save_checkpoint(path, width, seconds=None, copies=False):
    """A checkpoint with 2 width^2 + width layer parameters and 10 width embedding parameters."""
    shared = torch.randn(width, width)
    model = OrderedDict(
        {
            "encoder.version": torch.tensor([3.0]),
            "encoder.embed_tokens.weight": torch.randn(10, width),
            "encoder.layers.0.fc1.weight": shared,
            "encoder.layers.0.fc1.bias": torch.randn(width),
            "decoder.layers.0.fc1.weight": torch.randn(width, width),
        }
    )
    if copies:
        model["encoder.layers.1.fc1.weight"] = shared
    state = {
        "args": None,
        "cfg": {"model": argparse.Namespace(arch="transformer"), "task": {"_name": "translation"}},
        "model": model,
        "optimizer_history": [{"optimizer_name": "x", "lr_scheduler_state": {}, "num_updates": 1}],
        "extra_state": {"train_iterator": {"epoch": 1}, "previous_training_time": seconds},
        "last_optimizer_state": {"big": torch.zeros(100_000)},
    }
    torch.save(state, path)


def save_output(path, hypotheses, speed, targets=REFERENCE):
    lines = ["INFO something"]
    for i in reversed(range(len(hypotheses))):  # fairseq prints them in batch order
        lines += [f"S-{i}\tquelle", f"T-{i}\t{targets[i]}", f"H-{i}\t-0.5\t{hypotheses[i]}"]
        lines += [f"D-{i}\t-0.5\t{hypotheses[i]}", f"P-{i}\t-0.5"]
    n = len(hypotheses)
    lines.append(
        f"INFO: Translated {n} sentences (9 tokens) in 1.0s ({speed:.2f} sentences/s, 9 t)"
    )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def runs(tmp_path):
    """A teacher of 4 x the student's width; two repeats of beam 5."""
    for name, width, hypotheses in (("teacher", 32, REFERENCE), ("student", 8, WORSE)):
        folder = tmp_path / name
        folder.mkdir()
        save_checkpoint(folder / "checkpoint_best.pt", width, copies=name == "student")
        save_checkpoint(folder / "checkpoint_last.pt", width, seconds=90.0)
        for k, speed in ((1, 10.0), (2, 30.0)):
            save_output(folder / f"generate.beam5.{k}.txt", hypotheses, speed * 32 / width)
    (tmp_path / "student" / "name.txt").write_text("Small one\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "reference.txt").write_text("\n".join(REFERENCE) + "\n", encoding="utf-8")
    return tmp_path


def report(runs, **options):
    text = write_report(runs, runs / "reference.txt", **options)
    assert (runs / "report.md").read_text(encoding="utf-8") == text
    return text, {row["name"]: row for row in json.loads((runs / "report.json").read_text())}


def test_numbers(runs):
    text, rows = report(runs)
    student, teacher = rows["student"], rows["teacher"]
    assert student["layer_parameters"] == 2 * 8 * 8 + 8
    assert student["parameters"] == 2 * 8 * 8 + 8 + 10 * 8
    assert student["rate_percent"] == pytest.approx(100 * 136 / 2080)
    assert teacher["bleu"]["5"] == pytest.approx(100)
    expected = BLEU().corpus_score(WORSE, [REFERENCE]).score
    assert student["bleu"]["5"] == pytest.approx(expected)
    assert student["sentences_per_second"]["5"] == pytest.approx(80)  # median of 40 and 120
    assert student["training_seconds"] == 90
    assert student["checkpoint_bytes"] < 20_000  # the optimizer's 400 kB do not count
    row = next(line for line in text.splitlines() if line.startswith("| Small one"))
    for cell in ("136", "6.54", f"{expected - 100:+.2f}", "80 (4.00x)", "1.5"):
        assert f"| {cell} |" in row, cell
    assert "nrefs:1|case:mixed" in text and "3 test sentences" in text and "missing" not in text


def test_plots_are_pictures(runs):
    report(runs)
    for name in ("bleu_over_rate.png", "sentences_per_second.png"):
        data = (runs / name).read_bytes()
        assert data.startswith(b"\x89PNG") and len(data) > 10_000
    assert not list(runs.glob("*.tmp"))


def test_missing_parts_are_named(runs):
    (runs / "order.txt").write_text("student\nteacher\nother\n")
    (runs / "student/checkpoint_best.pt").unlink()
    text, _ = report(runs)
    assert text.index("Small one") < text.index("| teacher")
    assert "missing: student/checkpoint_best.pt" in text
    assert "missing: run `other`" in text


def test_significance(runs):
    text, rows = report(runs, significance=True)
    assert "paired bootstrap, student against teacher" in text
    assert "against teacher, beam 5: p = " in text and "(1000 samples)" in text
    assert 0 < rows["student"]["p_value_against_teacher"] < 0.05  # 36 against 100 BLEU
    assert rows["teacher"]["p_value_against_teacher"] is None


def test_errors(runs):
    with pytest.raises(UserError, match=r"--reference .*none.txt: no such file"):
        write_report(runs, runs / "none.txt")
    with pytest.raises(UserError, match="none: no such folder"):
        write_report(runs / "none", runs / "reference.txt")
    with pytest.raises(UserError, match="data: holds no run"):
        write_report(runs / "data", runs / "reference.txt")
    with pytest.raises(UserError, match="--teacher boss"):
        write_report(runs, runs / "reference.txt", teacher="boss")
    other = runs / "student/generate.beam5.1.txt"
    save_output(other, WORSE, 10.0, targets=WORSE)
    with pytest.raises(UserError, match=r"beam5.2.txt: another test set than in .*beam5.1.txt"):
        report(runs)
    save_output(runs / "student/generate.beam5.2.txt", WORSE, 10.0, targets=WORSE)
    with pytest.raises(UserError, match=r"runs .* translated different test sets; generate both"):
        report(runs)
    save_output(runs / "student/generate.beam5.2.txt", WORSE, 10.0)
    save_output(other, WORSE[:2], 10.0)
    with pytest.raises(UserError, match=r"generate.beam5.1.txt: 2 translations.* 3 lines"):
        report(runs)
    save_output(other, WORSE, 10.0)
    other.write_text(other.read_text().replace("Translated", ""))
    with pytest.raises(UserError, match=r"generate.beam5.1.txt: has no speed line"):
        report(runs)
    save_output(other, WORSE, 10.0)
    other.write_text(other.read_text().replace("D-1\t", "X-1\t"))
    with pytest.raises(UserError, match="sentence 1 is missing"):
        report(runs)


@pytest.mark.parametrize(
    "missing",
    ["checkpoint_last.pt", "generate.beam5.2.txt", "generate.beam1.1.txt"],
    ids=["training time", "repeat", "beam"],
)
def test_a_file_that_only_the_others_have_is_named(runs, missing):
    for name, hypotheses in (("teacher", REFERENCE), ("student", WORSE)):
        save_output(runs / name / "generate.beam1.1.txt", hypotheses, 10.0)
    assert "missing" not in report(runs)[0]
    (runs / "student" / missing).unlink()
    text, rows = report(runs)
    assert f"* missing: student/{missing}" in text and "missing: teacher" not in text
    assert len(rows["student"]["missing"]) == 1


def test_checkpoints_without_translations(runs):
    for path in runs.glob("*/generate*"):
        path.unlink()
    text, rows = report(runs, significance=True)
    assert text.count("missing: ") == 2 and "paired bootstrap: not possible" in text
    assert rows["student"]["rate_percent"] == pytest.approx(100 * 136 / 2080)


def test_only_the_best_of_several_hypotheses_counts(runs):
    expected = report(runs)[1]["student"]["bleu"]["5"]
    path = runs / "student/generate.beam5.1.txt"
    best = path.read_text(encoding="utf-8")
    path.write_text(best.replace("P-0", "D-0\t-9.0\tanother\nP-0"), encoding="utf-8")
    assert report(runs)[1]["student"]["bleu"]["5"] == expected


def test_every_repeat_is_checked(runs):
    other = runs / "student/generate.beam5.2.txt"
    save_output(other, WORSE[:1], 99.0)
    with pytest.raises(UserError, match=r"generate.beam5.2.txt: 1 translations.* 3 lines"):
        report(runs)


def test_lines_are_in_corpus_order_and_may_be_empty(tmp_path):
    hypotheses = [f"line {i}" for i in range(11)] + [""]  # as text, 10 would come before 2
    save_output(tmp_path / "out.txt", hypotheses, 1.0, targets=hypotheses[::-1])
    assert read_lines(tmp_path / "out.txt", "D") == hypotheses
    assert read_lines(tmp_path / "out.txt", "T") == hypotheses[::-1]


def test_an_empty_last_sentence_counts(runs):
    reference = [*REFERENCE[:2], ""]
    (runs / "reference.txt").write_text("\n".join(reference) + "\n", encoding="utf-8")
    for path in runs.glob("*/generate*"):
        save_output(path, reference, 10.0, targets=reference)
    assert "* 3 test sentences" in report(runs)[0]


def test_files_that_are_not_utf8(runs):
    output = runs / "student/generate.beam5.1.txt"
    output.write_bytes("D-0\t-1\tß".encode()[:-1])  # cut inside a character
    with pytest.raises(UserError, match=r"output .*generate.beam5.1.txt: not UTF-8 at byte 7"):
        report(runs)
    (runs / "reference.txt").write_bytes("für".encode("latin-1"))
    with pytest.raises(UserError, match=r"--reference .*reference.txt: not UTF-8 at byte 1"):
        report(runs)


def test_titles_and_order(runs):
    (runs / "student/name.txt").write_text("a | b\nsecond line\n")
    (runs / "order.txt").write_text("student\nteacher\n\nstudent\nnot there\n")
    text, _ = report(runs)
    assert [line for line in text.splitlines() if line.startswith("| a")] == [
        line for line in text.splitlines() if line.startswith(r"| a \| b second line | 136 |")
    ]
    assert text.count("| 136 |") == 1
    assert "missing: run `not there`, named in order.txt" in text


@pytest.fixture
def figures(monkeypatch):
    """The figures that the plot functions would save."""
    kept = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: kept.append(figure))
    return kept


def corners(label, figure):
    """Left, bottom, right, top of a drawn text, in pixels."""
    return Text.get_window_extent(label, figure.canvas.get_renderer()).extents


def test_labels_are_inside_and_apart(figures, tmp_path):
    """Four runs at nearly the same place, and one larger than the teacher."""
    rows = [("teacher", 1000, 34.2), ("wide", 520, 34.1), ("larger", 1300, 34.3)]
    rows += [(f"student {i}, a long title", 96 + i, 32 + 0.01 * i) for i in range(4)]
    runs = [Run(t, t, layer_parameters=n, bleu={5: bleu}) for t, n, bleu in rows]
    plots.plot_bleu_over_rate(runs, runs[0], tmp_path / "plot.png")
    (figure,) = figures
    figure.draw_without_rendering()
    axes = figure.axes[0]
    labels = [child for child in axes.get_children() if isinstance(child, Annotation)]
    assert len(labels) == len(runs) and axes.get_xlim()[1] > 130
    boxes = [corners(label, figure) for label in labels]
    left, bottom, right, top = axes.bbox.extents
    for i, (x0, y0, x1, y1) in enumerate(boxes):
        assert left <= x0 and x1 <= right and bottom <= y0 and y1 <= top, labels[i]
        for a0, b0, a1, b1 in boxes[:i]:
            assert x1 <= a0 or a1 <= x0 or y1 <= b0 or b1 <= y0, labels[i]


def test_no_bar_where_nothing_was_measured(figures, tmp_path):
    runs = [Run("a", "a", sentences_per_second={1: 120.0, 5: 3.4})]
    runs += [Run("b", "b", sentences_per_second={1: 60.0}), Run("c", "c")]
    plots.plot_speed(runs, tmp_path / "plot.png")
    axes = figures[0].axes[0]
    assert [bar.get_height() for bar in axes.patches] == [120.0, 60.0, 3.4]
    assert [text.get_text() for text in axes.texts] == ["120", "60", "3.4"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["a", "b", "c"]
