#!/usr/bin/env python3
"""`pet-fairseq serve` under twice the load that it can carry, with all manner of clients.

    python scripts/reliability/server_load.py [--minutes 10] [OPTIONS OF pet-fairseq serve]

First the requests a second that the server can answer are measured, with always enough of them
waiting. Then clients come at random times (Poisson, seeded), so many that those who want an answer
come at twice that rate. Most behave; others send slowly, stop in the middle, read late, vanish, or
connect and say nothing. The memory of the server's processes and its open files are noted every
second. The exit status is 1 if a client that stayed got no answer or a wrong status, if memory
grew, or if the server did not end as it was told.
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Optional

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from harness import resident_bytes
from http_load import percentile, steady_rate
from served import Server, Shape, make_files, random_texts, server

from pet_fairseq.markdown import table

SHAPE = Shape(layers=2, width=128, ffn=512, heads=4, ratios=[2, 4])
LENGTHS = (20, 60)
OVERLOAD = 2  # the load, over what the server can carry
AT_ONCE = 200  # clients while the capacity is measured: the queue is long, the ratio the largest
SLOW_SECONDS = 3.0  # of a slow client; the server gives a body 10
WAIT_SECONDS = 120.0  # for an answer
GROWTH = 0.05  # the share by which memory may grow
LAST_CONNECTIONS = 5.0  # seconds in which the server closes what the last clients left

# --- clients --------------------------------------------------------------------------------------


class Client(NamedTuple):
    """One connection and what it is to send."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    request: bytes
    draw: random.Random


async def read_status(client: Client) -> int:
    """The status of the answer, which is read to its end; 0 if the connection ends before."""
    status, length = 0, 0
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while line := (await client.reader.readline()).strip():
            if line.startswith(b"HTTP/1."):
                status = int(line.split()[1])
            elif line.lower().startswith(b"content-length:"):
                length = int(line.split()[1])
        await client.reader.readexactly(length)
        return status
    return 0


async def behave(client: Client) -> int:
    client.writer.write(client.request)
    return await read_status(client)


