"""Every criterion in every precision: the loss and the gradients of float32 on the CPU."""

import pytest
import torch

from tests.gpu.steps import CASES, PRECISIONS, train_step

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("case", CASES)
def test_step(case, precision, device, tmp_path):
    if (device, precision) == ("cpu", "fp32"):
        pytest.skip("what the others are compared with")
    expected_loss, expected = train_step(case, tmp_path / "cpu", "cpu", "fp32")
    loss, gradients = train_step(case, tmp_path / "other", device, precision)
    exact = precision == "fp32"
    assert loss == pytest.approx(expected_loss, rel=1e-4 if exact else 3e-2)
    assert float(gradients.norm()) == pytest.approx(
        float(expected.norm()), rel=1e-3 if exact else 0.1
    )
    cosine = torch.cosine_similarity(gradients, expected, dim=0)
    assert cosine > (0.9999 if exact else 0.99)
