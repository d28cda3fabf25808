"""Generators on a GPU: the CPU's hypotheses in float32, close ones in half precision."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.utils import apply_to_sample

from pet_fairseq.decoding.generator import FastGenerator
from tests.decoding.setups import with_search
from tests.strict.test_generators import MODELS, OPTIONS, TRANSLATION

HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def generate(kind, case, options, device, dtype=torch.float32):
    """The tokens of each hypothesis, and its score."""
    models = [model.to(device=device, dtype=dtype) for model in case.models]
    options = {"max_len_a": 0, "max_len_b": 8, **with_search(case.words, options)}
    generator = kind(models, case.words, **options).to(device)
    sample = apply_to_sample(lambda tensor: tensor.to(device), case.sample)
    found = generator.generate(models, sample)
    return [[(h["tokens"].tolist(), float(h["score"])) for h in group] for group in found]


def scores(found):
    return [score for group in found for _, score in group]


@pytest.mark.gpu
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", TRANSLATION)
def test_the_fast_generator(name, options, tmp_path):
    options = OPTIONS[options]
    expected = generate(FastGenerator, MODELS[name](tmp_path), options, "cpu")
    found = generate(FastGenerator, MODELS[name](tmp_path), options, "cuda")
    assert [[t for t, _ in group] for group in found] == [[t for t, _ in g] for g in expected]
    assert scores(found) == pytest.approx(scores(expected), abs=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_fairseqs_generator(name, tmp_path):
    options = {"beam_size": 3}
    expected = generate(SequenceGenerator, MODELS[name](tmp_path), options, "cpu")
    found = generate(SequenceGenerator, MODELS[name](tmp_path), options, "cuda")
    assert [[t for t, _ in group] for group in found] == [[t for t, _ in g] for g in expected]
    assert scores(found) == pytest.approx(scores(expected), abs=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", HALF)
@pytest.mark.parametrize("name", TRANSLATION)
def test_half_precision(name, precision, device, tmp_path):
    """Both generators with rounded weights: scores may differ by rounding only."""
    options = {"beam_size": 3, "min_len": 8}
    dtype = HALF[precision]
    expected = generate(SequenceGenerator, MODELS[name](tmp_path), options, device, dtype)
    found = generate(FastGenerator, MODELS[name](tmp_path), options, device, dtype)
    assert scores(found) == pytest.approx(scores(expected), rel=0.05)
