"""The distillation loss against loops from its equation."""

import math

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch.utils._python_dispatch import TorchDispatchMode

from pet_fairseq.distillation.chunks import chunked_sums
from pet_fairseq.distillation.loss import TokenSums, distillation_sums, ensemble_log_probs


def softmax(logits, temperature):
    """Probabilities of one token, a list from a list."""
    highest = max(logits)
    powers = [math.exp((z - highest) / temperature) for z in logits]
    return [p / sum(powers) for p in powers]


def loss_by_loops(logits, teacher_logits, target, alpha, temperature, smoothing):
    """(1-a) CE + a T^2 KL, token by token and word by word; (loss, nll, kl) summed over tokens."""
    loss = total_nll = total_kl = 0.0
    for z, z_teacher, gold in zip(logits.tolist(), teacher_logits.tolist(), target.tolist()):
        p = softmax(z, 1)
        words = len(z)
        nll = -math.log(p[gold])
        others = sum(-math.log(p[w]) for w in range(words) if w != gold)
        cross_entropy = (1 - smoothing) * nll + smoothing / (words - 1) * others
        p_soft, q_soft = softmax(z, temperature), softmax(z_teacher, temperature)
        kl = sum(q * (math.log(q) - math.log(p)) for q, p in zip(q_soft, p_soft))
        loss += (1 - alpha) * cross_entropy + alpha * temperature**2 * kl
        total_nll += nll
        total_kl += kl
    return loss, total_nll, total_kl


def make_projection(tokens, width=5, words=11, dtype=torch.float64):
    features = torch.randn(tokens, width, dtype=dtype).requires_grad_()
    weight = torch.randn(words, width, dtype=dtype).requires_grad_()
    bias = torch.randn(words, dtype=dtype).requires_grad_()
    teacher_logits = 2 * torch.randn(tokens, words, dtype=dtype)
    return features, weight, bias, teacher_logits, torch.randint(words, (tokens,))


def teacher_log_probs(logits, temperature):
    """In the dtype of the logits, where the package works in float32."""
    return torch.log_softmax(logits / temperature, dim=-1)


def sums_in_chunks(projection, alpha, temperature, smoothing, chunk):
    features, weight, bias, teacher_logits, target = projection

    def sums(rows_features, rows):
        log_probs = teacher_log_probs(teacher_logits[rows], temperature)
        logits = rows_features @ weight.T + bias
        return distillation_sums(logits, log_probs, target[rows], alpha, temperature, smoothing)

    return chunked_sums(sums, features, [weight, bias], chunk, TokenSums)


@pytest.mark.parametrize("alpha", [0, 0.1, 0.5, 1])
@pytest.mark.parametrize("temperature", [1, 2, 10])
@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_values_equal_loops(alpha, temperature, chunk):
    projection = make_projection(tokens=7)
    features, weight, bias, teacher_logits, target = projection
    sums = sums_in_chunks(projection, alpha, temperature, 0.1, chunk)
    logits = features @ weight.T + bias
    loss, nll, kl = loss_by_loops(logits, teacher_logits, target, alpha, temperature, 0.1)
    assert sums.loss.item() == pytest.approx(loss, rel=1e-12)
    assert sums.nll.item() == pytest.approx(nll, rel=1e-12)
    assert sums.kl.item() == pytest.approx(kl, rel=1e-10)
    assert sums.correct == sum(
        z.index(max(z)) == y for z, y in zip(logits.tolist(), target.tolist())
    )
    agree = [
        z.index(max(z)) == t.index(max(t)) for z, t in zip(logits.tolist(), teacher_logits.tolist())
    ]
    assert sums.agreement == sum(agree)


@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize("factor", [1.0, 128.0])  # fp16 multiplies the loss before backward
def test_gradients_equal_finite_differences(chunk, factor):
    projection = make_projection(tokens=4, width=3, words=5)
    features, weight, bias, teacher_logits, target = projection
    (factor * sums_in_chunks(projection, 0.3, 2.0, 0.1, chunk).loss).backward()
    step = 1e-6
    for parameter in (features, weight, bias):
        flat, grad = parameter.detach().view(-1), parameter.grad.view(-1)
        for i in range(flat.numel()):
            losses = []
            for sign in (1, -1):
                flat[i] += sign * step
                logits = features @ weight.T + bias
                losses.append(loss_by_loops(logits, teacher_logits, target, 0.3, 2.0, 0.1)[0])
                flat[i] -= sign * step
            numeric = factor * (losses[0] - losses[1]) / (2 * step)
            assert grad[i].item() == pytest.approx(numeric, rel=1e-5, abs=1e-5 * factor)


def test_no_tokens_give_zero_loss_and_gradients():
    projection = make_projection(tokens=0)
    sums = sums_in_chunks(projection, 0.5, 2.0, 0.1, 3)
    sums.loss.backward()
    assert sums.loss == sums.kl == sums.agreement == 0
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in projection[1:3])


