"""Answers on a GPU: the CPU's in float32, close ones in half precision."""

import pytest
import torch

from tests.predict.made import RATIOS, make_bart, make_classifier
from tests.predict.test_predictor import TEXTS, answering

TOLERANCES = {(): 1e-4, ("--precision", "fp16"): 0.01, ("--precision", "bf16"): 0.05}


@pytest.mark.gpu
@pytest.mark.parametrize("options", TOLERANCES)
@pytest.mark.parametrize("make", [make_classifier, make_bart])
def test_classes(make, options, tmp_path):
    made = make(tmp_path)
    model = answering(made, "--device", "cuda", *options)
    dtype = {(): torch.float32, ("--precision", "fp16"): torch.float16}.get(options, torch.bfloat16)
    assert {(p.dtype, p.is_cuda) for p in model.model.parameters()} == {(dtype, True)}
    for ratio in (1, *RATIOS):
        expected = answering(made).predict(TEXTS, ratio)
        for answer, same in zip(model.predict(TEXTS, ratio), expected):
            wanted = pytest.approx(same["probabilities"], abs=TOLERANCES[options])
            assert answer["probabilities"] == wanted