async def send_slowly(client: Client) -> int:
    reading = asyncio.ensure_future(read_status(client))
    step = max(1, len(client.request) // 8)
    for start in range(0, len(client.request), step):
        if reading.done():  # refused before all was sent
            break
        client.writer.write(client.request[start : start + step])
        await asyncio.sleep(SLOW_SECONDS / 9)
    return await reading


async def stop_in_the_body(client: Client) -> int:
    client.writer.write(client.request[:-9])
    return await read_status(client)


async def read_late(client: Client) -> int:
    client.writer.write(client.request)
    await asyncio.sleep(SLOW_SECONDS)
    return await read_status(client)


async def vanish(client: Client) -> None:
    """Go away without a word: in the head, in the body, or before the answer."""
    head = client.request.index(b"\r\n\r\n")
    end = client.draw.choice([head // 2, head + 9, len(client.request)])
    client.writer.write(client.request[:end])
    await asyncio.sleep(client.draw.uniform(0.0, 1.0))
    client.writer.transport.abort()


async def say_nothing(client: Client) -> int:
    """The server is to close the connection."""
    return await read_status(client)


class Manner(NamedTuple):
    """A way to behave.

    Args:
        share: of all clients. statuses: that are right for it; 0: the connection was closed.
    """

    share: float
    act: Callable
    statuses: tuple[Optional[int], ...]


MANNERS = {
    "behaves": Manner(0.60, behave, (200, 503)),
    "sends slowly": Manner(0.10, send_slowly, (200, 503)),
    "reads late": Manner(0.10, read_late, (200, 503)),
    "vanishes": Manner(0.12, vanish, (None,)),
    "stops in the body": Manner(0.04, stop_in_the_body, (408, 503)),
    "says nothing": Manner(0.04, say_nothing, (0, 503)),
}


@dataclass
class Minute:
    """What happened to the requests that began in one minute."""

    statuses: Counter = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)  # of status 200 to clients that behave
    memory: list[float] = field(default_factory=list)  # MB
    files: list[int] = field(default_factory=list)


@dataclass
class Record:
    """The whole test, by minute and by manner."""

    minutes: dict[int, Minute] = field(default_factory=lambda: defaultdict(Minute))
    manners: dict[str, Counter] = field(default_factory=lambda: defaultdict(Counter))
    faults: Counter = field(default_factory=Counter)

    def add(self, minute: int, name: str, status, seconds: float) -> None:
        self.manners[name][status] += 1
        self.minutes[minute].statuses[status] += 1
        if name == "behaves" and status == 200:
            self.minutes[minute].latencies.append(seconds)
        if status not in MANNERS[name].statuses:
            self.faults[f"a client that {name}: {describe(status)}"] += 1


def describe(status) -> str:
    names = {None: "left", 0: "closed", -1: "no answer", -2: "not connected"}
    return names.get(status, str(status))


# --- the load -------------------------------------------------------------------------------------


def make_request(text: str) -> bytes:
    body = json.dumps({"text": text}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def be_client(address: tuple[str, int], name: str, text: str, draw: random.Random):
    """Connect and behave as the manner `name`.

    Returns:
        the status; 0 if the server closed the connection, None if the client left, -1 without an
        answer in time, -2 without a connection.
    """
    try:
        reader, writer = await asyncio.open_connection(*address)
    except OSError:
        return -2
    try:
        client = Client(reader, writer, make_request(text), draw)
        return await asyncio.wait_for(MANNERS[name].act(client), WAIT_SECONDS)
    except asyncio.TimeoutError:  # not the builtin one before Python 3.11
        return -1
    except ConnectionError:
        return 0
    finally:
        writer.transport.abort()


async def measure_capacity(address: tuple[str, int], texts: list[str], seconds: float) -> float:
    """Answers a second while there are always enough requests; the first third warms up."""
    answered = []
    start = time.perf_counter()

    async def client(number: int):
        draw = random.Random(number)
        while time.perf_counter() < start + seconds:
            status = await be_client(address, "behaves", draw.choice(texts), draw)
            if status != 200:
                raise ValueError(f"a single text got status {status}")
            answered.append(time.perf_counter())

    await asyncio.gather(*map(client, range(AT_ONCE)))
    return steady_rate(answered, start, seconds)


async def load(
    served: Server, texts: list[str], rate: float, seconds: float, seed: int, record: Record
) -> None:
    """Clients that come at random times, each in a task of its own."""
    draw = random.Random(seed)
    names, shares = zip(*((name, manner.share) for name, manner in MANNERS.items()))
    start = due = time.perf_counter()
    watching = asyncio.create_task(watch(served, start, record))
    tasks = set()

    async def request(name: str, text: str, began: float):
        status = await be_client(served.place, name, text, random.Random(draw.random()))
        minute = int((began - start) / 60)
        record.add(minute, name, status, time.perf_counter() - began)

    while (due := due + draw.expovariate(rate)) < start + seconds:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        (name,) = draw.choices(names, shares)
        task = asyncio.create_task(request(name, draw.choice(texts), due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    watching.cancel()


async def watch(served: Server, start: float, record: Record) -> None:
    while True:
        minute = record.minutes[int((time.perf_counter() - start) / 60)]
        minute.memory.append(memory_megabytes(served.pids))
        minute.files.append(open_files(served.pid))
        await asyncio.sleep(1.0)


def memory_megabytes(pids: list[int], field: str = "VmRSS") -> float:
    """The memory of processes together, in MB (Linux); field: VmHWM for the most of each so far."""
    return sum(resident_bytes(field, pid) for pid in pids) / 1e6


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


# --- the report -----------------------------------------------------------------------------------


def minute_row(number: int, minute: Minute) -> list[str]:
    counts = minute.statuses
    others = counts.total() - counts[200] - counts[503] - counts[None]
    return [
        *(str(n) for n in (number + 1, counts.total(), counts[200], counts[503], others)),
        *(f"{1000 * percentile(minute.latencies, share):.0f}" for share in (0.5, 0.99)),
        f"{statistics.median(minute.memory):.0f}" if minute.memory else "-",
        str(max(minute.files, default=0)),
    ]


def print_report(record: Record) -> None:
    header = ["client", "number", "share %", "outcomes"]
    total = sum(counts.total() for counts in record.manners.values())
    rows = []
    for name in MANNERS:
        counts = record.manners[name]
        outcomes = [f"{describe(status)}: {n}" for status, n in counts.most_common()]
        share = 100 * counts.total() / total
        rows.append([name, str(counts.total()), f"{share:.0f}", ", ".join(outcomes)])
    print(table(header, rows, text=(0, 3)))
    header = ["minute", "requests", "200", "503", "others", "p50 ms", "p99 ms"]
    header += ["memory MB", "files"]
    minutes = [(n, minute) for n, minute in sorted(record.minutes.items()) if minute.statuses]
    rows = [minute_row(number, minute) for number, minute in minutes]
    print(table(header, rows, text=()))


def compare_fifths(megabytes: list[float]) -> tuple[float, float, list[str]]:
    """The median memory in the second and in the last fifth, and the fault if it grew."""
    fifth = max(1, len(megabytes) // 5)
    early = statistics.median(megabytes[fifth : 2 * fifth] or megabytes)
    late = statistics.median(megabytes[-fifth:])
    grew = late > (1 + GROWTH) * early
    return early, late, [f"memory grew from {early:.0f} to {late:.0f} MB"] if grew else []


def check_memory(record: Record, minutes: float) -> str:
    """Compare the memory in the last fifth of the time with the second; returns a line about it."""
    values = [v for _, minute in sorted(record.minutes.items()) for v in minute.memory]
    early, late, faults = compare_fifths(values)
    record.faults.update(faults)
    return (
        f"Memory: {early:.0f} MB in the second fifth of the time, {late:.0f} MB in the last, "
        f"{max(values):.0f} MB at most."
    )


async def settle(served: Server, files: int, record: Record) -> None:
    """After the load the server is as before: it answers, and nothing is left open."""
    await asyncio.sleep(LAST_CONNECTIONS)
    status = await be_client(served.place, "behaves", "w1 w2", random.Random(1))
    if status != 200:
        record.faults[f"after the load: {describe(status)}"] += 1
    await asyncio.sleep(1.0)
    if open_files(served.pid) > files:
        record.faults[f"{open_files(served.pid) - files} files are left open"] += 1


def run(args: argparse.Namespace, folder: Path, options: list[str]) -> int:
    path, texts = make_files(folder, SHAPE), random_texts(LENGTHS)
    log, record, seconds = folder / "log", Record(), 60 * args.minutes
    with log.open("w") as file, server(path, *options, log=file) as served:
        files = open_files(served.pid)
        measuring = 30.0 if args.minutes >= 1 else 10.0
        capacity = asyncio.run(measure_capacity(served.place, texts, measuring))
        wanting = sum(manner.share for manner in MANNERS.values() if 200 in manner.statuses)
        rate = OVERLOAD * capacity / wanting
        print(
            f"The server answers {capacity:.1f} requests a second. For {args.minutes:g} minutes "
            f"{rate:.1f} clients came a second, {wanting * rate:.1f} of whom wanted an answer.\n",
            flush=True,
        )
        asyncio.run(load(served, texts, rate, seconds, args.seed, record))
        asyncio.run(settle(served, files, record))
    if served.process.returncode != 0:
        record.faults[f"the server ended with status {served.process.returncode}"] += 1
    if "Traceback" in log.read_text():
        record.faults["tracebacks in the log:\n" + log.read_text()[-2000:]] += 1
    print_report(record)
    print(check_memory(record, args.minutes))
    print(f"Faults: {record.faults.total()}.")
    for fault, count in record.faults.items():
        print(f"* {fault} ({count} times)")
    return int(bool(record.faults))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        return run(args, Path(folder), options)


if __name__ == "__main__":
    sys.exit(main())
