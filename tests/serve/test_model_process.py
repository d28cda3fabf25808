"""The process of the model, with an object that answers, hangs, fails or dies as it is told."""

import asyncio
import contextlib
import ctypes
import functools
import gc
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.predict.sentences import TextTooLongError
from pet_fairseq.serve import worker
from pet_fairseq.serve.model_process import CallTooLongError, ModelProcess, ProcessEndedError
from pet_fairseq.serve.worker import ModelError, call_within

REPO = Path(__file__).parents[2]
HANG = 0.5  # seconds that calls may take where one is to hang
BUSY = {"in C": 1, "in C with Python's lock": 4}  # what no exception reaches


class Told:
    """Its methods do what the texts say."""

    def encode(self, texts):
        (text,) = texts
        if text == ("slow",):
            time.sleep(60)
        if text == ("long",):
            raise TextTooLongError("text: too long")
        return [([os.getpid()], False)]

    def answer(self, texts, ratio):
        ((what, *_),) = texts
        if what == 1:
            time.sleep(60)
        if what == 2:
            os._exit(3)
        if what == 3:
            raise ValueError("three")
        if what == 4:
            ctypes.PyDLL(None).sleep(90)
        return [{"label": str(what)}], 0.5

    def check(self, ratio):
        return None


def load_told(folder):
    """Count how often this was called; fails when the folder says so."""
    counted = Path(folder) / "loads"
    counted.write_text(f"{counted.read_text() if counted.exists() else ''}{os.getpid()}\n")
    failing = Path(folder) / "fails"
    if failing.exists():
        raise {"user": UserError("--path x: no"), "exit": SystemExit(2)}.get(
            failing.read_text(), ZeroDivisionError("loading")
        )
    if (Path(folder) / "dies").exists():
        os._exit(4)
    return Told()


def loads(folder):
    return (folder / "loads").read_text().split()


@contextlib.asynccontextmanager
async def started(folder, seconds=None):
    model = ModelProcess(functools.partial(load_told, str(folder)))
    keeping = None
    try:
        await model.start()
        model.limits = {"texts": seconds, "batches": seconds} if seconds else {}
        keeping = asyncio.create_task(model.keep_running())
        yield model
    finally:
        if keeping is not None:
            keeping.cancel()
        model.close()


def test_calls_and_errors(tmp_path):
    async def main():
        async with started(tmp_path) as model:
            assert await model.answer([[7]], 1) == ([{"label": "7"}], 0.5)
            ((process,), truncated) = (await model.encode([("a",)]))[0]
            assert [str(process)] == loads(tmp_path) and process != os.getpid() and not truncated
            with pytest.raises(TextTooLongError, match=r"^text: too long$"):
                await model.encode([("long",)])
            with pytest.raises(ModelError, match=r"(?s)^Traceback .*ValueError: three"):
                await model.answer([[3]], 1)
            await model.check(1)
        assert not Path(f"/proc/{process}").exists()

    asyncio.run(main())


@pytest.mark.parametrize("how", BUSY.values(), ids=BUSY)
def test_a_batch_that_hangs_is_ended_and_the_model_loaded_again(how, tmp_path):
    """Its memory is given back, and texts that are tokenised meanwhile are in no danger."""

    async def main():
        async with started(tmp_path, seconds=HANG) as model:
            assert not model.loading
            with pytest.raises(CallTooLongError, match=r"^after 0.5 seconds$"):
                await model.answer([[how]], 1)
            assert model.loading
            (first,) = loads(tmp_path)
            assert not Path(f"/proc/{first}").exists()
            assert await model.answer([[7]], 1) == ([{"label": "7"}], 0.5)  # waits for the new one
            assert not model.loading
            assert len(set(loads(tmp_path))) == 2

    asyncio.run(main())


@pytest.mark.slow
def test_texts_and_batches_do_not_wait_for_each_other(tmp_path):
    async def main():
        async with started(tmp_path, seconds=5 * HANG) as model:
            hanging = asyncio.create_task(model.answer([[1]], 1))
            await asyncio.sleep(0.1)
            assert await model.encode([("a",)])
            assert not hanging.done()
            slow = asyncio.create_task(model.encode([("slow",)]))
            ends = await asyncio.gather(hanging, slow, return_exceptions=True)
            assert {type(end) for end in ends} <= {CallTooLongError, ProcessEndedError}
            assert CallTooLongError in map(type, ends)
            assert await model.encode([("a",)])

    asyncio.run(main())


