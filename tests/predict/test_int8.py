"""Linear maps in 8 bits: how far from exact ones they may be, and which of a model become such."""

import pytest
import torch
from fairseq.modules import MultiheadAttention as FairseqAttention
from torch import nn

from pet_fairseq.errors import UserError
from pet_fairseq.predict.int8 import Int8Linear, check_int8
from pet_fairseq.predict.load_model import choose_precision
from pet_fairseq.variator.plugin import Plugin
from tests.predict.made import (
    RATIOS,
    make_bart,
    make_classifier,
    make_translator,
    save_low_rank,
)
from tests.predict.test_predictor import TEXTS, answering


def furthest(linear, x):
    """How far 8 bits may be from W x + b (float64): half a step of each weight and each input.

    A weight's step is 1/127 of the largest in its row, an input's 1/127 of what the inputs span.
    """
    weight, inputs = linear.weight.double().tolist(), x.double().tolist()
    values = [value for row in inputs for value in row]
    input_step = (max(*values, 0.0) - min(*values, 0.0)) / 127
    bounds = []
    for row in inputs:
        bounds.append([])
        for weights in weight:
            step = max(map(abs, weights)) / 127
            # torch moves the inputs' zero point to a whole number: another half step at most
            bounds[-1].append(
                sum(
                    abs(w) * input_step + (abs(value) + input_step) * step / 2
                    for w, value in zip(weights, row)
                )
            )
    return torch.tensor(bounds, dtype=torch.float64)


@pytest.mark.parametrize("bias", [True, False])
def test_as_near_as_the_steps_are_small(bias):
    linear = nn.Linear(24, 7, bias=bias)
    with torch.no_grad():  # rows of other sizes: one step for all would be far off
        linear.weight.mul_(torch.logspace(-4, 2, 7)[:, None])
        linear.weight[3] = 0
    x = 3 * torch.randn(9, 24) + 1
    with torch.inference_mode():
        found = Int8Linear(linear)(x).double()
        exact = linear.double()(x.double())
    assert (found - exact).abs().le(furthest(linear, x) + 1e-6).all()
    assert not torch.equal(found.float(), exact.float())
    assert torch.equal(found[:, 3], exact[:, 3])  # the bias alone


def test_any_shape():
    linear = Int8Linear(nn.Linear(6, 5))
    x = torch.randn(4, 3, 6)
    with torch.inference_mode():
        rows = linear(x.reshape(12, 6)).reshape(4, 3, 5)
        assert torch.equal(linear(x), rows)
        assert torch.equal(linear(x.transpose(0, 1)), rows.transpose(0, 1))


@pytest.mark.parametrize("make", [make_classifier, make_bart])
def test_answers_are_nearly_the_same(make, tmp_path):
    """Every map of the backbone is in 8 bits, those of the plugins are as they were."""
    made = make(tmp_path)
    exact, rounded = answering(made), answering(made, "--precision", "int8")
    left = [m for m in rounded.model.modules() if type(m) is nn.Linear]
    plugins = [m for m in rounded.model.modules() if isinstance(m, Plugin)]
    assert set(left) == {m for p in plugins for m in p.modules() if type(m) is nn.Linear}
    assert not any(isinstance(m, FairseqAttention) for m in rounded.model.modules())
    for ratio in (1, *RATIOS):
        found, wanted = (m.predict(TEXTS, compression_ratio=ratio) for m in (rounded, exact))
        for ours, theirs in zip(found, wanted):
            assert ours["probabilities"] == pytest.approx(theirs["probabilities"], abs=0.05)
            assert ours != theirs


@pytest.mark.parametrize("make", [make_classifier, make_bart])
def test_low_rank_updates_are_in_the_maps(make, tmp_path):
    made = make(tmp_path)
    path = save_low_rank(made, "sentence_prediction", tmp_path)
    exact, rounded = (answering(made, *words, path=path) for words in ((), ("--precision", "int8")))
    assert not any(isinstance(m, nn.Linear) for m in rounded.model.modules())
    for ours, theirs in zip(rounded.predict(TEXTS), exact.predict(TEXTS)):
        assert ours["probabilities"] == pytest.approx(theirs["probabilities"], abs=0.1)
        assert ours != theirs


def test_refused(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"--precision int8: is for models that classify; .* by p"):
        answering(make_translator(tmp_path), "--precision", "int8")
    with pytest.raises(UserError, match="--precision int8: is for CPUs; give --device cpu"):
        choose_precision("cuda", "int8")
    monkeypatch.delattr(torch, "quantize_per_channel")
    with pytest.raises(
        UserError, match="--precision int8: this version of torch has no such kernels"
    ):
        check_int8()
