#!/usr/bin/env python3
"""Wrong requests to `pet-fairseq serve`: thousands of generated ones, none of which may harm it.

    python scripts/reliability/http_bodies.py [--bodies 10000] [--seed 1]

The bodies are cut, flipped, of wrong types, nested deeply, full of huge numbers, in other encodings
and too long; the heads announce what does not follow, or are not HTTP. Each goes to a server with a
small model of random weights, in a connection of its own. The exit status is 1 if one led to an
internal error, a traceback in the log, more than 5 seconds of the server's processor time, a minute
of waiting, or 1 GB of memory.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Optional

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from fuzz_inputs import odd_value
from served import Server, Shape, make_files, server
from server_load import memory_megabytes

from pet_fairseq.markdown import table

SECONDS = 5.0  # of the server's processor time, between a request and its answer
CLOCK_SECONDS = 60.0  # the same on the clock: other processes may have the processor
PATIENCE = 0.5  # seconds that a client waits for what its head left open, before it gives up
MEGABYTES = 1000  # for the server
AT_ONCE = 8  # clients
CODES = "#version: 0.2\nw 1\nw 2</w>\na a\n"
SHAPE = Shape(layers=2, width=64, ffn=64, heads=2, ratios=[2])
WORDS = ["w1", "w22", "w3", "Haus", "don't", "\u4f60\u597d", "<pad>", "@@", "\u00df"]

# --- requests -------------------------------------------------------------------------------------


class Request(NamedTuple):
    """The bytes to send; after a `cut` request the client may have to close its side."""

    data: bytes
    cut: bool = False


def valid(draw: random.Random) -> bytes:
    """A body that is as it should be."""
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 8))) for _ in range(draw.randint(1, 3))]
    body = {"text": texts[0]} if draw.random() < 0.5 else {"texts": texts}
    return json.dumps(body, ensure_ascii=draw.random() < 0.5).encode()


def cut(draw: random.Random) -> bytes:
    body = valid(draw)
    return body[: draw.randrange(len(body))]


def flipped(draw: random.Random) -> bytes:
    body = bytearray(valid(draw))
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(body))
        if draw.random() < 0.5:
            body[place] ^= 1 << draw.randrange(8)
        else:
            body.insert(place, draw.randrange(256))
    return bytes(body)


def wrong_types(draw: random.Random) -> bytes:
    kind = draw.randrange(4)
    if kind == 0:
        return json.dumps(odd_value(draw)).encode()
    if kind == 1:
        return json.dumps({"text": odd_value(draw)}).encode()
    if kind == 2:
        return json.dumps({"texts": odd_value(draw)}).encode()
    another = draw.choice(["texts", "TEXT", "beam"])
    return json.dumps({"text": "a", another: odd_value(draw)}).encode()


def nested(draw: random.Random) -> bytes:
    depth = draw.choice([10, 100, 1000, 10_000, 30_000])
    start, end = draw.choice([("[", "]"), ('{"text":', "}"), ('{"texts":[', "]}")])
    start = start[: max(1, 60_000 // depth)] if len(start) * depth > 60_000 else start
    return (start * depth + (end * depth)[: 60_000 - len(start) * depth]).encode()


def numbers(draw: random.Random) -> bytes:
    huge = ["9" * draw.choice([20, 4300, 4301, 60_000]), "1" + "0" * 50_000, "0." + "0" * 50_000]
    number = draw.choice(["1e999", "-1e400", "NaN", "-Infinity", "0x10", "1E+100000", "-0", *huge])
    shape = draw.choice(["{}", '{{"text": {}}}', '{{"texts": [{}]}}', '{{"text": "a", "n": {}}}'])
    return shape.format(number).encode()


def encodings(draw: random.Random) -> bytes:
    body = valid(draw).decode()
    kind = draw.randrange(6)
    if kind == 0:
        return body.encode(draw.choice(["utf-16", "utf-16-le", "utf-32", "utf-7"]))
    if kind == 1:
        return ('{"text": "' + draw.choice("äöüß€") * 9 + '"}').encode("cp1252")
    if kind == 2:
        return b"\xef\xbb\xbf" + body.encode()
    if kind == 3:
        bad = [b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80", b"\xe4\xbd"]
        return b'{"text": "w1 ' + draw.choice(bad) + b' w2"}'
    if kind == 4:
        return b'{"text": "w1 ' + draw.choice([rb"\ud800", rb"\u0000", rb"\udfff\ud800"]) + b'"}'
    return draw.randbytes(draw.randint(1, 2000))


def long_texts(draw: random.Random) -> bytes:
    word = draw.choice(["a", "aw1", ".", "&", "'", "-", "\u0301", "\u4f60", "\U0001f600", "\x00"])
    kind = draw.randrange(4)
    if kind == 0:  # a word without a space, which is at the limit or above it
        return json.dumps({"text": word * draw.choice([900, 1000, 1001, 9000])}).encode()
    if kind == 1:
        return json.dumps({"text": f"{word} " * draw.choice([1000, 4000, 5001, 20_000])}).encode()
    if kind == 2:
        return json.dumps({"texts": [word] * draw.choice([200, 256, 257, 5000])}).encode()
    return json.dumps({"text": draw.choice(" \t\n\u3000") * 60_000 + "w1"}).encode()


BODIES: dict[str, Callable] = {
    "cut": cut,
    "flipped": flipped,
    "wrong types": wrong_types,
    "deep nesting": nested,
    "huge numbers": numbers,
    "wrong encodings": encodings,
    "long texts": long_texts,
}


def with_head(body: bytes, *headers: str, start: str = "POST /predict HTTP/1.1") -> bytes:
    lines = [start, "Host: x", *headers]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body


def whole(body: bytes) -> Request:
    """A body under a head that is right."""
    return Request(with_head(body, f"Content-Length: {len(body)}"))


def wrong_length(draw: random.Random) -> Request:
    body = valid(draw)
    length = draw.choice(
        [len(body) + draw.randint(1, 999), len(body) - 1, -1, 0, "", "x", "1e3", 10**30, "0x10"]
    )
    headers = [f"Content-Length: {length}"]
    if draw.random() < 0.3:
        headers.append(f"Content-Length: {len(body)}")
    return Request(with_head(body, *headers), cut=True)


def wrong_chunks(draw: random.Random) -> Request:
    body = valid(draw)
    size = draw.choice([f"{len(body):x}", f"{len(body) + 5:x}", "-1", "zz", "f" * 40, "", "0"])
    end = draw.choice(["\r\n0\r\n\r\n", "\r\n", "", "0\r\n\r\n", "\r\n0\r\nX: y\r\n\r\n"])
    headers = ["Transfer-Encoding: " + draw.choice(["chunked", "chunked, chunked", "gzip", "x"])]
    if draw.random() < 0.3:
        headers.append(f"Content-Length: {len(body)}")
    data = f"{size}\r\n".encode() + body + end.encode()
    return Request(with_head(data, *headers), cut=True)


def wrong_headers(draw: random.Random) -> Request:
    body = valid(draw)
    header = draw.choice(
        [
            "Content-Encoding: gzip",
            "Content-Type: application/json; charset=utf-99",
            "Content-Type: multipart/form-data",
            "Expect: 100-continue",
            "Expect: the worst",
            "Connection: " + "x" * 100,
            "Upgrade: websocket\r\nConnection: Upgrade",
            "X: " + "a" * draw.choice([4000, 5000, 100_000]),
            "\r\n".join(f"X{n}: a" for n in range(draw.choice([60, 70, 5000]))),
            "X\x00: a",
            "X: a\x00b",
            "X : a",
            ": a",
            " folded: a",
            "X: \udcff\udcfe",
            "Cookie: " + "a=b; " * 500,
        ]
    )
    return Request(with_head(body, f"Content-Length: {len(body)}", header), cut=True)


def wrong_start(draw: random.Random) -> Request:
    body = valid(draw)
    start = draw.choice(
        [
            "GET /predict HTTP/1.1",
            "PUT /predict HTTP/1.1",
            "POST /predict HTTP/9.9",
            "POST /predict HTTP/0.9",
            "POST /predict",
            "POST  /predict  HTTP/1.1",
            "POST /../../etc/passwd HTTP/1.1",
            "POST //predict HTTP/1.1",
            "POST http://[::1/predict HTTP/1.1",
            "POST /predict?" + "a" * 10_000 + " HTTP/1.1",
            "POST /%ff%00 HTTP/1.1",
            "P\x00ST /predict HTTP/1.1",
            "CONNECT x:1 HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "PRI * HTTP/2.0",
            "\x16\x03\x01\x02",
            "",
        ]
    )
    return Request(with_head(body, f"Content-Length: {len(body)}", start=start), cut=True)


def no_http(draw: random.Random) -> Request:
    data = bytearray(with_head(valid(draw), "Content-Length: 20"))
    if draw.random() < 0.5:
        return Request(draw.randbytes(draw.randint(1, 5000)), cut=True)
    for _ in range(draw.randint(1, 10)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return Request(bytes(data[: draw.randint(1, len(data))]), cut=True)


HEADS: dict[str, Callable] = {
    "wrong lengths": wrong_length,
    "wrong chunks": wrong_chunks,
    "wrong headers": wrong_headers,
    "wrong first lines": wrong_start,
    "no HTTP": no_http,
}
KINDS = [*BODIES, *HEADS]


def generate(seed: int, number: int) -> tuple[str, Request]:
    """The kind of a request, and the request: the same for the same two numbers."""
    draw = random.Random(f"{seed} {number}")
    kind = KINDS[number % len(KINDS)]
    if kind in HEADS:
        return kind, HEADS[kind](draw)
    return kind, whole(BODIES[kind](draw))


# --- sending them ---------------------------------------------------------------------------------


class Answer(NamedTuple):
    """The status, or None if the server closed the connection; what passed until then.

    Args:
        busy: the server's seconds of processor time, for this request and those beside it.
    """

    status: Optional[int]
    seconds: float
    busy: float


def processor_seconds(pids: list[int]) -> float:
    """How long processes have had a processor, the threads that ended too (Linux)."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def send(target: Server, request: Request) -> Answer:
    """Send a request in a connection of its own.

    Raises:
        asyncio.TimeoutError: neither an answer nor the end of the connection came in time.
    """
    start, busy = time.perf_counter(), processor_seconds(target.pids)
    reader, writer = await asyncio.open_connection(*target.place)
    try:
        status = await asyncio.wait_for(talk(reader, writer, request), CLOCK_SECONDS)
    finally:
        writer.transport.abort()
    return Answer(status, time.perf_counter() - start, processor_seconds(target.pids) - busy)