ENDED = r"^the model's process ended with status 3$"


def test_all_calls_are_told_how_a_process_ended(tmp_path):
    """Three threads wait for its end then, one of which the system tells the status."""

    async def main():
        async with started(tmp_path) as model:
            for _ in range(5):
                slow = asyncio.create_task(model.encode([("slow",)]))
                await asyncio.sleep(0.1)
                dying = asyncio.create_task(model.answer([[2]], 1))
                for call in (slow, dying):
                    with pytest.raises(ProcessEndedError, match=ENDED):
                        await call

    asyncio.run(main())


@pytest.mark.slow
def test_processes_that_are_gone_leave_no_open_files(tmp_path):
    def open_files():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    async def main():
        async with started(tmp_path) as model:
            counts = []
            for _ in range(4):
                with pytest.raises(ProcessEndedError):
                    await model.answer([[2]], 1)
                await model.check(1)
                counts.append(open_files())
            assert len(set(counts)) == 1

    asyncio.run(main())


@pytest.mark.parametrize("idle", [False, True])
def test_a_process_that_dies_is_started_again(idle, tmp_path):
    async def main():
        async with started(tmp_path) as model:
            if idle:
                os.kill(int(loads(tmp_path)[0]), signal.SIGKILL)
                while len(loads(tmp_path)) == 1:
                    await asyncio.sleep(0.01)
            else:
                with pytest.raises(ProcessEndedError, match=ENDED):
                    await model.answer([[2]], 1)
            assert await model.answer([[7]], 1) == ([{"label": "7"}], 0.5)
            assert len(loads(tmp_path)) == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    "how, kind, message",
    [
        ("user", UserError, "^--path x: no$"),
        ("exit", SystemExit, "^2$"),
        ("bug", ModelError, "ZeroDivisionError: loading"),
    ],
)
def test_a_model_that_cannot_be_loaded(how, kind, message, tmp_path):
    (tmp_path / "fails").write_text(how)

    async def main():
        async with started(tmp_path):
            pass

    with pytest.raises(kind, match=message):
        asyncio.run(main())


def test_a_process_that_dies_while_it_loads(tmp_path):
    (tmp_path / "dies").touch()

    async def main():
        async with started(tmp_path):
            pass

    with pytest.raises(UserError, match="ended with status 4 while it loaded; is there enough mem"):
        asyncio.run(main())


def test_a_model_that_cannot_be_loaded_again(tmp_path):
    async def main():
        async with started(tmp_path) as model:
            (tmp_path / "fails").write_text("user")
            with pytest.raises(ProcessEndedError):
                await model.answer([[2]], 1)
            await model.keep_running()

    with pytest.raises(UserError, match="--path x: no"):
        asyncio.run(main())


def test_ctrl_c_and_sigterm_are_the_servers(tmp_path):
    """A terminal sends Ctrl-C to both processes, and a service manager may send SIGTERM to both."""

    async def main():
        async with started(tmp_path) as model:
            process = int(loads(tmp_path)[0])
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(process, number)
            assert await model.encode([("a",)]) == [([process], False)]

    asyncio.run(main())


