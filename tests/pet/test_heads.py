"""Kept heads: the cut model equals the wide one with the other heads silenced."""

import copy

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.nn.layers import attentions_of
from pet_fairseq.nn.parameter_counts import count_parameters
from pet_fairseq.pet.heads import KEPT, cut_heads, format_heads, parse_heads
from tests.helpers import batch, build

HEADS = 5
WIDE = {
    f"{stack}_{name}": value
    for stack in ("encoder", "decoder")
    for name, value in (("attention_heads", HEADS), ("head_dim", 3))
}
PRESETS = [("pet", "pet"), ("layers", "qk"), ("layers", "kv"), ("none", "none"), ("pet", "layers")]


def draw_heads(layers=4, low=1, high=HEADS):
    """Random kept heads of every attention; layers that share parameters draw their own."""
    return {
        stack: {
            attention: [
                sorted(torch.randperm(HEADS)[: torch.randint(low, high + 1, ())].tolist())
                for _ in range(layers)
            ]
            for attention in KEPT[stack].values()
        }
        for stack in KEPT
    }


def cut(model, kept):
    model = copy.deepcopy(model)
    for stack, groups in kept.items():
        cut_heads(attentions_of(getattr(model, stack).layers), groups)
    return model


def silence_others(model, kept):
    """Hooks that put zeros in place of what a head that is not kept gives to the output layer."""
    for stack, groups in kept.items():
        for name, group in attentions_of(getattr(model, stack).layers).items():
            for attention, heads in zip(group, groups[name]):
                mask = torch.zeros(HEADS, attention.head_dim)
                mask[heads] = 1
                # the output projection may belong to two layers: mask before it, per attention
                attention._join_heads = lambda x, a=attention, m=mask: (
                    type(a)._join_heads(a, x) * m.flatten()
                )
    return model


def logits(model, inputs):
    return model(**inputs)[0]


