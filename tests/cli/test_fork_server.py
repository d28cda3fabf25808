"""A forked command is what a process of its own would be."""

import json
import os
import re
import signal
import time

import pytest

from tests.cli.processes import run, start

ENDS = {
    "ends": "print('said')",
    "exits": "import sys; sys.exit(3)",
    "exits with a message": "import sys; sys.exit('no')",
    "exits with a word for nothing": "import sys; sys.exit(None)",
    "exits with a number below 0": "import sys; sys.exit(-2)",
    "leaves a thread": "import threading; threading.Timer(0.3, print, ['late']).start()",
    "says it to nobody": "import os; print('said'); os.close(1)",
    "fails": "print('said'); {}['missing']",
    "does at exit": "import atexit; atexit.register(print, 'last')",
    "is killed": "import os; print('said', flush=True); os.kill(os.getpid(), 9)",
    "fails its own way": "import sys; sys.excepthook = lambda *_: print('ours'); 1 / 0",
    "warns": "import warnings; warnings.simplefilter('error'); warnings.warn('look')",
}


@pytest.mark.parametrize("name", ENDS)
def test_ends_alike(name, tmp_path, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text(ENDS[name])
    forked = run("python", script, check=False)
    monkeypatch.setenv("PET_FAIRSEQ_COLD", "1")
    alone = run("python", script, check=False)
    assert forked.status == alone.status

    def said(result):  # the frames of a traceback differ
        return [line for line in result.output.splitlines() if not line.startswith(" ")]

    assert said(forked) == said(alone)


LOG_LINES = """
import logging, sys
{}
print(logging.root.level, logging.root.handlers, flush=True)
import fairseq, fairseq.tasks
from fairseq_cli import generate
assert fairseq.__spec__.name == "fairseq" and sys.modules["fairseq"] is fairseq
logging.getLogger("x").debug("debug")
logging.getLogger("x").info("info")
print(fairseq.tasks.__name__, logging.root.level, logging.root.handlers)
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "import fairseq_cli.train"])
def test_logs_alike(first, tmp_path, monkeypatch):
    """fairseq_cli.train sets up the log before it loads fairseq; otherwise fairseq does."""
    script = tmp_path / "script.py"
    script.write_text(LOG_LINES.format(first))
    forked = run("python", script).output
    monkeypatch.setenv("PET_FAIRSEQ_COLD", "1")

    def ours(output):
        return [re.sub(r"^[-\d: ]+", "", line) for line in output.splitlines() if "x" in line]

    assert ours(forked) == ours(run("python", script).output) != []


SAYS = """
import json, logging, os, sys, threading
import numpy, random
before = sorted(sys.modules)
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "cwd": os.getcwd(), "input": sys.stdin.read(),
    "env": {name: os.environ.get(name) for name in ("HOME", "OWN", "OMP_NUM_THREADS")},
    "ours": [name for name in before if name.startswith("pet_fairseq")],
    "handlers": len(logging.root.handlers), "level": logging.root.level,
    "threads": len(os.listdir("/proc/self/task")), "main": threading.main_thread().name,
    "files": len(os.listdir("/proc/self/fd")), "name": __name__,
    "random": [random.random(), numpy.random.rand()],
    "cli": [name for name in before if name.startswith("fairseq_cli")],
}))
"""


def test_finds_what_a_process_of_its_own_finds(tmp_path, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text(SAYS)
    (tmp_path / "folder").mkdir()
    options = {"cwd": tmp_path / "folder", "env": {"OWN": "é"}, "text_in": "a\nb"}

    def says():
        return json.loads(run("python", script, "a b", "--c", **options).output)

    forked, again = says(), says()
    monkeypatch.setenv("PET_FAIRSEQ_COLD", "1")
    alone = says()
    random = [found.pop("random") for found in (forked, again, alone)]
    assert forked == alone
    assert all(a != b for a, b in zip(*random[:2]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_it(number, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, time; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell's job ignores it
        "print(os.getpid(), flush=True); "
        "[time.sleep(0.1) for _ in range(600)]"  # one that is lost before a sleep ends the next
    )
    process = start("python", script)
    pid = int(process.stdout.readline())
    assert pid != process.pid
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == -number
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}"):  # until the server has taken note
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_does_not_wait_for_another_one(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys; print('here', flush=True); sys.stdin.read()")
    first, second = (start("python", script, stdin=-1) for _ in range(2))
    assert [process.stdout.readline() for process in (second, first)] == ["here\n"] * 2
    for process in (first, second):
        assert process.communicate("end")[0] == "" and process.returncode == 0