async def talk(reader, writer, request: Request) -> Optional[int]:
    """Send a request and read the status of its answer."""
    with contextlib.suppress(ConnectionError):
        writer.write(request.data)
        if not request.cut:
            return await read_status(reader)
        reading = asyncio.ensure_future(read_status(reader))
        await asyncio.wait({reading}, timeout=PATIENCE)
        if not reading.done():
            writer.write_eof()
        return await reading
    return None


async def read_status(reader: asyncio.StreamReader) -> Optional[int]:
    """The status of the answer, or None if there is none."""
    while line := await reader.readline():
        if line.startswith(b"HTTP/1.") and line.split()[1] != b"100":
            return int(line.split()[1])
    return None


class Outcomes:
    """How often each kind of request got each status, and the faults."""

    def __init__(self):
        self.statuses: dict[str, Counter] = defaultdict(Counter)
        self.longest: dict[str, float] = defaultdict(float)
        self.busiest: dict[str, float] = defaultdict(float)
        self.faults: list[str] = []

    def add(self, kind: str, number: int, answer: Answer) -> None:
        self.statuses[kind][answer.status or "closed"] += 1
        self.longest[kind] = max(self.longest[kind], answer.seconds)
        self.busiest[kind] = max(self.busiest[kind], answer.busy)
        if answer.busy > SECONDS:
            self.faults.append(f"request {number} ({kind}): {answer.busy:.1f} s of the processor")
        if answer.status is not None and answer.status >= 500 and answer.status != 503:
            self.faults.append(f"request {number} ({kind}): status {answer.status}")

    def rows(self) -> list[list[str]]:
        return [
            [
                kind,
                str(counts.total()),
                ", ".join(f"{status}: {n}" for status, n in sorted(counts.items(), key=str)),
                f"{self.longest[kind]:.1f}",
                f"{self.busiest[kind]:.1f}",
            ]
            for kind, counts in self.statuses.items()
        ]


