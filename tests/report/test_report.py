"""The report on hand-made runs: numbers one can check by hand."""

import argparse
import json
from collections import OrderedDict

import pytest
import torch
from sacrebleu.metrics import BLEU

from pet_fairseq.errors import UserError
from pet_fairseq.report import write_report

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
    assert 0 <= rows["student"]["p_value_against_teacher"] <= 1
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
    with pytest.raises(UserError, match=r"runs .* translated different test sets"):
        report(runs)
    save_output(other, WORSE[:2], 10.0)
    with pytest.raises(UserError, match=r"generate.beam5.1.txt: 2 translations.* 3 lines"):
        report(runs)
    other.write_text(other.read_text().replace("sentences/s", ""))
    save_output(other, WORSE, 10.0)
    other.write_text(other.read_text().replace("Translated", ""))
    with pytest.raises(UserError, match=r"generate.beam5.1.txt: has no speed line"):
        report(runs)
    other.write_text(other.read_text().replace("D-1\t", "X-1\t"))
    with pytest.raises(UserError, match="sentence 1 is missing"):
        report(runs)