@pytest.mark.parametrize("pairs", PRESETS, ids="-".join)
@pytest.mark.parametrize("seed", [1, 2])
def test_cut_model_equals_a_mask(pairs, seed):
    model = build(encoder_pairs=pairs[0], decoder_pairs=pairs[1], seed=seed, **WIDE).double().eval()
    kept = draw_heads()
    inputs = batch()
    small = cut(model, kept)
    masked = silence_others(copy.deepcopy(model), kept)
    torch.testing.assert_close(logits(small, inputs), logits(masked, inputs), rtol=1e-9, atol=1e-9)
    small.make_generation_fast_()
    torch.testing.assert_close(logits(small, inputs), logits(masked, inputs), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("pairs", PRESETS, ids="-".join)
@pytest.mark.parametrize("fast", [False, True])
def test_incremental_equals_full_decoding(pairs, fast):
    model = build(encoder_pairs=pairs[0], decoder_pairs=pairs[1], **WIDE).double().eval()
    small = cut(model, draw_heads())
    if fast:
        small.make_generation_fast_()
    inputs = batch()
    full = logits(small, inputs)
    encoder_out = small.encoder(inputs["src_tokens"], inputs["src_lengths"])
    state, previous = {}, inputs["prev_output_tokens"]
    for t in range(previous.size(1)):
        step, _ = small.decoder(previous[:, : t + 1], encoder_out, incremental_state=state)
        real = previous[:, t].ne(1)
        torch.testing.assert_close(step[real, 0], full[real, t], rtol=1e-9, atol=1e-9)
    for key, cache in state.items():
        if key.endswith("attn_state"):
            assert cache["prev_key"].size(1) <= HEADS
    heads = [a.num_heads for g in attentions_of(small.decoder.layers).values() for a in g]
    caches = [c["prev_key"].size(1) for k, c in state.items() if k.endswith("attn_state")]
    assert sorted(caches) == sorted(heads)


def test_gradients_equal_those_of_a_mask():
    model = build(**WIDE).double()
    kept, inputs = draw_heads(low=2, high=3), batch()
    small, masked = cut(model, kept), silence_others(copy.deepcopy(model), kept)
    for m in (small, masked):
        logits(m, inputs).square().sum().backward()
    for stack in KEPT:
        attentions = attentions_of(getattr(small, stack).layers)
        wide = attentions_of(getattr(masked, stack).layers)
        for name, group in attentions.items():
            for ours, theirs in zip(group, wide[name]):
                a, b = ours.v_proj.weight.grad, theirs.v_proj.weight.grad
                used = b.abs().sum(1) > 0  # rows of heads that some layer keeps
                torch.testing.assert_close(a, b[used], rtol=1e-9, atol=1e-9)


def stored_by_hand(kept, pairs_of_layers):
    """Numbers in the attentions of 4 encoder layers of width 12 and heads of 3."""
    total = 0
    for first, second in pairs_of_layers:
        heads = len(set(kept[first]) | set(kept[second]))
        total += 3 * (12 + 1) * 3 * heads + 12 * 3 * heads + 12
    return total


def test_counts_of_stored_and_active_parameters():
    kept = draw_heads(low=2, high=3)["encoder"]
    options = {"encoder_kept_heads": format_heads(kept["self_attn"])}
    model = build(encoder_pairs="pet", **WIDE, **options)
    attention_numbers = {
        id(p): p.numel() for i in range(4) for p in model.encoder.layers[i].self_attn.parameters()
    }
    heads = kept["self_attn"]
    assert sum(attention_numbers.values()) == stored_by_hand(heads, [(0, 2), (1, 3)])
    every = build(encoder_pairs="pet", **WIDE)
    active = sum((HEADS - len(h)) * (3 * 13 * 3 + 12 * 3) for h in heads)
    difference = count_parameters(every).unshared_layers - count_parameters(model).unshared_layers
    assert difference == active


def test_options_build_the_cut_model():
    kept = draw_heads()
    model = build(**WIDE)
    small = cut(model, kept)
    again = build(
        encoder_kept_heads=format_heads(kept["encoder"]["self_attn"]),
        decoder_kept_heads=format_heads(kept["decoder"]["self_attn"]),
        decoder_kept_cross_heads=format_heads(kept["decoder"]["encoder_attn"]),
        **WIDE,
    )
    state = small.state_dict()
    assert {n: t.shape for n, t in again.state_dict().items()} == {
        n: t.shape for n, t in state.items()
    }
    again.load_state_dict(state, strict=True)
    again.eval()
    small.eval()
    inputs = batch()
    assert torch.equal(logits(again, inputs), logits(small, inputs))


def test_format_is_what_is_parsed():
    for _ in range(20):
        kept = draw_heads()["encoder"]["self_attn"]
        assert parse_heads(format_heads(kept), "--x", 4, HEADS) == kept


@pytest.mark.parametrize(
    "spec, reason",
    [
        ("1/1/1", "lists for 3 layers, but there are 4"),
        ("1/1/1/6", r"head 6 is not one of 1\.\.5"),
        ("1/1/1/0", r"head 0 is not one of 1\.\.5"),
        ("1/1//1", "'' is not a list of heads"),
        ("1/a/1/1", "'a' is not a list of heads"),
        ("1/2,2/1/1", "2,2 names a head twice"),
    ],
)
@pytest.mark.parametrize(
    "name", ["encoder_kept_heads", "decoder_kept_heads", "decoder_kept_cross_heads"]
)
def test_bad_lists(spec, reason, name):
    with pytest.raises(UserError, match=f"--{name.replace('_', '-')} .*{reason}"):
        build(**WIDE, **{name: spec})


def test_no_cut_along_two_sides_of_one_matrix():
    square = {"encoder_attention_heads": 4, "encoder_head_dim": 3}
    with pytest.raises(UserError, match="a pair joins O with Q, K or V"):
        build(encoder_pairs="O1=Q2", encoder_kept_heads="1/1/1/1", **square)
