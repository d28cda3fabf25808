"""Who holds the lock on a folder: other processes, and what is left of them after a crash."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.runner import lock
from pet_fairseq.runner.lock import LOCK, locked, read_workers
from tests.cli.processes import REPO

# locks the folder and starts commands, each of which says that it has begun
RUN = """
import subprocess, sys, time
from pathlib import Path
from pet_fairseq.runner.lock import locked
folder = Path(sys.argv[1])
with locked(folder) as lock:
    for script in sys.argv[2:]:
        words = ["sh", "-c", script]
        process = subprocess.Popen(words, pass_fds=(lock.handle,), start_new_session=True)
        lock.note(process.pid, words)
    (folder / "began").touch()
    time.sleep(60)
"""
SINCE = r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
WHERE = "another run, or a command that it started, is at work there; wait for it or end it"


@pytest.fixture
def start(tmp_path):
    """Starts a run in a process of its own; at the end nothing of it is left."""
    (tmp_path / "run.py").write_text(RUN)
    folder = tmp_path / "runs"
    runs = []

    def call(*scripts):
        command = [sys.executable, tmp_path / "run.py", folder, *scripts]
        runs.append(subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(REPO)}))
        while not (folder / "began").exists():
            assert runs[-1].poll() is None
            time.sleep(0.05)
        return folder, runs[-1]

    yield call
    for worker in read_workers(folder / LOCK)[1:]:
        if lock.has_group(worker.pid):
            os.killpg(worker.pid, signal.SIGKILL)
    for process in runs:
        process.kill()
        process.wait()


def refusal(folder) -> str:
    with pytest.raises(UserError) as error, locked(folder):
        raise AssertionError("two have the lock")
    return str(error.value)


def test_a_run_is_named(start):
    folder, run = start("sleep 60")
    pattern = rf"{folder}: {WHERE} \(process {run.pid} {SINCE}: run\.py {folder} 'sleep 60'\)"
    assert re.fullmatch(pattern, refusal(folder))
    assert refusal(folder) == refusal(folder)  # asking changes nothing
    begun = time.strptime(re.search(SINCE, refusal(folder))[0], "since %Y-%m-%d %H:%M:%S")
    assert 0 <= time.time() - time.mktime(begun) < 300


def test_what_a_killed_run_has_left_is_named(start):
    folder, run = start("sleep 60; true", "exec sleep 50")
    _, first, last = read_workers(folder / LOCK)
    run.kill()
    run.wait()
    shell = rf"process {first.pid} {SINCE}: sh -c 'sleep 60; true'"
    sleep = rf"process {last.pid} {SINCE}: sh -c 'exec sleep 50'"
    assert re.search(rf"\({shell}; {sleep}\)$", refusal(folder))
    os.kill(first.pid, signal.SIGKILL)  # what the shell has started goes on, and holds the lock
    os.kill(last.pid, signal.SIGKILL)
    while re.search(sleep, left := refusal(folder)):
        time.sleep(0.05)
    assert re.search(rf"\({shell}\)$", left)
    os.killpg(first.pid, signal.SIGKILL)
    wait_for(folder)


def wait_for(folder) -> None:
    """Take the lock as soon as it is free; the note is then of this process alone."""
    while True:
        try:
            with locked(folder):
                (worker,) = read_workers(folder / LOCK)
                assert worker.pid == os.getpid()
                return
        except UserError:
            time.sleep(0.05)


def test_a_note_of_a_crash_says_nothing(start):
    """The system's lock decides, whatever the file says; it is there for the next run."""
    folder, run = start()
    run.kill()
    run.wait()
    assert [worker.pid for worker in read_workers(folder / LOCK)] == [run.pid]
    wait_for(folder)


def test_a_process_that_left_the_group_is_of_the_run(start, tmp_path):
    pid = tmp_path / "pid"
    folder, run = start(f"setsid sleep 60 & echo $! >{pid}.part; mv {pid}.part {pid}")
    while not pid.exists():
        time.sleep(0.05)
    run.kill()
    run.wait()
    shell = read_workers(folder / LOCK)[1]
    while shell.may_work() or shell.may_have_left():  # it has yet to end after its last command
        time.sleep(0.05)
    named = rf"\(process {run.pid} {SINCE}: run\.py .*, which has ended\)$"
    assert re.search(named, refusal(folder))
    os.kill(int(pid.read_text()), signal.SIGKILL)
    wait_for(folder)


@pytest.mark.parametrize("text", ["", "{", "[1]\n", '{"pid": 1}\n', "\xff\n"])
def test_a_lock_without_a_readable_note(text, tmp_path):
    with locked(tmp_path):
        (tmp_path / LOCK).write_text(text, encoding="latin-1")
        assert refusal(tmp_path) == f"{tmp_path}: {WHERE}"


def test_a_later_process_of_the_same_number_is_not_taken_for_it(tmp_path, monkeypatch):
    with locked(tmp_path) as held:
        held.note(os.getpid(), ["me"])
    run, me = read_workers(tmp_path / LOCK)
    assert run.may_work() and me.may_work() and me.command == "me"
    found = lock.look_up(os.getpid())
    later = found._replace(ticks=found.ticks + 1)
    monkeypatch.setattr(lock, "look_up", lambda pid: later)
    assert not me.may_work()


def test_a_run_of_another_machine_is_named(tmp_path, monkeypatch):
    with monkeypatch.context() as there:
        there.setattr(lock.socket, "gethostname", lambda: "far")
        with locked(tmp_path):
            text = (tmp_path / LOCK).read_text()
    with locked(tmp_path):
        (tmp_path / LOCK).write_text(text)
        assert re.search(rf"\(process {os.getpid()} on far {SINCE}: ", refusal(tmp_path))


def test_long_commands_are_shortened(tmp_path):
    with locked(tmp_path) as held:
        os.ftruncate(held.handle, 0)
        held.note(os.getpid(), ["fairseq-train", "x" * 999])
        assert refusal(tmp_path).endswith(" fairseq-train " + "x" * 136 + "...)")


def test_a_free_folder_asks_for_nobody(tmp_path, monkeypatch):
    """Of a run that was killed, the file may name hundreds of processes."""
    with locked(tmp_path):
        pass
    monkeypatch.setattr(lock, "read_workers", None)
    with locked(tmp_path):
        pass