async def send_all(target: Server, seed: int, count: int) -> Outcomes:
    outcomes = Outcomes()
    numbers_left = iter(range(count))

    async def client():
        for number in numbers_left:
            kind, request = generate(seed, number)
            try:
                outcomes.add(kind, number, await send(target, request))
            except asyncio.TimeoutError:
                outcomes.faults.append(f"request {number} ({kind}): nothing in {CLOCK_SECONDS:g} s")
            except ConnectionError as error:
                outcomes.faults.append(f"request {number} ({kind}): no connection, {error}")

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return outcomes


async def still_answers(target: Server) -> bool:
    answer = await send(target, whole(b'{"text": "w1 w2"}'))
    return answer.status == 200


def run(args: argparse.Namespace, folder: Path) -> int:
    (folder / "codes").write_text(CODES)
    bpe = ("--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", folder / "codes")
    log = folder / "log"
    with log.open("w") as file, server(make_files(folder, SHAPE), *bpe, log=file) as served:
        before = memory_megabytes(served.pids, "VmHWM")
        outcomes = asyncio.run(send_all(served, args.seed, args.bodies))
        faults = outcomes.faults
        after = memory_megabytes(served.pids, "VmHWM")
        if not asyncio.run(still_answers(served)):
            faults.append("the server no longer answers a right request")
    if after > MEGABYTES:
        faults.append(f"the server took {after:.0f} MB of memory")
    if served.process.returncode != 0:
        faults.append(f"the server ended with status {served.process.returncode}")
    if "Traceback" in log.read_text():
        faults.append("a traceback in the log:\n" + log.read_text()[-3000:])
    header = ["requests", "number", "statuses", "longest s", "processor s"]
    print(table(header, outcomes.rows(), text=(0, 2)))
    print(f"{args.bodies} requests, seed {args.seed}. The server's memory: {before:.0f} MB before,")
    print(f"{after:.0f} MB at the peak. Faults: {len(faults)}.")
    for fault in faults[:20]:
        print(f"* {fault}")
    return int(bool(faults))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--bodies", type=int, default=10_000, help="how many requests to send")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return run(args, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
