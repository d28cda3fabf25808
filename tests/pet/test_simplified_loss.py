"""The four-class task against loops from the equations."""

import math

import pytest
import torch

from pet_fairseq.pet.simplified_loss import (
    class_log_probs,
    class_sums,
    judge,
    median_confidence,
    teacher_classes,
)
from tests.pet.equations import class_by_table, four_probs


@pytest.mark.parametrize("scale", [0.1, 1, 5, 40])
def test_the_four_probabilities(scale):
    logits = scale * torch.randn(30, 9, dtype=torch.float64)
    target = torch.randint(9, (30,))
    found = class_log_probs(logits, target)
    expected = [four_probs(z, y) for z, y in zip(logits.tolist(), target.tolist())]
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found.exp(), expected, rtol=1e-9, atol=1e-15)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(30, dtype=torch.float64))


@pytest.mark.parametrize("label", range(4))
def test_gradient_equals_autograd_of_the_equations(label):
    logits = 2 * torch.randn(12, 7, dtype=torch.float64)
    target = torch.randint(7, (12,))
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    labels = torch.full((12,), label)
    loss = class_sums(class_log_probs(ours, target), labels).loss
    p = theirs.softmax(-1)
    c, r = p.max(-1).values, p[torch.arange(12), target]
    expected = -torch.stack([c * r, (1 - c) * r, c * (1 - r), (1 - c) * (1 - r)])[label].log().sum()
    torch.testing.assert_close(loss, expected)
    found, wanted = (torch.autograd.grad(x, y)[0] for x, y in ((loss, ours), (expected, theirs)))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def confident_logits(gap, gold_is_top):
    """One word whose probability is within exp(-gap) of 1."""
    logits = torch.zeros(1, 5, dtype=torch.float64)
    logits[0, 2] = gap + math.log(4)
    return logits, torch.tensor([2 if gold_is_top else 1])


@pytest.mark.parametrize("gap", [3.0, 16.118, 20.0, 60.0])  # 16.118: within 1e-7 of 1
@pytest.mark.parametrize("gold_is_top", [True, False])
@pytest.mark.parametrize("label", range(4))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_loss_and_gradient_beside_certainty(gap, gold_is_top, label, dtype):
    logits, target = confident_logits(gap, gold_is_top)
    logits = logits.to(dtype).requires_grad_()
    loss = class_sums(class_log_probs(logits, target), torch.tensor([label])).loss
    (gradient,) = torch.autograd.grad(loss, logits)

    exact = logits.detach().double().requires_grad_()
    p = exact.softmax(-1)[0]
    not_c = p[[0, 1, 3, 4]].sum()  # not 1 - p[2], which is 0 in the end
    not_r = not_c if gold_is_top else p[[0, 2, 3, 4]].sum()
    c, r = p[2], p[target[0]]
    expected = -torch.log([c * r, not_c * r, c * not_r, not_c * not_r][label])
    (expected_gradient,) = torch.autograd.grad(expected, exact)
    assert torch.isfinite(loss) and torch.isfinite(gradient).all()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2  # of the gradient's own precision
    torch.testing.assert_close(
        gradient.double(), expected_gradient, rtol=tolerance, atol=tolerance / 10
    )


@pytest.mark.parametrize("eps1, eps2", [(0.9, 0.7), (0.5, 0.6), (1.0, 1.0)])
def test_labels_follow_the_table(eps1, eps2):
    logits = 3 * torch.randn(200, 4, dtype=torch.float64)
    target = torch.randint(4, (200,))
    found = teacher_classes(judge(logits.log_softmax(-1), target), eps1, eps2)
    probs = logits.softmax(-1).tolist()
    expected = [class_by_table(p, y, eps1, eps2) for p, y in zip(probs, target.tolist())]
    assert found.tolist() == expected
    assert set(expected) == ({0, 1, 2, 3} if eps1 < 1 else {1, 3})


def test_auto_is_the_median_of_each_side():
    logits = 3 * torch.randn(51, 4, dtype=torch.float64)
    target = torch.randint(4, (51,))
    found = median_confidence(judge(logits.log_softmax(-1), target))
    for side, threshold in zip((True, False), found):
        tops = sorted(
            max(p)
            for p, y in zip(logits.softmax(-1).tolist(), target.tolist())
            if (p.index(max(p)) == y) == side
        )
        assert threshold == pytest.approx(tops[(len(tops) - 1) // 2])
    never_wrong = judge(logits.log_softmax(-1), logits.argmax(-1))
    assert median_confidence(never_wrong)[1] is None
