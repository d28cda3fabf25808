"""The attention against loops over sentences, heads and positions, and against fairseq's module."""

import itertools
import math

import pytest
import torch
from fairseq.modules import MultiheadAttention as FairseqAttention
from torch.testing import assert_close

from pet_fairseq.nn.attention import (
    LONGEST_IN_STEPS,
    MultiheadAttention,
    from_fairseq,
    fused_attention,
    head_multiple,
    replace_fairseq_attention,
    scaled_attention,
    steps_are_faster,
)
from tests.strict_device import DEVICE, strict_device

# beyond twice the error of the loops in the same dtype
HALF_TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2}


def reference(attention, heads, query, key, value, padding, mask):
    """softmax(q k / sqrt(D) + mask) v for one sentence, head and position after the other.

    Returns the output T x B x C and the weights H x B x T x S. A position that sees no key has
    zero weights; tests leave it out.
    """
    q, k, v = attention.q_proj(query), attention.k_proj(key), attention.v_proj(value)
    head_dim = q.size(-1) // heads
    length, sentences, _ = q.shape
    outputs = []
    weights = q.new_zeros(heads, sentences, length, len(k))
    for t in range(length):
        for b in range(sentences):
            total = attention.out_proj.bias
            for h in range(heads):
                part = slice(h * head_dim, (h + 1) * head_dim)
                visible = [
                    s for s in range(len(k)) if not padding[b, s] and mask[t, s] != -math.inf
                ]
                if not visible:
                    continue
                scores = [
                    q[t, b, part].dot(k[s, b, part]) / math.sqrt(head_dim) + mask[t, s]
                    for s in visible
                ]
                exponentials = [(score - max(scores)).exp() for score in scores]
                context = 0
                for s, exponential in zip(visible, exponentials):
                    weight = exponential / sum(exponentials)
                    weights[h, b, t, s] = weight.detach()
                    context = context + weight * v[s, b, part]
                total = total + attention.out_proj.weight[:, part] @ context
            outputs.append(total)
    return torch.stack(outputs).view(length, sentences, -1), weights


def integer(low, high):
    return int(torch.randint(low, high + 1, ()))


def make_attention(dtype=torch.float64, **options):
    """Random widths, where heads x head_dim is never the embedding width."""
    heads, head_dim = integer(2, 4), integer(2, 5)
    attention = MultiheadAttention(heads * head_dim + integer(1, 3), heads, head_dim, **options)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return attention.to(dtype), heads


def ragged_padding(sentences, length, only_padding=True):
    """B x S, True = padding: ragged lengths; the last sentence is nothing but padding if wanted."""
    lengths = [integer(1, length - 1) for _ in range(sentences - 1)] + [0 if only_padding else 1]
    return torch.arange(length) >= torch.tensor(lengths)[:, None]


