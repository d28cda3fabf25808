"""`pet-fairseq serve` as a user starts it, on a free port, with tiny models."""

import asyncio
import contextlib
import json
import re
import signal
import socket
import sys

import pytest
import torch
from aiohttp import ClientSession

from pet_fairseq import cli
from tests.cli.processes import run, start
from tests.predict.imported import import_classifier, probabilities, read
from tests.predict.made import HEAD, LABELS, make_classifier, make_translator
from tests.predict.test_predictor import direct, numbers
from tests.serve.test_load import serve
from tests.serve.test_metrics import read_page

TEXTS = ["w1 w2 w3", "w5 w4 w3 w2 w1 w0 w9", "w7"]


@contextlib.contextmanager
def server(*options):
    """A server that listens, and its address."""
    process = start("pet-fairseq", "serve", "--port", "0", *options)
    try:
        lines = []
        while not (lines and lines[-1].startswith("listening on ")):
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        yield process, lines[-1].split()[-1]
    finally:
        process.kill()
        process.communicate()


def stopped(process):
    """The status and the last words of a process that was told to stop."""
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


async def post(session, body):
    async with session.post("/predict", data=body) as response:
        return response.status, await response.json()


async def page(session):
    async with session.get("/metrics") as response:
        return read_page(await response.text())


@pytest.mark.cold
def test_classification(tmp_path):
    made = make_classifier(tmp_path)
    expected = []
    for text in TEXTS:
        row = torch.tensor([[0, *numbers(made, text)]])
        with torch.no_grad():
            logits, _ = direct(made, 1)(row, features_only=True, classification_head_name=HEAD)
        expected.append(dict(zip(LABELS, logits[0].softmax(dim=0).tolist())))

    async def main(address):
        async with ClientSession(address) as session:
            answers = [await post(session, f'{{"text": "{text}"}}') for text in TEXTS]
            before = await page(session)
            for body in (b"{", b'{"text": 3}', b'{"text": "\xff"}', b'{"text": "' + b"a" * 65536):
                status, _ = await post(session, body)
                assert status in (400, 413)
            return answers, before, await page(session)

    # far above what a text takes, so that nothing is compressed
    with server(made.path, "--target-ms", "60000") as (process, address):
        answers, before, after = asyncio.run(main(address))
        process.send_signal(signal.SIGINT)
        assert stopped(process) == (0, "")
    for (status, answer), wanted in zip(answers, expected):
        assert status == 200
        assert answer["ratio"] == 1
        assert answer["probabilities"] == pytest.approx(wanted, abs=1e-6)
        assert answer["label"] == max(wanted, key=wanted.get)
    assert before['pet_fairseq_batches_total{ratio="1"}'] == len(TEXTS)
    assert after.pop('pet_fairseq_requests_total{status="400"}') == 3
    assert after.pop('pet_fairseq_requests_total{status="413"}') == 1
    assert after == before


@pytest.mark.slow
def test_raw_text_for_an_imported_model(tmp_path):
    """Single texts, pairs, and what has more words than the model has positions."""
    folder, weights = import_classifier(tmp_path)
    texts = [("A good film.",), ("Good films", "a bad film"), ("bad film, " * 9,)]

    async def main(address):
        async with ClientSession(address) as session:
            records = [dict(zip(("text", "pair"), text)) for text in texts]
            return await post(session, json.dumps({"texts": records}))

    with server(folder) as (_, address):
        status, data = asyncio.run(main(address))
    assert status == 200
    for text, answer in zip(texts, data["answers"]):
        ids, types, truncated = read(folder, *text)
        wanted = pytest.approx(probabilities(weights, ids, types), abs=1e-5)
        assert answer["probabilities"] == wanted and answer["ratio"] == 1
        assert answer.get("truncated", False) == truncated
    assert truncated


async def until_refused(session, number):
    """Wait until so many requests had no place in the queue."""
    while (await page(session)).get('pet_fairseq_requests_total{status="503"}', 0) < number:
        pass


