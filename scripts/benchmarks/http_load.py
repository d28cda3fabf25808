"""Clients of a server on the loopback: what they ask, what they get, and when.

Imported by serve.py, serve_accuracy.py and answers.py beside it, and by new_words.py in
scripts/reliability.
"""

import asyncio
import contextlib
import math
import statistics
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Optional

from aiohttp import ClientSession, TCPConnector

from pet_fairseq.files import read_lines


class Request(NamedTuple):
    """A text as it is sent, and the class that it should get if that is known."""

    fields: dict[str, str]  # text, of a pair also pair
    label: Optional[str] = None


class Answer(NamedTuple):
    """An answer: status, class, seconds since the request was due, and when the answer came."""

    request: Request
    status: int
    label: Optional[str]
    seconds: float
    at: float

    @property
    def right(self) -> bool:
        return self.label == self.request.label


def read_requests(
    texts: Path, labels: Optional[Path] = None, pairs: Optional[Path] = None
) -> list[Request]:
    """The requests of files with a text, a class and a second sentence in each line.

    Raises:
        SystemExit: the files have different numbers of lines.
    """
    columns = {"text": texts, "pair": pairs, "label": labels}
    lines = {name: read_lines(path, name) for name, path in columns.items() if path}
    if len(set(map(len, lines.values()))) > 1:
        counts = ", ".join(f"{columns[name]}: {len(some)}" for name, some in lines.items())
        raise SystemExit(f"the files have different numbers of lines ({counts}); give others")
    wanted: Sequence[Optional[str]] = [None] * len(lines["text"])
    if "label" in lines:
        wanted = lines.pop("label")
    return [Request(dict(zip(lines, row)), label) for *row, label in zip(*lines.values(), wanted)]


@contextlib.asynccontextmanager
async def clients(address: str) -> AsyncIterator[ClientSession]:
    async with ClientSession(address, connector=TCPConnector(limit=0)) as session:
        yield session


async def ask(session: ClientSession, request: Request, due: float) -> Answer:
    """Send a request; due: when it should have been sent, from which its seconds are counted."""
    async with session.post("/predict", json=request.fields) as response:
        answer = await response.json()
        now = time.perf_counter()
        return Answer(request, response.status, answer.get("label"), now - due, now)


async def full_load(
    address: str, requests: Iterable[Request], under_way: int, seconds: float = math.inf
) -> list[Answer]:
    """The answers while so many requests are always under way, until time or requests run out.

    Raises:
        ValueError: a request was refused.
    """
    source, answers = iter(requests), []
    end = time.perf_counter() + seconds

    async def client(session: ClientSession) -> None:
        while time.perf_counter() < end and (request := next(source, None)) is not None:
            answer = await ask(session, request, time.perf_counter())
            if answer.status != 200:
                raise ValueError("some texts were refused; give others with --texts")
            answers.append(answer)

    async with clients(address) as session:
        await asyncio.gather(*(client(session) for _ in range(under_way)))
    return answers


def steady_rate(moments: Iterable[float], start: float, seconds: float) -> float:
    """Answers a second in the last two thirds of a full load; moments: when they came.

    Raises:
        SystemExit: there were none.
    """
    counted = sum(start + seconds / 3 < moment <= start + seconds for moment in moments)
    if not counted:
        raise SystemExit(f"no text was answered within {seconds:g} s; give more with --seconds")
    return counted / (seconds * 2 / 3)


def busy_seconds(pids: Iterable[int]) -> float:
    """How long the threads of processes had a processor; 0 without Linux' /proc."""
    return _schedule(pids, 0)


def starved_seconds(pids: Iterable[int]) -> float:
    """How long the threads of processes could have run but did not; 0 without Linux' /proc."""
    return _schedule(pids, 1)


def _schedule(pids: Iterable[int], column: int) -> float:
    files = chain(*(Path(f"/proc/{pid}/task").glob("*/schedstat") for pid in pids))
    return sum(int(file.read_text().split()[column]) for file in files) / 1e9


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that a share of all values does not exceed; NaN without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def accuracy(answers: Sequence[Answer]) -> float:
    """The share of right answers among those that came, in percent."""
    answered = [answer.right for answer in answers if answer.status == 200]
    return 100 * statistics.fmean(answered) if answered else math.nan
