"""Chunks: how large they are, and that float16 loses nothing before the loss scale comes in."""

import pytest
import torch
import torch.nn.functional as F

from pet_fairseq.distillation import chunks
from pet_fairseq.distillation.chunks import (
    CHUNK_ELEMENTS,
    ChunkSize,
    autocast_as_now,
    chunk_elements,
    chunk_size,
    chunked_sums,
    free_memory,
)
from pet_fairseq.distillation.loss import TokenSums, distillation_sums, ensemble_log_probs
from tests.distillation.test_loss import LargestTensor

WORDS, WIDTH, TOKENS = 600, 8, 40
LOSS_SCALE = 2.0**12


def make_inputs():
    """Student and teacher agree on a few likely words, so that most gradients are tiny."""
    draw = torch.Generator().manual_seed(2)
    features = torch.randn(TOKENS, WIDTH, generator=draw)
    weight = torch.randn(WORDS, WIDTH, generator=draw)
    bias = torch.full((WORDS,), -18.0)
    bias[:20] = 0
    teacher_logits = features @ weight.T + bias + 0.5 * torch.randn(TOKENS, WORDS, generator=draw)
    target = torch.randint(20, (TOKENS,), generator=draw)
    # what float16 can hold, so that all precisions start from the same numbers
    halves = (features.half().float(), weight.half().float(), bias.half().float())
    return [*halves, teacher_logits, target]


def loss_function(weight, bias, teacher_logits, target):
    def sums(features, rows):
        log_probs = ensemble_log_probs([teacher_logits[rows]], 1.0).to(
            torch.promote_types(features.dtype, torch.float32)
        )
        logits = F.linear(features, weight, bias)
        return distillation_sums(logits, log_probs, target[rows], 0.5, 1.0, 0.0)

    return sums


def gradients(features, weight, bias, teacher_logits, target, chunk_tokens=None, dtype=None):
    """Gradients of the scaled loss for features, weight and bias, the scale taken out again."""
    leaves = [x.clone().to(dtype).requires_grad_() for x in (features, weight, bias)]
    sums = loss_function(*leaves[1:], teacher_logits, target)
    if chunk_tokens is None:
        total = sums(leaves[0], slice(None))
    else:
        total = chunked_sums(sums, leaves[0], leaves[1:], chunk_tokens, TokenSums)
    (total.loss * LOSS_SCALE).backward()
    return [x.grad.double() / LOSS_SCALE for x in leaves]


def errors(found, exact):
    return [((a - b).norm() / b.norm()).item() for a, b in zip(found, exact)]


def lost(bias_grad):
    """How many words' gradients are 0."""
    return int((bias_grad == 0).sum())


def test_float16_is_as_exact_as_without_chunks():
    """The reference: float64, where nothing is lost. Rare words have the tiny gradients."""
    inputs = make_inputs()
    exact = gradients(*inputs, dtype=torch.float64)
    plain = gradients(*inputs, dtype=torch.float16)
    found = gradients(*inputs, chunk_tokens=7, dtype=torch.float16)
    assert (exact[2][20:].abs() / TOKENS).median() < 3e-8  # of a token
    for budget, error in zip(errors(plain, exact), errors(found, exact)):
        assert error <= 1.1 * budget + 1e-4
    assert lost(found[2]) == lost(plain[2]) == 0


def test_autocast_in_float16_is_as_exact_as_without_chunks():
    inputs = make_inputs()
    exact = gradients(*inputs, dtype=torch.float64)
    with torch.autocast("cpu", dtype=torch.float16):
        plain = gradients(*inputs, dtype=torch.float32)
        found = gradients(*inputs, chunk_tokens=7, dtype=torch.float32)
    for budget, error in zip(errors(plain, exact), errors(found, exact)):
        assert error <= 1.1 * budget + 1e-4
    assert lost(found[2]) == lost(plain[2]) == 0


def test_backward_after_autocast_computes_as_in_it():
    """fairseq's trainers run only the forward pass under autocast."""
    inputs = make_inputs()
    with torch.autocast("cpu", dtype=torch.float16):
        expected = gradients(*inputs, chunk_tokens=7, dtype=torch.float32)
    leaves = [x.clone().requires_grad_() for x in inputs[:3]]
    with torch.autocast("cpu", dtype=torch.float16):
        sums = loss_function(*leaves[1:], *inputs[3:])
        total = chunked_sums(sums, leaves[0], leaves[1:], 7, TokenSums)
    (total.loss * LOSS_SCALE).backward()
    for leaf, grad in zip(leaves, expected):
        assert torch.equal(leaf.grad.double() / LOSS_SCALE, grad)


def test_no_tensor_is_larger_than_a_chunk_in_float16():
    inputs = make_inputs()
    with LargestTensor() as largest:
        gradients(*inputs, chunk_tokens=10, dtype=torch.float16)
    assert 10 * WORDS <= largest.numbers <= max(10 * WORDS, WORDS * WIDTH)


def test_an_overflow_reaches_the_loss_scaler():
    inputs = make_inputs()
    leaves = [x.clone().half().requires_grad_() for x in inputs[:3]]
    sums = loss_function(*leaves[1:], *inputs[3:])
    total = chunked_sums(sums, leaves[0], leaves[1:], 7, TokenSums)
    (total.loss * 2.0**20).backward()
    assert not all(torch.isfinite(x.grad).all() for x in leaves)


@pytest.mark.parametrize(
    ("free_bytes", "elements"),
    [
        (None, CHUNK_ELEMENTS),
        (0, 2**20),  # never less: tiny blocks take more time than they save memory
        (2**30, 2**22),
        (2**34 - 1, 2**25),
        (2**34, 2**26),
        (2**34 + 2**33, 2**26),  # a little more memory makes no difference
        (2**40, 2**27),  # never more
    ],
)
def test_blocks_follow_the_free_memory(free_bytes, elements):
    assert chunk_elements(free_bytes) == elements
    assert chunk_size(1000, free_bytes) == elements // 1000


def test_a_chunk_has_a_token_at_least():
    assert chunk_size(2**30) == 1


def test_the_memory_that_is_free_at_the_first_batch_counts(monkeypatch):
    free = [2**34, 2**20]
    monkeypatch.setattr(chunks, "free_memory", lambda device: free.pop(0))
    size = ChunkSize(1000)
    assert [size.on(torch.device("cpu")) for _ in range(3)] == [2**26 // 1000] * 3
    assert free == [2**20]


def test_the_cpu_does_not_say_how_much_memory_it_has():
    assert free_memory(torch.device("cpu")) is None


def test_autocast_as_now():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = autocast_as_now("cpu")
    with inside:
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16
    with autocast_as_now("cpu"):
        assert not torch.is_autocast_enabled("cpu")
