"""Head scores against loops, and what the tool writes."""

import pytest
import torch

from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.checkpoints.saving import save_state
from pet_fairseq.nn.layers import attentions_of
from pet_fairseq.nn.parameter_counts import count_parameters
from pet_fairseq.pet.head_sampling import (
    best_heads,
    contribution_scores,
    head_magnitudes,
    head_norms,
    sample_heads,
    weight_scores,
)
from pet_fairseq.pet.heads import KEPT
from pet_fairseq.quantisation.packing import fairseq_state
from tests.helpers import batch, build
from tests.pet.test_heads import HEADS, WIDE
from tests.translation import make_model, make_task

PAD = 1


def sample(*lengths):
    inputs = batch(*lengths)
    target = inputs["prev_output_tokens"]
    return {"net_input": inputs, "target": target}


def test_norms_equal_loops():
    tokens, heads, head_dim, width = 7, 3, 4, 10
    context = torch.randn(tokens, heads * head_dim, dtype=torch.float64)
    weight = torch.randn(width, heads * head_dim, dtype=torch.float64)
    found = head_norms(context, weight, heads)
    for n in range(tokens):
        for h in range(heads):
            added = [
                sum(
                    context[n, h * head_dim + i] * weight[c, h * head_dim + i]
                    for i in range(head_dim)
                )
                for c in range(width)
            ]
            assert found[n, h].item() == pytest.approx(sum(x * x for x in added) ** 0.5)


def test_magnitudes_equal_loops():
    attention = attentions_of(build(**WIDE).encoder.layers)["self_attn"][0]
    for h, found in enumerate(head_magnitudes(attention)):
        expected = 0.0
        for linear in (attention.q_proj, attention.k_proj, attention.v_proj):
            for row in range(h * 3, h * 3 + 3):
                expected += linear.bias[row].abs() + linear.weight[row].abs().sum()
        assert found == pytest.approx(expected.item(), rel=1e-5)


def contribution_by_silencing(model, samples):
    """How far the output of each attention moves when one head is silenced, over real tokens."""
    outputs = {}

    def note(key):
        return lambda _module, _inputs, output: outputs.__setitem__(key, output[0])

    attentions = {
        (stack, name, i): attention
        for stack in KEPT
        for name, group in attentions_of(getattr(model, stack).layers).items()
        for i, attention in enumerate(group)
    }
    found = {key: torch.zeros(HEADS, dtype=torch.float64) for key in attentions}
    for (stack, name, i), attention in attentions.items():
        hook = attention.register_forward_hook(note((stack, name, i)))
        tokens = 0
        for item in samples:
            side = item["net_input"]["src_tokens"] if stack == "encoder" else item["target"]
            real = side.ne(PAD).T
            model(**item["net_input"])
            whole = outputs[stack, name, i][real]
            tokens += len(whole)
            for h in range(HEADS):
                mask = torch.ones(HEADS, attention.head_dim, dtype=torch.float64)
                mask[h] = 0
                attention._join_heads = lambda x, a=attention, m=mask: (
                    type(a)._join_heads(a, x) * m.flatten()
                )
                model(**item["net_input"])
                del attention._join_heads
                found[stack, name, i][h] += (
                    (whole - outputs[stack, name, i][real]).norm(dim=1).sum()
                )
        found[stack, name, i] /= tokens
        hook.remove()
    return found


@pytest.mark.parametrize("pairs", [("pet", "pet"), ("none", "none")])
def test_contribution_is_what_is_lost_without_the_head(pairs):
    model = build(encoder_pairs=pairs[0], decoder_pairs=pairs[1], **WIDE).double().eval()
    samples = [sample(), sample((3, 3), (2, 6))]
    with torch.no_grad():
        found = contribution_scores(model, samples, PAD)
        expected = contribution_by_silencing(model, samples)
    for (stack, name, i), values in expected.items():
        torch.testing.assert_close(found[stack][name][i], values, rtol=1e-6, atol=1e-9)


def test_padding_content_does_not_count():
    model = build(**WIDE).double().eval()
    one = sample((5, 5), (4, 4))
    narrow = contribution_scores(model, [one], PAD)
    wide = sample((5, 5), (4, 4))
    wide["net_input"]["src_tokens"] = torch.nn.functional.pad(
        one["net_input"]["src_tokens"], (3, 0), value=PAD
    )
    for name in ("prev_output_tokens",):
        wide["net_input"][name] = torch.nn.functional.pad(one["net_input"][name], (0, 2), value=PAD)
    wide["target"] = wide["net_input"]["prev_output_tokens"]
    padded = contribution_scores(model, [wide], PAD)
    for stack, groups in narrow.items():
        for name, values in groups.items():
            torch.testing.assert_close(padded[stack][name], values)


def test_only_contributions_tell_sharing_layers_apart():
    model = build(encoder_pairs="layers", decoder_pairs="layers", **WIDE).double().eval()
    weights = weight_scores(model)["encoder"]["self_attn"]
    assert torch.equal(weights[0], weights[2]) and not torch.equal(weights[0], weights[1])
    contributions = contribution_scores(model, [sample()], PAD)["encoder"]["self_attn"]
    assert not torch.allclose(contributions[0], contributions[2], rtol=1e-3)


def test_hooks_are_gone_afterwards():
    model = build(**WIDE).eval()
    contribution_scores(model, [sample()], PAD)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_best_heads():
    scores = torch.tensor([[0.1, 0.9, 0.5], [3.0, 1.0, 2.0], [1.0, 1.0, 1.0]])
    assert best_heads(scores, 2) == [[1, 2], [0, 2], [0, 1]]
    assert best_heads(scores, 3) == [[0, 1, 2]] * 3


@pytest.mark.parametrize(
    "options", [dict(no_cross_attention=True), dict(encoder_layers=0), dict(decoder_layers=0)]
)
def test_stacks_that_lack_an_attention(options, tmp_path):
    task = make_task(tmp_path / "data")
    options = WIDE | dict(encoder_pairs="none", decoder_pairs="none") | options
    model, args = make_model(task, "pet_transformer_tiny", **options)
    save_state(fairseq_state(model, args, task), tmp_path / "wide.pt")
    data, out = str(tmp_path / "data"), tmp_path / "cut.pt"
    sampled = sample_heads(str(tmp_path / "wide.pt"), data, heads=2, out=out, score="weight")
    model, _ = load_transformer(str(out), "FILE", data)
    assert count_parameters(model) == sampled.after
    assert sampled.after.layers < sampled.before.layers
