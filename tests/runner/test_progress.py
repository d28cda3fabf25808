"""What is said of a running training."""

import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from pet_fairseq.runner.progress import Progress, Watched, clock
from pet_fairseq.runner.resources import describe_needs, resident_bytes
from pet_fairseq.runner.stage import Kind, Stage

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


def test_the_end_is_foretold_once_after_the_first_hundred_updates(tmp_path):
    it = watched(tmp_path, "--max-update", "3000")
    it.stage = replace(it.stage, disk=36_400_000, growth=2_000_000_000)
    log = tmp_path / "train.log"
    log.write_text(LINE.format(ups=2, n=50))
    it.read_log()
    assert it.forecast() is None
    log.write_text(LINE.format(ups=2, n=50) + LINE.format(ups=2, n=100))
    it.read_log()
    end = datetime.now() + timedelta(seconds=1450)
    line = it.forecast()
    told = datetime.strptime(line, "pet: ends about %Y-%m-%d %H:%M, if not sooner; disk 36 MB")
    assert abs((told - end).total_seconds()) <= 60
    assert it.forecast() is None


def test_the_log_of_an_earlier_training_is_not_read(tmp_path):
    """Of one that was replaced by --again, or stopped before its first checkpoint."""
    stage = watched(tmp_path, "--max-update", "3000").stage
    (tmp_path / "train.log").write_text(LINE.format(ups=2, n=2900))
    progress = Progress()
    progress.start(stage, resumed=False)
    it = progress.watched["pet"]
    it.read_log()
    assert it.forecast() is None and it.describe() == "pet: running for 0:00"


def test_a_resumed_training_has_a_hundred_updates_more_first(tmp_path):
    it = watched(tmp_path, "--max-update", "3000")
    it.first = None
    log = tmp_path / "train.log"
    for updates, is_told in ((1000, False), (1050, False), (1100, True)):
        with open(log, "a") as file:
            file.write(LINE.format(ups=2, n=updates))
        it.read_log()
        assert (it.forecast() is not None) == is_told


def test_memory_is_that_of_the_process_and_of_those_that_it_starts():
    hold = "import sys; text = b'x' * 60_000_000; sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])"
    process = subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 30
        while (resident_bytes(process.pid) or 0) < 60e6 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert 60e6 < resident_bytes(process.pid) < 160e6
    finally:
        process.communicate()
    assert resident_bytes(process.pid) is None


def test_needs_in_words():
    now = datetime(2026, 1, 31, 23, 0)
    assert describe_needs(7200, now, 812_000_000, 2_000_000_000, 0) == (
        "ends about 2026-02-01 01:00, if not sooner; memory 812 MB, up to 2,000 MB more later"
    )


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
    monkeypatch.setattr("pet_fairseq.runner.progress.SECONDS_BETWEEN_LINES", 0)
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
