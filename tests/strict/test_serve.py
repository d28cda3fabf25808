"""The server's models on the strict device: the CPU's answers, which a batch waits for once."""

import asyncio

import pytest

from pet_fairseq.serve.engine import Engine
from pet_fairseq.serve.metrics import Metrics
from pet_fairseq.serve.queue import BatchQueue
from pet_fairseq.serve.scheduler import Cost, RatioScheduler
from pet_fairseq.serve.served_model import ServedModel
from tests.predict.made import RATIOS, make_bart, make_classifier, make_translator
from tests.predict.test_predictor import TEXTS
from tests.serve.test_load import serve
from tests.strict_device import DEVICE, strict_device, waits_of


@pytest.fixture(scope="module", params=[make_classifier, make_bart, make_translator])
def made(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("made"))


def moved(served):
    """The same service on the strict device."""
    options = {"search": served.search} if hasattr(served, "search") else {}
    kind = type(served)
    moved = kind(served.model, served.task, served.text, max_tokens=40, **options)
    return moved.to(DEVICE)


class Here:
    """The model without its process."""

    def __init__(self, served):
        self.served = served

    async def encode(self, texts):
        return self.served.encode(texts)

    async def answer(self, texts, ratio):
        return self.served.answer(texts, ratio)


def ask(served, ratio):
    """Answer all texts with an engine, in one batch."""

    async def main():
        scheduler = RatioScheduler({ratio: Cost(0.0, 0.001)}, 1, 1000)
        queue = BatchQueue(10, 1000)
        engine = Engine(Here(ServedModel(served, 100, 60)), queue, scheduler, Metrics(queue, 1, 1))
        answers = asyncio.create_task(engine.submit([(text,) for text in TEXTS]))
        while not len(queue.items):
            await asyncio.sleep(0.001)
        queue.close()
        await engine.run()
        return await answers

    return asyncio.run(main())


def rounded(answer):
    """An answer whose numbers are compared as float32 allows."""
    if "probabilities" not in answer:
        return answer
    return {**answer, "probabilities": pytest.approx(answer["probabilities"], abs=1e-6)}


@pytest.mark.parametrize("ratio", [1, *RATIOS])
def test_answers_and_waits(made, ratio):
    served = serve(made)
    if hasattr(served, "generator"):
        served.generator.max_len_b = 10
    expected = ask(served, ratio)
    with strict_device() as waits:
        strict = moved(served)
        if hasattr(served, "generator"):
            strict.generator.max_len_b = 10
        waits.clear()
        answers = ask(strict, ratio)
        asked = waits_of(waits)
    assert answers == [rounded(answer) for answer in expected]
    assert len({str(answer) for answer in expected}) > 1
    fetching = [wait for wait in asked if wait.startswith("pet_fairseq/predict/")]
    assert len(fetching) == 1
    # the plugins ask whether there is padding
    others = [wait for wait in asked if wait not in fetching]
    assert all(wait.startswith("pet_fairseq/variator/stack_wrappers.py:") for wait in others)
    assert len(others) <= (0 if ratio == 1 else 1)
