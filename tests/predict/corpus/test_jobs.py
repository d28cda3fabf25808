"""Processes side by side, and what is said when one fails."""

import errno
import json
import os
import sys
import time
from pathlib import Path

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.predict.corpus import run
from pet_fairseq.predict.corpus.jobs import Progress, gpu_of, run_jobs


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def says(**words) -> str:
    return f"print('{json.dumps(words)}', flush=True)"


@pytest.fixture
def handle(tmp_path):
    file = os.open(tmp_path / "lock", os.O_CREAT)
    yield file
    os.close(file)


def test_progress_of_all_jobs(handle):
    progress = Progress()
    codes = (";".join([says(lines=2, read=0.5), says(lines=n, read=1.0)]) for n in (1, 5, 7))
    run_jobs([python(code) for code in codes], False, handle, progress)
    assert progress.lines == 2 * 3 + 1 + 5 + 7
    assert progress.read == {0: 1.0, 1: 1.0, 2: 1.0}


@pytest.mark.parametrize(
    "code, message",
    [
        (says(error="--text x: no such file"), "job 2 of 2: --text x: no such file"),
        ("import os; os.kill(os.getpid(), 9)", "job 2 of 2: ended by signal 9, Killed; the fini"),
        ("raise SystemExit(3)", "job 2 of 2: ended by status 3; the finished shards stay: start"),
    ],
)
def test_a_job_that_fails_ends_the_others(code, message, handle, tmp_path):
    pid = tmp_path / "pid"
    noted = f"import os, time; os.symlink(str(os.getpid()), {str(pid)!r})"
    long = python(f"{noted}; {says(lines=1, read=0.1)}; time.sleep(100)")
    started = f"import os, time\nwhile not os.path.lexists({str(pid)!r}): time.sleep(0.01)\n"
    with pytest.raises(UserError) as error:
        run_jobs([long, python(started + code)], False, handle, Progress())
    assert str(error.value).startswith(message)
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.readlink(pid)), 0)


def test_an_error_of_the_system_without_a_file(monkeypatch, capsys):
    def work(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run, "work", work)
    run.work_in_process({}, [0, 1], Path(), {})
    assert "No space left on device" in json.loads(capsys.readouterr().out)["error"]


def test_jobs_hold_the_lock_themselves(handle, tmp_path):
    code = f"import os; os.fstat({handle}); {says(lines=1, read=1.0)}"
    run_jobs([python(code)], False, handle, Progress())


def test_each_has_a_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert [gpu_of(job)["CUDA_VISIBLE_DEVICES"] for job in range(3)] == ["3", "5", "3"]


def test_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress()
    now[0] = 10.0  # the model is loaded
    progress.update(lines=100, read=0.2)
    assert progress.describe() == "100 lines, 10.0 lines/s"
    now[0] = 20.0
    progress.update(lines=100, read=0.4)
    assert progress.describe() == "200 lines, 10.0 lines/s, 0:30 left"
    progress.update(lines=0, read=0.9, job=1)
    now[0] = 30.0
    progress.update(lines=100, read=0.95, job=1)
    assert progress.seconds_left() == pytest.approx(60.0)  # of the slowest, which is job 0