def causal_mask(length, dtype=torch.float64):
    return torch.full((length, length), -math.inf, dtype=dtype).triu(1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("masks", ["none", "padding", "causal", "float", "bool"])
@pytest.mark.parametrize("cross", [False, True])
def test_equals_loops(seed, masks, cross):
    torch.manual_seed(seed)
    options = dict(kdim=integer(3, 9), vdim=integer(10, 12)) if cross else {}
    attention, heads = make_attention(**options)
    sentences, length = integer(2, 3), integer(3, 5)
    keys = integer(2, 6) if cross else length
    inputs = [torch.randn(length, sentences, attention.embed_dim, dtype=torch.float64)]
    if cross:
        inputs += [torch.randn(keys, sentences, width).double() for width in options.values()]
    for tensor in inputs:
        tensor.requires_grad_()
    query, key, value = inputs if cross else inputs * 3

    padding = ragged_padding(sentences, keys) if masks != "none" else None
    mask = float_mask = None
    if masks in ("float", "bool", "causal"):
        hidden = torch.ones(length, keys, dtype=torch.bool).triu(1)
        float_mask = torch.zeros(length, keys).double().masked_fill(hidden, -math.inf)
        if masks == "float":
            float_mask = float_mask + torch.randn(length, keys)
        mask = hidden if masks == "bool" else float_mask

    expected, expected_weights = reference(
        attention,
        heads,
        query,
        key,
        value,
        torch.zeros(sentences, keys).bool() if padding is None else padding,
        torch.zeros(length, keys).double() if float_mask is None else float_mask,
    )
    # positions that see a real key; nothing is defined for the others
    seen = expected_weights[0].sum(-1).transpose(0, 1) > 0
    factors = torch.randn_like(expected) * seen[..., None]
    tensors = [*inputs, *attention.parameters()]
    expected_gradients = torch.autograd.grad((expected * factors).sum(), tensors)

    call = dict(key_padding_mask=padding, attn_mask=mask)
    for wanted in (
        dict(need_weights=False),
        dict(need_weights=True),
        dict(need_weights=False, need_head_weights=True),
    ):
        output, weights = attention(query, key, value, **call, **wanted)
        assert_close(output[seen], expected[seen])
        gradients = torch.autograd.grad((output * factors).sum(), tensors, retain_graph=True)
        for gradient, expected_gradient in zip(gradients, expected_gradients):
            assert_close(gradient, expected_gradient)
        # the row of only padding spreads no nan
        assert output.isfinite().all()
        assert all(g.isfinite().all() for g in torch.autograd.grad(output.sum(), tensors))
        if wanted == dict(need_weights=False):
            assert weights is None
        elif wanted.get("need_head_weights"):
            seen_weights = weights.permute(2, 1, 0, 3)[seen]
            assert_close(seen_weights, expected_weights.permute(2, 1, 0, 3)[seen])
        else:
            seen_weights = weights.transpose(0, 1)[seen]
            assert_close(seen_weights, expected_weights.mean(0).transpose(0, 1)[seen])


@pytest.mark.parametrize("kind", ["self", "cross"])
@pytest.mark.parametrize("padded", [False, True])
def test_equals_fairseq(kind, padded):
    kinds = dict(self_attention=kind == "self", encoder_decoder_attention=kind == "cross")
    widths = dict(kdim=10, vdim=10) if kind == "cross" else {}
    theirs = FairseqAttention(12, 4, **widths, **kinds).eval()
    ours = MultiheadAttention(12, 4, **widths, **kinds).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    ours.load_state_dict(theirs.state_dict(), strict=True)

    query = torch.randn(5, 3, 12)
    key = query if kind == "self" else torch.randn(6, 3, 10)
    padding = ragged_padding(3, len(key), only_padding=False) if padded else None
    mask = causal_mask(5, torch.float32) if kind == "self" else None
    calls = [dict(attn_mask=mask, need_weights=w) for w in (True, False)]
    if kind == "cross":
        calls += [dict(static_kv=True, need_head_weights=True)]
    for call in calls:
        results = [m(query, key, key, key_padding_mask=padding, **call) for m in (ours, theirs)]
        for mine, fairseqs in zip(*results):
            assert_close(mine, fairseqs, rtol=1e-5, atol=1e-5)

    # step by step, as in generation
    states = [{}, {}]
    for t in range(5):
        x = query[t : t + 1]
        if kind == "self":
            keys, call = (
                x,
                dict(key_padding_mask=None if padding is None else padding[:, t : t + 1]),
            )
        else:
            keys, call = key, dict(key_padding_mask=padding, static_kv=True)
        results = [
            m(x, keys, keys, incremental_state=state, **call)
            for m, state in zip((ours, theirs), states)
        ]
        for mine, fairseqs in zip(*results):
            assert_close(mine, fairseqs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("need_weights", [False, True])
def test_content_of_padding_changes_nothing(need_weights):
    attention, _ = make_attention(self_attention=True)
    padding = ragged_padding(4, 6)
    x = torch.randn(6, 4, attention.embed_dim, dtype=torch.float64)
    other = torch.where(padding.T[..., None], 1e6 * torch.randn_like(x), x)
    call = dict(key_padding_mask=padding, need_weights=need_weights)
    first, second = attention(x, x, x, **call)[0], attention(other, other, other, **call)[0]
    assert not torch.allclose(first, second)
    assert_close(first[~padding.T], second[~padding.T])


@pytest.mark.parametrize("seed", range(4))
def test_incremental_equals_causal(seed):
    """Token by token, while the batch is reordered, shrinks, and padding enters in the middle."""
    torch.manual_seed(seed)
    attention, heads = make_attention(self_attention=True)
    attention.eval()
    x = torch.zeros(0, 6, attention.embed_dim, dtype=torch.float64)
    padding = torch.zeros(6, 0, dtype=torch.bool)
    state = {}
    for step in range(7):
        sentences = x.size(1)
        if step:
            kept = integer(1, sentences) if step % 3 == 0 else sentences
            order = torch.randint(sentences, (kept,))
            attention.reorder_incremental_state(state, order)
            x, padding = x[:, order], padding[order]
        new = torch.randn(1, x.size(1), x.size(2), dtype=torch.float64)
        # like fairseq's decoder: no mask at all in steps without padding
        new_padding = torch.rand(x.size(1), 1) < 0.5 if step in (3, 4, 6) else None
        x = torch.cat([x, new])
        padding = torch.cat(
            [padding, torch.zeros(x.size(1), 1).bool() if new_padding is None else new_padding], 1
        )
        output, weights = attention(
            new, new, new, new_padding, incremental_state=state, need_weights=step % 2 == 0
        )
        expected, expected_weights = reference(
            attention, heads, x, x, x, padding, causal_mask(len(x))
        )
        assert_close(output[0], expected[-1])
        if weights is not None:
            assert_close(weights[:, 0], expected_weights.mean(0)[:, -1])


@pytest.mark.parametrize("need_weights", [False, True])
def test_cross_attention_caches_keys(need_weights):
    """Keys are computed once; removed sentences leave the cache, moves within a sentence do not."""
    attention, heads = make_attention(kdim=7, vdim=7, encoder_decoder_attention=True)
    attention.eval()
    beam, source = 2, torch.randn(5, 3, 7, dtype=torch.float64)
    padding = ragged_padding(3, 5, only_padding=False).repeat_interleave(beam, 0)
    source = source.repeat_interleave(beam, 1)  # as in beam search: equal keys within a sentence
    state = {}
    call = dict(static_kv=True, need_weights=need_weights, incremental_state=state)
    # first and second sentence swap beams; the middle one leaves; the last one leaves
    for order in (None, [1, 0, 3, 3, 4, 5], [0, 1, 4, 5], [1, 1]):
        if order is None:
            keys, keys_padding = source, padding
        else:
            attention.reorder_incremental_state(state, torch.tensor(order))
            source, padding = source[:, order], padding[order]
            # whatever the caller passes now is ignored
            keys, keys_padding = torch.full_like(source, math.nan), ~padding
        query = torch.randn(1, len(padding), attention.embed_dim, dtype=torch.float64)
        output, weights = attention(query, keys, keys, keys_padding, **call)
        expected, expected_weights = reference(
            attention, heads, query, source, source, padding, torch.zeros(1, 5).double()
        )
        assert_close(output, expected)
        if need_weights:
            assert_close(weights, expected_weights.mean(0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("need_weights", [False, True])
def test_half_precision(dtype, need_weights):
    attention, heads = make_attention(dtype)
    x = torch.randn(5, 3, attention.embed_dim).to(dtype)
    padding = ragged_padding(3, 5)
    call = dict(key_padding_mask=padding, need_weights=need_weights)
    output = attention(x, x, x, attn_mask=causal_mask(5, torch.float32), **call)[0]
    assert output.dtype == dtype
    assert output.isfinite().all()

    plain = reference(attention, heads, x, x, x, padding, causal_mask(5, dtype))[0][:, :2]
    x, exact = x.double(), attention.double()
    exact = reference(exact, heads, x, x, x, padding, causal_mask(5))[0][:, :2]
    seen = ~padding[:2, 0]
    budget = 2 * (plain - exact)[:, seen].abs().max() + HALF_TOLERANCE[dtype]
    assert (output[:, :2] - exact)[:, seen].abs().max() <= budget


@pytest.mark.parametrize("need_weights", [False, True])
def test_large_activations_in_fp16(need_weights):
    """q k = 64 x 40 x 40 overflows fp16, q k / sqrt(64) does not: the output is the input."""
    attention = MultiheadAttention(64, 1)
    with torch.no_grad():
        for projection in attention.children():
            if isinstance(projection, torch.nn.Linear):
                projection.weight.copy_(torch.eye(64))
                projection.bias.zero_()
    x = torch.full((3, 2, 64), 40.0, dtype=torch.float16)
    output = attention.half()(x, x, x, need_weights=need_weights)[0]
    assert_close(output, x, rtol=1e-2, atol=0)


@pytest.mark.parametrize("need_weights", [False, True])
def test_dropout_of_weights(need_weights):
    """With equal scores and the unit matrix as values, the output shows each dropped weight."""
    p, size = 0.3, 64
    attention = MultiheadAttention(size, 1, dropout=p)
    with torch.no_grad():
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight.zero_()
        for projection in (attention.v_proj, attention.out_proj):
            projection.weight.copy_(torch.eye(size))
            projection.bias.zero_()
    x = torch.eye(size)[:, None]
    undropped = attention.eval()(x, x, x, need_weights=need_weights)[0]
    assert_close(undropped, torch.full_like(undropped, 1 / size))
    output, weights = attention.train()(x, x, x, need_weights=need_weights)
    dropped = output == 0
    assert abs(dropped.float().mean() - p) < 0.05  # 4096 draws: a standard deviation of 0.007
    assert_close(output[~dropped], torch.full_like(output[~dropped], 1 / size / (1 - p)))
    if need_weights:  # reported before dropout
        assert_close(weights, torch.full_like(weights, 1 / size))


def test_width_not_divisible_by_heads():
    with pytest.raises(ValueError, match="width 10 is not divisible by 3 heads"):
        MultiheadAttention(10, 3)


# --- head widths for fused kernels ----------------------------------------------------------------


@pytest.mark.parametrize("head_dim", [1, 8, 22, 60])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_heads_that_are_filled_up_give_the_same(head_dim, dropout, dtype):
    q, k, v = (torch.randn(2, 3, n, head_dim, dtype=dtype) for n in (5, 7, 7))
    bias = torch.randn(2, 1, 5, 7, dtype=dtype)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    results = []
    for multiple in (1, 8):
        torch.manual_seed(3)
        context = fused_attention(*leaves, bias, dropout, multiple)
        assert context.shape == q.shape
        results.append([context, *torch.autograd.grad(context.square().sum(), leaves)])
    tolerance = 1e-12 if dtype == torch.float64 else 5e-3
    assert_close(*results, rtol=tolerance, atol=tolerance)


def test_heads_are_filled_up_in_half_precision_on_a_gpu():
    dtypes = (torch.float32, torch.float16, torch.bfloat16)
    assert [head_multiple(torch.zeros(1, dtype=dtype)) for dtype in dtypes] == [1, 1, 1]
    with strict_device():
        on_device = [torch.zeros(1, dtype=dtype, device=DEVICE) for dtype in dtypes]
        assert [head_multiple(x) for x in on_device] == [1, 8, 8]


@pytest.mark.parametrize("kind", ["self", "encoder-decoder"])
def test_fairseqs_attention_as_ours(kind):
    """The same weights, not copies, and the same output."""
    widths = {} if kind == "self" else {"kdim": 6, "vdim": 6}
    flag = "self_attention" if kind == "self" else "encoder_decoder_attention"
    theirs = FairseqAttention(8, 2, dropout=0.5, **widths, **{flag: True}).double().eval()
    ours = from_fairseq(theirs)
    assert {id(p) for p in ours.parameters()} == {id(p) for p in theirs.parameters()}
    query = torch.randn(5, 3, 8, dtype=torch.float64)
    key = query if kind == "self" else torch.randn(4, 3, 6, dtype=torch.float64)
    padding = torch.zeros(3, len(key), dtype=torch.bool)
    padding[1, -2:] = True
    for found, expected in zip(
        ours(query, key, key, key_padding_mask=padding),
        theirs(query, key, key, key_padding_mask=padding),
    ):
        assert_close(found, expected)


@pytest.mark.parametrize("own_key", ["add_bias_kv", "add_zero_attn"])
def test_fairseqs_attention_is_replaced_in_a_model(own_key):
    """At every depth, but not where it attends to a vector of its own as well."""
    deep = torch.nn.ModuleDict({"attention": FairseqAttention(8, 2, self_attention=True)})
    special = FairseqAttention(8, 2, self_attention=True, **{own_key: True})
    model = torch.nn.ModuleList([deep, special]).double().eval()
    names = [name for name, _ in model.named_parameters()]
    x = torch.randn(5, 3, 8, dtype=torch.float64)
    expected = [attention(x, x, x)[0] for attention in (deep["attention"], special)]
    replace_fairseq_attention(model)
    assert isinstance(model[0]["attention"], MultiheadAttention)
    assert model[1] is special
    assert sorted(name for name, _ in model.named_parameters()) == sorted(names)
    assert_close([attention(x, x, x)[0] for attention in (deep["attention"], special)], expected)


# --- steps in place of the fused kernel -----------------------------------------------------------


def queries_keys_values(dtype, length=5, keys=7):
    return [torch.randn(2, 3, n, 4, dtype=dtype, requires_grad=True) for n in (length, keys, keys)]


def by_hand(q, k, v, bias, kept):
    """softmax(q k^T / sqrt(D) + bias) v, the weights times `kept`, position by position."""
    outputs = torch.zeros(q.shape, dtype=q.dtype)
    for b, h, t in itertools.product(*map(range, q.shape[:3])):
        scores = (k[b, h] * q[b, h, t]).sum(-1) / math.sqrt(q.size(-1)) + bias[b, 0, t]
        exponentials = (scores - scores.max()).exp()
        weights = exponentials / exponentials.sum() * kept[b, h, t]
        outputs[b, h, t] = (weights[:, None] * v[b, h]).sum(0)
    return outputs


def kept_weights(shape, dropout):
    """The factors of the weights, B x H x T x S, that steps draw next: 0 or 1 / (1 - dropout)."""
    *heads, length, keys = shape
    q, k = (torch.zeros(*heads, n, 1, dtype=torch.bfloat16) for n in (length, keys))
    identity = torch.eye(keys, dtype=torch.bfloat16).expand(*heads, -1, -1)
    shown = scaled_attention(q.requires_grad_(), k, identity, None, dropout)
    return shown.detach().bool() / (1 - dropout)


@pytest.mark.parametrize(
    "dtype, dropout, keys",
    [
        (torch.bfloat16, 0.0, 7),
        (torch.bfloat16, 0.4, 7),
        (torch.float16, 0.0, 7),
        (torch.float64, 0.0, 7),
        (torch.bfloat16, 0.0, LONGEST_IN_STEPS + 1),
    ],
)
def test_outputs_and_gradients_in_training(dtype, dropout, keys):
    inputs = queries_keys_values(dtype, keys=keys)
    bias = torch.randn(2, 1, 5, keys, dtype=dtype)
    kept = torch.ones(2, 3, 5, keys, dtype=torch.float64)
    if dropout > 0:
        torch.manual_seed(7)
        kept = kept_weights(kept.shape, dropout)
        assert 0.4 < kept.count_nonzero() / kept.numel() < 0.8
    torch.manual_seed(7)
    output = scaled_attention(*inputs, bias, dropout)
    factors = torch.randn_like(output)
    gradients = torch.autograd.grad((output * factors).sum(), inputs)

    exact = [x.detach().double().requires_grad_() for x in inputs]
    expected = by_hand(*exact, bias.double(), kept)
    expected_gradients = torch.autograd.grad((expected * factors.double()).sum(), exact)
    tolerance = {torch.float64: 1e-9, torch.float16: 1e-2, torch.bfloat16: 8e-2}[dtype]
    for found, wanted in zip([output, *gradients], [expected, *expected_gradients]):
        assert found.dtype == dtype
        assert (found - wanted).abs().max() <= tolerance * wanted.abs().max()


def test_when_steps_are_taken():
    def taken(dtype, keys=5):
        return steps_are_faster(*queries_keys_values(dtype, keys=keys))

    assert taken(torch.bfloat16) and not taken(torch.float16) and not taken(torch.float32)
    assert taken(torch.bfloat16, keys=LONGEST_IN_STEPS)
    assert not taken(torch.bfloat16, keys=LONGEST_IN_STEPS + 1)
    with torch.no_grad():
        assert not taken(torch.bfloat16)
    constants = [x.detach() for x in queries_keys_values(torch.bfloat16)]
    assert not steps_are_faster(*constants)
    with strict_device():
        on_device = [x.to(DEVICE).requires_grad_() for x in constants]
        assert not steps_are_faster(*on_device)
