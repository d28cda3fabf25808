"""What commands with --device do on the strict device: the CPU's results."""

from collections.abc import Callable

import pytest
import torch
from torch.testing import assert_close

from pet_fairseq.nn.to_device import move_batch
from pet_fairseq.pet.head_sampling import contribution_scores, weight_scores
from pet_fairseq.pet.pair_search.search import search
from pet_fairseq.results.score import classification
from pet_fairseq.selfcp.bank.bank import Bank
from pet_fairseq.selfcp.choose import losses
from pet_fairseq.selfcp.memory_map import similarities
from pet_fairseq.variator.neurons import watch_neurons
from tests.helpers import build, dictionary
from tests.pet.pair_search.test_search import samples
from tests.pet.test_head_sampling import sample
from tests.pet.test_heads import WIDE
from tests.predict.made import make_classifier
from tests.selfcp.bank.test_demonstrations import build as build_bank
from tests.selfcp.bank.test_demonstrations import data as demonstrations
from tests.selfcp.bank.test_demonstrations import with_bank
from tests.selfcp.test_model import make_sample, make_selfcp
from tests.selfcp.test_model import task as language_task
from tests.strict_device import DEVICE, strict_device, to_cpu, waits_of
from tests.translation import make_batch, make_task, save_model
from tests.variator.test_model import make_variator


def check(work: Callable[[str], object]) -> list[str]:
    """Assert that work gives the same on both devices; returns our waits on the strict one."""
    with strict_device() as waits:
        expected = work("cpu")
        found = to_cpu(work(DEVICE))
    assert_close(found, expected, rtol=1e-4, atol=1e-5)
    return waits_of(waits)


def test_sample_heads():
    batches = [sample((5, 2, 7), (4, 6, 3)), sample((3, 3), (2, 5))]

    def contributions(device):
        model = build(**WIDE).to(device)
        moved = [move_batch(batch, device) for batch in batches]
        return contribution_scores(model, moved, dictionary().pad())

    check(contributions)
    check(lambda device: weight_scores(build(**WIDE).to(device)))


@pytest.mark.slow
def test_suggest_pairs():
    batches = samples()

    def measured(device):
        model = build("transformer").to(device)
        result = search(model, [move_batch(batch, device) for batch in batches])
        rises = {(m.stack, m.kind, m.name): (m.rise, m.error) for m in result.measured}
        return [result.loss, result.sentences, result.tokens, dict(sorted(rises.items()))]

    check(measured)


def test_neurons(tmp_path):
    def counts(device):
        task = make_task(tmp_path / "data")
        torch.manual_seed(1)
        path = save_model(tmp_path / "b.pt", task)
        model = make_variator(task, path, compression_ratio=2).to(device)
        batches = [make_batch(task, [5, 6, 3]), make_batch(task, [7], seed=1)]
        found = watch_neurons(model, [move_batch(batch, device) for batch in batches], 2)
        return [found.shares(), [numbers.tolist() for numbers in found]]

    check(counts)


@torch.no_grad()
def test_choose(tmp_path):
    task = language_task.__wrapped__(tmp_path)
    prompts = make_sample(task, [(2, 5), (0, 9), (3, 23)])["net_input"]
    del prompts["prev_output_tokens"]
    candidates = [torch.tensor(words) for words in ([5], [6, 7, 8], [9, 5])]

    def of_each(device):
        model = make_selfcp(task, tmp_path).to(device)
        return losses(model, move_batch(prompts, device), candidates)

    check(of_each)


def test_memory_map(tmp_path):
    task = language_task.__wrapped__(tmp_path)
    query, prompt = torch.tensor([5, 6]), torch.randint(4, 18, (16,))

    def of_segments(device):
        model = make_selfcp(task, tmp_path, prompt_strategy="concat").to(device)
        maps = similarities(model.eval(), query, prompt)
        assert {segment.cosines.device.type for segment in maps} == {"cpu"}  # for the plot
        return [segment.cosines for segment in maps]

    waits = check(of_segments)
    fetched = [wait for wait in waits if wait.startswith("pet_fairseq/selfcp/memory_map.py")]
    assert len(fetched) == 2  # once for each segment


def test_bank(tmp_path):
    demonstrations.__wrapped__(tmp_path)
    task = language_task.__wrapped__(tmp_path)
    net_input = make_sample(task, [(2, 5), (3, 23)])["net_input"]

    def built_and_read(device):
        model = make_selfcp(task, tmp_path).to(device)
        folder = build_bank(model, tmp_path, out=f"bank.{device[:3]}")
        bank = Bank(folder)
        model = with_bank(model, folder, 2)
        with torch.no_grad():
            logits, _ = model(**move_batch(net_input, device))
        return [[torch.tensor(bank.memory(i)) for i in range(len(bank))], logits]

    check(built_and_read)


def test_score_classes(tmp_path, monkeypatch):
    classifier = make_classifier(tmp_path)
    task = classifier.task
    model, _ = classification.load_model(classifier.backbone, "CHECKPOINT", task.cfg.data)
    words = task.source_dictionary
    tokens = torch.randint(4, len(words), (5, 7))
    batch = {
        "id": torch.arange(5),
        "net_input": {"src_tokens": tokens, "src_lengths": torch.full((5,), 7)},
        "target": torch.randint(0, 3, (5, 1)),
        "ntokens": 35,
    }
    monkeypatch.setattr(classification, "load_model", lambda *_: (model, task))
    monkeypatch.setattr(
        classification, "read_batches", lambda *_, device, **__: [move_batch(batch, device)]
    )

    def scores(device):
        scores = classification.class_scores("x", "y", device=device)
        return scores | {"by_sentence": list(map(int, scores["by_sentence"]))}

    check(scores)