def test_same_sums_without_gradients():
    projection = make_projection(tokens=9)
    with_grad = sums_in_chunks(projection, 0.5, 2.0, 0.1, 4)
    with torch.no_grad():
        without = sums_in_chunks(projection, 0.5, 2.0, 0.1, 4)
    for a, b in zip(with_grad, without):
        torch.testing.assert_close(a.detach(), b)
    assert not without.loss.requires_grad


def test_alpha_0_is_fairseqs_label_smoothed_cross_entropy():
    features, weight, bias, teacher_logits, target = make_projection(tokens=6)
    logits = (features @ weight.T + bias).detach()
    log_probs = teacher_log_probs(teacher_logits, 1)
    sums = distillation_sums(logits, log_probs, target, 0, 1, 0.2)
    loss, nll = label_smoothed_nll_loss(torch.log_softmax(logits, -1), target, 0.2)
    torch.testing.assert_close(sums.loss, loss)
    torch.testing.assert_close(sums.nll, nll)


def test_kl_is_zero_for_equal_logits():
    logits = torch.randn(5, 8, dtype=torch.float64)
    sums = distillation_sums(logits, teacher_log_probs(logits, 3), torch.zeros(5).long(), 1, 3, 0)
    assert sums.loss.item() == pytest.approx(0, abs=1e-12)
    assert sums.agreement == 5


def test_hot_temperature_matches_logits():
    """For large T the gradient of T^2 KL tends to (z - z_teacher) / V, centred (Hinton 2015)."""
    words, temperature = 6, 1e4
    z = torch.randn(3, words, dtype=torch.float64).requires_grad_()
    teacher = torch.randn(3, words, dtype=torch.float64)
    log_probs = teacher_log_probs(teacher, temperature)
    distillation_sums(z, log_probs, torch.zeros(3).long(), 1, temperature, 0).loss.backward()
    difference = z.detach() - teacher
    expected = (difference - difference.mean(-1, keepdim=True)) / words
    torch.testing.assert_close(z.grad, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_ensemble_is_the_mean_of_its_members(temperature):
    members = [torch.randn(4, 7) for _ in range(3)]
    mean = sum(torch.softmax(z.double(), -1) for z in members) / 3
    powers = mean ** (1 / temperature)
    expected = (powers / powers.sum(-1, keepdim=True)).log().float()
    torch.testing.assert_close(ensemble_log_probs(members, temperature), expected)
    one = ensemble_log_probs(members[:1], temperature)
    torch.testing.assert_close(ensemble_log_probs(members[:1] * 2, temperature), one)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    """No worse than the same loss on full half-precision logits, and finite at extreme logits."""
    projection = make_projection(tokens=50, dtype=torch.float32)
    halves = [t.detach().to(dtype) for t in projection[:3]]
    halves = [t.requires_grad_() for t in halves]
    teacher_logits, target = projection[3:]
    for scale in (1, 1e3):  # the second: logits of some 10,000
        exact = sums_in_chunks(
            (*(t.double() * 1 for t in halves), teacher_logits.double(), target), 0.5, 2, 0.1, 9
        )
        features, weight, bias = halves
        for t in halves:
            t.grad = None

        def sums(rows_features, rows, scale=scale, weight=weight, bias=bias):
            log_probs = ensemble_log_probs([teacher_logits[rows]], 2.0)
            logits = (rows_features @ weight.T + bias) * scale
            return distillation_sums(logits, log_probs, target[rows], 0.5, 2.0, 0.1)

        result = chunked_sums(sums, features, [weight, bias], 9, TokenSums)
        result.loss.backward()
        assert all(torch.isfinite(t.grad).all() for t in halves) and torch.isfinite(result.loss)
        if scale == 1:
            logits = (features @ weight.T + bias).float()
            log_probs = ensemble_log_probs([teacher_logits], 2.0)
            plain = distillation_sums(logits, log_probs, target, 0.5, 2.0, 0.1).loss
            budget = (plain - exact.loss).abs() + 1e-4 * exact.loss.abs()
            assert (result.loss - exact.loss).abs() <= 2 * budget


class LargestTensor(TorchDispatchMode):
    """Remembers how many numbers the largest tensor made inside has."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return out


def test_no_tensor_is_larger_than_a_chunk():
    projection = make_projection(tokens=60, words=50, dtype=torch.float32)
    with LargestTensor() as largest:
        sums_in_chunks(projection, 0.5, 2.0, 0.1, 10).loss.backward()
    assert 0 < largest.numbers <= 10 * 50
    with LargestTensor() as largest:
        sums_in_chunks(projection, 0.5, 2.0, 0.1, 60).loss.backward()
    assert largest.numbers == 60 * 50