@pytest.mark.slow
def test_translation_full_queue_and_sigterm(tmp_path):
    """An untrained model translates to the longest sentences there are, which takes its time."""
    made = make_translator(tmp_path)
    options = ("--ratio", "2", "--beam", "1", "--max-queue", "3", "--max-batch-tokens", "12")
    served = serve(made, *options)
    (expected,) = served.answer([served.encode((TEXTS[1],)).tokens], 2)

    async def main(process, address):
        host, port = address.removeprefix("http://").split(":")
        async with ClientSession(address) as session:
            body = f'{{"text": "{TEXTS[1]}"}}'
            tasks = [asyncio.create_task(post(session, body)) for _ in range(9)]
            await asyncio.wait_for(until_refused(session, 3), 60)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(OSError):
                while True:  # until nobody listens
                    socket.create_connection((host, int(port)), timeout=60).close()
                    await asyncio.sleep(0.01)
            still_open = sum(not task.done() for task in tasks)
            return await asyncio.gather(*tasks), still_open

    with server(made.path, *options) as (process, address):
        answers, still_open = asyncio.run(main(process, address))
        assert stopped(process) == (0, "")
    assert still_open > 0
    assert {status for status, _ in answers} == {200, 503}
    for status, answer in answers:
        full = {"error": "the queue is full"}
        assert answer == (full if status == 503 else {**expected, "ratio": 2})


@pytest.mark.slow
def test_a_batch_that_takes_too_long(tmp_path):
    """The model is loaded again, /health says so, and the server ends as ever."""
    made = make_translator(tmp_path)
    body = json.dumps({"texts": [TEXTS[1]] * 30})

    async def health(session):
        async with session.get("/health") as response:
            return response.status, (await response.json())["status"]

    async def main(address):
        async with ClientSession(address) as session:
            assert await health(session) == (200, "ok")
            status, answer = await post(session, body)
            assert (status, answer) == (
                504,
                {"error": "the batch of this text was ended after 0.005 seconds"},
            )
            seen = [await health(session)]
            while seen[-1][0] != 200:
                await asyncio.sleep(0.05)
                seen.append(await health(session))
            return set(seen)

    options = ("--max-batch-seconds", "0.005", "--max-batch-tokens", "300")
    with server(made.path, *options) as (process, address):
        seen = asyncio.run(main(address))
        process.send_signal(signal.SIGTERM)
        status, output = stopped(process)
    assert seen == {(503, "the model is being loaded again"), (200, "ok")}
    assert status == 0
    assert re.sub(r"ratio \d", "ratio N", output).splitlines() == [  # by how busy the machine is
        "a batch of 30 texts at ratio N was ended after 0.005 seconds",
        "the model's process has ended; the model is loaded again",
        "the model is there again",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words, message",
    [
        ((), "the following arguments are required: CHECKPOINT"),
        (("/none.pt",), "error: CHECKPOINT /none.pt: no such file"),
        (("x", "--target-ms", "0"), "argument --target-ms: 0: give a number above 0"),
        (("x", "--port", "70000"), "argument --port: 70000: give 0 to 65535"),
        (("x", "--ratio", "half"), "argument --ratio: half: give a whole number of 1 or more"),
        (("x", "--max-queue", "0"), "argument --max-queue: 0: give a whole number of 1 or more"),
    ],
)
def test_bad_options(words, message, capsys):
    with contextlib.suppress(SystemExit):
        assert cli.main(["serve", *words]) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_port_in_use():
    """Found before the model is loaded."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("pet-fairseq", "serve", "none.pt", "--port", port, check=False)
    assert result.status == 1
    assert f"--port {port}: is in use; give another one" in result.output.splitlines()[-1]
    assert "Traceback" not in result.output


def test_a_host_that_is_none():
    options = ("none.pt", "--host", "none.invalid", "--port", "0")
    result = run("pet-fairseq", "serve", *options, check=False)
    assert result.status == 1
    assert result.output.splitlines()[-1].startswith(
        "pet-fairseq serve: error: --host none.invalid: "
    )


@pytest.mark.parametrize("library", ["aiohttp", "prometheus_client"])
def test_without_a_library(library, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, library, None)
    for module in ("run", "app", "admission", "metrics", "engine"):
        monkeypatch.delitem(sys.modules, f"pet_fairseq.serve.{module}", raising=False)
    assert cli.main(["serve", "x.pt"]) == 1
    line = f"pet-fairseq serve: error: {library} is missing; pip install 'pet-fairseq[serve]'"
    assert capsys.readouterr().err.splitlines() == [line]