def test_a_busy_process_ends_at_once(tmp_path):
    """When the server is told to stop, and nobody waits for answers any more."""

    async def main():
        async with started(tmp_path) as model:
            hanging = asyncio.create_task(model.answer([[4]], 1))
            await asyncio.sleep(HANG)
            start = time.monotonic()
        assert time.monotonic() - start < 10
        assert model.worker.process.exitcode == -signal.SIGKILL
        with pytest.raises(ProcessEndedError):
            await hanging

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("how", BUSY.values(), ids=BUSY)
def test_the_process_ends_with_the_server(how, tmp_path):
    """Though the server was killed, and the process was busy."""
    script = (
        "import asyncio, functools, sys\n"
        "from pet_fairseq.serve.model_process import ModelProcess\n"
        "from tests.serve.test_model_process import load_told\n"
        "async def main():\n"
        "    model = ModelProcess(functools.partial(load_told, sys.argv[1]))\n"
        "    await model.start()\n"
        f"    hanging = asyncio.create_task(model.answer([[{how}]], 1))\n"
        f"    await asyncio.sleep({HANG})\n"
        "    print('hangs', flush=True)\n"
        "    await hanging\n"
        "asyncio.run(main())\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path], cwd=REPO, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout.readline() == "hangs\n"
    server.kill()
    server.communicate(timeout=30)  # the model's process has the same pipe
    (process,) = loads(tmp_path)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{process}").exists()


def test_the_server_itself_loads_no_torch():
    script = "import sys, pet_fairseq.serve.run; print({'torch', 'fairseq'} & {*sys.modules})"
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=REPO, capture_output=True, text=True, check=True
    )
    assert result.stdout == "set()\n"


# --- calls that end when their time is over -------------------------------------------------------


def spin(seconds=60.0):
    """Keep Python busy; returns the seconds."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return seconds


def catch_all(times):
    """Go on after the first exceptions, as code with a bare `except` does."""
    for _ in range(times):
        with contextlib.suppress(BaseException):
            spin()
    spin()


@pytest.fixture
def alarms():
    before = signal.getsignal(signal.SIGALRM)
    yield
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    signal.signal(signal.SIGALRM, before)


def test_results_and_errors_come_through(alarms):
    assert call_within(60, sorted, [3, 1, 2]) == [1, 2, 3]
    with pytest.raises(ValueError, match="invalid literal"):
        call_within(60, int, "x")


def test_a_call_that_takes_too_long_is_ended_and_the_next_one_is_not(alarms):
    with pytest.raises(TimeoutError):
        call_within(0.1, spin)
    assert call_within(0.1, len, "abc") == 3


def test_code_that_catches_the_exception_is_interrupted_again(alarms, monkeypatch):
    monkeypatch.setattr(worker, "AGAIN", 0.01)
    with pytest.raises(TimeoutError):
        call_within(0.05, catch_all, 3)


def test_calls_that_end_just_in_time(alarms):
    """Were an exception to come after its call, it would reach what the thread does next."""
    limit = 0.02
    kinds = set()
    for n in range(60):
        try:
            kinds.add(type(call_within(limit, spin, limit * (0.5 + n / 40))))
        except TimeoutError:
            kinds.add(TimeoutError)
        spin(0.001)
    assert kinds == {float, TimeoutError}


def test_an_exception_at_the_entry_of_the_end(alarms, monkeypatch):
    """The time may be over after the call and before its end has begun."""
    monkeypatch.setattr(worker, "AGAIN", 0.01)

    def struck():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        call_within(0.05, struck)
    spin(0.1)  # no exception comes here


# --- memory is given back -------------------------------------------------------------------------


class Server:
    """A parent process that lives for so many looks at it."""

    def __init__(self, looks):
        self.looks = looks

    def is_alive(self):
        self.looks -= 1
        return self.looks >= 0

    def join(self, seconds):
        assert seconds == worker.TRIM_SECONDS


def ended(monkeypatch, trim):
    """The statuses with which `watch_server` ends its process after three looks."""
    statuses = []
    monkeypatch.setattr(worker.multiprocessing, "parent_process", lambda: Server(3))
    monkeypatch.setattr(worker.os, "_exit", statuses.append)
    monkeypatch.setattr(worker, "find_trim", lambda: trim)
    worker.watch_server()
    return statuses


def test_memory_is_given_back_again_and_again(monkeypatch):
    kept = []
    assert ended(monkeypatch, kept.append) == [1]
    assert kept == [0, 0, 0]


def test_without_glibc_there_is_nothing_to_do(monkeypatch):
    assert ended(monkeypatch, None) == [1]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc")
def test_glibc_has_it():
    assert worker.find_trim()(0) in (0, 1)


def test_other_systems_have_not(monkeypatch):
    monkeypatch.setattr(worker.sys, "platform", "darwin")
    assert worker.find_trim() is None
