"""Generators on the strict device find what they find on the CPU, and seldom wait for it."""

import random
from typing import NamedTuple

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from torch.testing import assert_close

from pet_fairseq.decoding.generator import FastGenerator
from tests.decoding.setups import decisive, random_prefixes, random_sample, with_search
from tests.helpers import build, dictionary
from tests.selfcp.test_model import make_sample, make_selfcp
from tests.selfcp.test_model import task as make_selfcp_task
from tests.strict_device import DEVICE, Wait, move, strict_device, to_cpu, waits_of
from tests.translation import make_batch, make_task
from tests.translation import save_model as save_translation_model
from tests.variator.test_model import make_variator

WORDS = 16
HEADS = {"encoder_kept_heads": "1,2/2,3/1,3/1,2", "decoder_kept_heads": "1,3/2,3/1,2/1,3"}
OPTIONS = {
    "beam 1": {"beam_size": 1},
    "beam 4": {"beam_size": 4},
    "every option": {
        **{"beam_size": 3, "min_len": 2, "len_penalty": 0.6, "unk_penalty": 1.0},
        **{"temperature": 0.8, "no_repeat_ngram_size": 2, "tokens_to_suppress": ("w1",)},
    },
    "source length": {"beam_size": 3, "match_source_len": True},
}


class Case(NamedTuple):
    """What a generator takes."""

    models: list
    words: Dictionary
    sample: dict


def translation(*models) -> Case:
    return Case(
        [decisive(model) for model in models],
        dictionary(WORDS),
        random_sample(random.Random(3), WORDS, [7, 3, 5]),
    )


def plain(_) -> Case:
    return translation(build("transformer", words=WORDS))


def pet(_) -> Case:
    return translation(build("pet_transformer", words=WORDS, **HEADS))


def can(_) -> Case:
    options = {"decoder_normalize_before": True, "decoder_ffn_embed_dim": 24}
    return translation(build("can_transformer", words=WORDS, **options))


def t5(_) -> Case:
    options = {"share_all_embeddings": True, "relative_max_distance": 20, "gated_ffn": True}
    return translation(build("t5", words=WORDS, **options))


def ensemble(_) -> Case:
    return translation(*(build("transformer", seed=seed, words=WORDS) for seed in (1, 2)))


def variator(tmp_path) -> Case:
    task = make_task(tmp_path / "data")
    torch.manual_seed(1)
    path = save_translation_model(tmp_path / "t.pt", task)
    model = make_variator(task, path, compression_ratio=2)
    net_input = make_batch(task, [7, 3, 5])["net_input"]
    net_input.pop("prev_output_tokens")
    return Case([model], task.target_dictionary, {"net_input": net_input})


def selfcp(tmp_path) -> Case:
    task = make_selfcp_task.__wrapped__(tmp_path)
    model = make_selfcp(task, tmp_path).float().eval()
    sample = make_sample(task, [(2, 5), (1, 14), (3, 23)])
    sample["net_input"].pop("prev_output_tokens")
    return Case([model], task.dictionary, {"net_input": sample["net_input"]})


MODELS = {f.__name__: f for f in (plain, pet, can, t5, ensemble, variator, selfcp)}
TRANSLATION = ("plain", "pet", "can", "t5", "ensemble", "variator")


def generate(kind, case, options, device, **arguments) -> tuple[list, list[Wait]]:
    """Hypotheses of a generator on a device, as CPU tensors, and its waits for a second batch."""
    with strict_device() as waits:
        models = [model.to(device) for model in case.models]
        options = {"max_len_a": 0, "max_len_b": 8, **with_search(case.words, options)}
        generator = kind(models, case.words, **options)
        sample = case.sample
        if device != "cpu":
            sample, arguments = move(sample), move(arguments)
        generator.generate(models, sample, **arguments)
        del waits[:]
        found = generator.generate(models, sample, **arguments)
    return to_cpu(found), waits


def check(kind, name, folder, options, **arguments) -> list[Wait]:
    """Assert that both devices give the same; returns the waits for a batch."""
    expected, _ = generate(kind, MODELS[name](folder), options, "cpu", **arguments)
    found, waits = generate(kind, MODELS[name](folder), options, DEVICE, **arguments)
    assert len(found) == len(expected) and any(expected)
    for ours, theirs in zip(found, expected):
        assert [h["tokens"].tolist() for h in ours] == [h["tokens"].tolist() for h in theirs]
        assert_close([h["score"] for h in ours], [h["score"] for h in theirs])
    return waits


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", TRANSLATION)
def test_the_fast_generator(name, options, tmp_path):
    check(FastGenerator, name, tmp_path, OPTIONS[options])


def test_prefixes(tmp_path):
    prefixes = random_prefixes(random.Random(3), WORDS, 3)
    check(FastGenerator, "pet", tmp_path, {"beam_size": 3}, prefix_tokens=prefixes)


@pytest.mark.parametrize("name", MODELS)
def test_fairseqs_generator(name, tmp_path):
    """With translations of one length: fairseq drops finished sentences by resizing in place,
    which the strict device cannot do."""
    waits = check(SequenceGenerator, name, tmp_path, {"beam_size": 3, "min_len": 8})
    expected = {"variator": 1, "selfcp": 3}  # while prompts are read, however many layers there are
    assert len(waits_of(waits)) == expected.get(name, 0)


@pytest.mark.parametrize("name", TRANSLATION)
def test_the_fast_generator_looks_at_the_device_once_in_four_steps(name, tmp_path):
    short, long = (
        check(FastGenerator, name, tmp_path, {"beam_size": 3, "min_len": n, "max_len_b": n})
        for n in (8, 16)
    )
    assert len(waits_of(long)) - len(waits_of(short)) == 2
    # two at eight steps and one at the end, for the table of hypotheses; Variator asks whether
    # there is padding
    assert len(waits_of(short)) == (4 if name == "variator" else 3)
    # fairseq's encoder looks for padding, and so does its decoder, which CAN has
    steps = 8 if name == "can" else 0
    assert len(waits_of(long, "fairseq")) - len(waits_of(short, "fairseq")) == steps
