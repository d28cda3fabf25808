"""What is said of a running training."""

import time
from pathlib import Path

from pet_fairseq.recipes.progress import Progress, Watched, clock
from pet_fairseq.recipes.stage import Kind, Stage

LINE = (
    "2026-01-01 | INFO | train_inner | epoch 003:     36 / 182 loss=5, wps=9, ups={ups}, wpb=2, "
    "num_updates={n}, lr=1\n"
)


def watched(folder, *options):
    product = folder / "checkpoint_best.pt"
    command = ("fairseq-train", *options)
    return Watched(Stage("pet", ("pet",), command, product, kind=Kind.TRAINING), time.monotonic())


def test_updates_speed_and_time_left(tmp_path):
    it = watched(tmp_path, "--max-update", "10", "--lr", "1", "--max-update", "3000")
    assert it.describe() == "pet: running for 0:00"
    log = tmp_path / "train.log"
    log.write_text(LINE.format(ups=0.5, n=100) + LINE.format(ups=2, n=400))
    it.read_log()
    assert it.describe() == "pet: 400 of 3,000 updates, epoch 3, 2 updates/s, 21:40 left"
    with open(log, "a") as file:
        file.write(LINE.format(ups=4, n=2800))
    it.read_log()
    assert it.describe() == "pet: 2,800 of 3,000 updates, epoch 3, 4 updates/s, 0:50 left"


def test_without_a_number_of_updates(tmp_path):
    it = watched(tmp_path, "--max-epoch", "3")
    (tmp_path / "train.log").write_text(LINE.format(ups=2, n=1400))
    it.read_log()
    assert it.describe() == "pet: 1,400 updates, epoch 3, 2 updates/s"


def test_a_million_updates(tmp_path):
    it = watched(tmp_path, "--max-update", "2000000")
    (tmp_path / "train.log").write_text(LINE.format(ups=10, n=f"{1234567:g}"))  # as fairseq does
    it.read_log()
    assert it.updates == 1234570


def test_other_stages_have_no_updates(tmp_path):
    it = Watched(Stage("x", ("x",), ("cp",), Path("x")), time.monotonic() - 3700)
    it.read_log()
    assert it.describe() == "x: running for 1:01:40"
    assert clock(59.9) == "0:59"


def test_a_terminal_has_a_line_for_each_running_stage(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    progress = Progress()
    pet = watched(tmp_path, "--max-update", "3000").stage
    progress.start(pet, resumed=False)
    progress.start(Stage("x", ("x",), ("cp",), Path("x")), resumed=False)
    (tmp_path / "train.log").write_text(LINE.format(ups=2, n=400))
    progress.update()
    progress.close()
    shown = capsys.readouterr()
    assert "pet: 400 of 3,000 updates, epoch 3, 2 updates/s, 21:40 left" in shown.err
    assert "x: running for 0:00" in shown.err


def test_a_log_has_plain_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pet_fairseq.recipes.progress.SECONDS_BETWEEN_LINES", 0)
    progress = Progress()
    progress.start(watched(tmp_path, "--max-update", "3000").stage, resumed=True)
    (tmp_path / "train.log").write_text(LINE.format(ups=2, n=400))
    progress.update()
    progress.stop(progress.watched["pet"].stage)
    shown = capsys.readouterr()
    assert shown.err == "" and shown.out.splitlines() == [
        "== pet: goes on where it stopped",
        "pet: 400 of 3,000 updates, epoch 3, 2 updates/s, 21:40 left",
        "== pet: done in 0:00",
    ]
