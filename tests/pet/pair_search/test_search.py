"""The search for pairs: the loss and the ranking."""

import copy
import math

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.pet.pair_search.candidates import list_candidates
from pet_fairseq.pet.pair_search.report import notes
from pet_fairseq.pet.pair_search.search import (
    all_losses,
    mean_and_error,
    search,
)
from tests.helpers import batch, build, dictionary, plain, values


def samples():
    """Two fairseq batches with random gold words; no sentence fills its batch."""
    made = []
    for lengths in (((5, 2, 7, 4), (4, 6, 3, 6)), ((1, 3), (2, 7))):
        net_input = batch(*lengths)
        pad = net_input["prev_output_tokens"].eq(dictionary().pad())
        target = torch.randint(2, len(dictionary()), pad.shape).masked_fill(pad, dictionary().pad())
        made.append({"net_input": net_input, "target": target})
    return made


def reference_losses(model, batches):
    """-log p of every gold word as nested lists: one sentence at a time, unpadded, in float64."""
    model = copy.deepcopy(model).double().eval()
    pad = dictionary().pad()
    losses = []
    for sample in batches:
        sources, previous = (sample["net_input"][k] for k in ("src_tokens", "prev_output_tokens"))
        for source, prev, target in zip(sources, previous, sample["target"]):
            source, prev, target = (x[x != pad][None] for x in (source, prev, target))
            logits, _ = model(source, torch.tensor([source.size(1)]), prev)
            rows = [
                [math.exp(z - max(row)) for z in row]
                for row in logits[0].detach().double().tolist()
            ]
            losses.append(
                [-math.log(row[w] / sum(row)) for row, w in zip(rows, target[0].tolist())]
            )
    return losses


def reference_loss(model, batches):
    flat = [loss for sentence in reference_losses(model, batches) for loss in sentence]
    return sum(flat) / len(flat)


# --- loss -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(encoder_normalize_before=True, decoder_normalize_before=True),
        dict(encoder_embed_dim=12, decoder_embed_dim=18, encoder_layers=1, decoder_layers=3),
        dict(adaptive_softmax_cutoff="8"),
        dict(arch="pet_transformer"),
    ],
    ids=["post-norm", "pre-norm", "unequal", "adaptive softmax", "pet_transformer"],
)
def test_loss_equals_a_slow_reference(options):
    model, batches = build(**{"arch": "transformer"} | options).eval(), samples()
    found = all_losses(model, batches)
    if "adaptive_softmax_cutoff" in options:
        expected = adaptive_reference(model, batches)
    else:
        expected = [sum(sentence) for sentence in reference_losses(model, batches)]
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-5
    )


def adaptive_reference(model, batches):
    """fairseq's own loss of an adaptive softmax, sentence by sentence."""
    pad = dictionary().pad()
    sums = []
    for sample in batches:
        for i in range(len(sample["target"])):
            net_input = {name: tensor[i : i + 1] for name, tensor in sample["net_input"].items()}
            target = sample["target"][i]
            log_probs = model.get_normalized_probs(model(**net_input), log_probs=True)[0]
            words = [(t, w) for t, w in enumerate(target.tolist()) if w != pad]
            sums.append(-sum(log_probs[t, w].item() for t, w in words))
    return sums


def test_standard_error_by_hand():
    """With sentences of one length it is that of the mean of their means."""
    sums, tokens = torch.tensor([2.0, 6.0, 4.0]).double(), torch.tensor([2, 2, 2])
    mean, error = mean_and_error(sums, tokens)  # means 1, 3, 2
    assert mean == 2 and error == pytest.approx(1 / 3**0.5)
    assert mean_and_error(sums[:1], tokens[:1]) == (1, None)


def test_standard_error_is_the_spread_over_samples():
    """Against the spread of the mean over many drawings of 50 sentences of random lengths."""

    def draw():
        tokens = torch.randint(1, 20, (50,))
        return torch.randn(50).double() * tokens + 0.5 * tokens, tokens

    drawn = [mean_and_error(*draw()) for _ in range(2000)]
    spread = torch.tensor([mean for mean, _ in drawn]).std().item()
    assert sum(error for _, error in drawn) / len(drawn) == pytest.approx(spread, rel=0.08)


# --- search ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def searched():
    torch.manual_seed(1)
    model, batches = plain(), samples()
    before = values(model)
    found = search(model, batches)
    assert all(torch.equal(tensor, before[name]) for name, tensor in values(model).items())
    return model, batches, found


def by_pairs(found, stack):
    return {m.pairs: m for m in found.measured if m.stack == stack}


def test_every_candidate_is_measured_once(searched):
    found = searched[2]
    listed = [c for stack in ("encoder", "decoder") for c in list_candidates(stack, 4, "thesis")]
    assert sorted(m[:4] for m in found.measured) == sorted(listed) and not found.left_out
    assert found.sentences == 6 and found.tokens == 19 + 9
    assert [m.rise for m in found.measured] == sorted(m.rise for m in found.measured)


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_schemes_against_students_that_share_the_pairs(searched, stack):
    """A pet_transformer with the pairs and averaged weights has the loss and the size we say."""
    model, batches, found = searched
    loss, weights = reference_loss(model, batches), values(model)
    assert found.loss == pytest.approx(loss, abs=1e-5)
    for m in found.ranked(stack, "scheme"):
        pairs = {f"{s}_pairs": "none" for s in ("encoder", "decoder")} | {f"{stack}_pairs": m.pairs}
        student = build(**pairs)
        names = {}
        for name, parameter in student.named_parameters(remove_duplicate=False):
            names.setdefault(parameter, []).append(name)
        with torch.no_grad():
            for parameter, shared in names.items():
                parameter.copy_(sum(weights[n].double() for n in shared) / len(shared))
        assert m.rise == pytest.approx(reference_loss(student, batches) - loss, abs=1e-5), m.name
        stored = [sum(p.numel() for p in x.parameters()) for x in (model, student)]
        assert m.saved == stored[0] - stored[1], m.name
        layers = sum(p.numel() for p in getattr(model, stack).layers.parameters())
        assert m.saved_percent == pytest.approx(100 * m.saved / layers)


@pytest.mark.parametrize(
    ("stack", "pair", "paths"),
    [
        ("encoder", "Q1=K3", ("0.self_attn.q_proj", "2.self_attn.k_proj")),
        ("encoder", "Q2=V2", ("1.self_attn.q_proj", "1.self_attn.v_proj")),
        ("encoder", "L2=L3", ("1", "2")),
        ("decoder", "Qself3=Qenc3", ("2.self_attn.q_proj", "2.encoder_attn.q_proj")),
        ("decoder", "L1=L4", ("0", "3")),
    ],
)
def test_pairs_against_a_model_tied_by_hand(searched, stack, pair, paths):
    model, batches, found = searched
    tied = copy.deepcopy(model)
    left, right = (getattr(tied, stack).layers.get_submodule(path) for path in paths)
    matrices = []
    with torch.no_grad():
        for (_, a), (_, b) in zip(left.named_parameters(), right.named_parameters()):
            if a.dim() == 2:
                dot = sum(x * y for x, y in zip(a.flatten().tolist(), b.flatten().tolist()))
                matrices.append(dot / (a.double().norm() * b.double().norm()).item())
            mean = (a + b) / 2
            a.copy_(mean), b.copy_(mean)
    measured = by_pairs(found, stack)[pair]
    rises = [
        sum(after) - sum(before)
        for after, before in zip(*(reference_losses(m, batches) for m in (tied, model)))
    ]
    assert measured.rise == pytest.approx(sum(rises) / 28, abs=5e-6)
    assert abs(measured.rise) > 2e-5  # tying did something
    assert measured.cosine == pytest.approx(sum(matrices) / len(matrices), abs=1e-6)


@pytest.mark.parametrize(
    ("stack", "pair", "paths"),
    [
        ("encoder", "K1=Q2", ("0.self_attn.k_proj", "1.self_attn.q_proj")),
        ("decoder", "Vself2=Kenc2", ("1.self_attn.v_proj", "1.encoder_attn.k_proj")),
        ("encoder", "L1=L2", ("0", "1")),
    ],
)
def test_equal_slots_rank_first_without_a_rise(stack, pair, paths):
    """The gold words come as often as this model expects them, so that no other has less loss."""
    model = plain(encoder_layers=2, decoder_layers=2)
    for name, parameter in model.named_parameters():
        parameter.data *= 4 if "attn." in name else 1  # attention matters
    left, right = (getattr(model, stack).layers.get_submodule(path) for path in paths)
    right.load_state_dict(left.state_dict())
    found = search(model, [expected_by(model)], [stack], "all" if pair[0] == "K" else "thesis")
    equal = {pair} | ({"Q1=Q2", "K1=K2", "V1=V2"} if pair == "L1=L2" else set())
    ranked = found.ranked(stack, "pair")
    assert {m.pairs for m in ranked[: len(equal)]} == equal
    assert all(m.rise == 0 and m.cosine == pytest.approx(1) for m in ranked[: len(equal)])
    assert ranked[len(equal)].rise > 1e-6


def expected_by(model, times=100):
    """Sentences that come many times, with each gold word as often as the model expects it."""
    net_input = batch()
    probs = model.get_normalized_probs(model(**net_input), log_probs=False)  # B x T x V
    quantiles = (torch.arange(times) + 0.5) / times
    pad = net_input["prev_output_tokens"].eq(dictionary().pad())
    words = torch.searchsorted(probs.cumsum(-1), quantiles.expand(*pad.shape, times).contiguous())
    target = words.masked_fill(pad[..., None], dictionary().pad()).clamp(max=len(dictionary()) - 1)
    repeated = {name: tensor.repeat_interleave(times, dim=0) for name, tensor in net_input.items()}
    return {"net_input": repeated, "target": target.transpose(1, 2).flatten(0, 1)}


def test_unequal_widths_leave_out_and_count():
    model = plain(decoder_embed_dim=18, encoder_layers=2, decoder_layers=2)
    found = search(model, samples(), ["decoder"])
    # of Qself, Kself, Vself, Qenc against Kenc, Venc: 8 kinds in every layer, and as schemes
    assert len(found.left_out) == 8 * 2 + 8
    assert {c.reason for c in found.left_out} == {"shapes differ"}
    assert not any(
        m.name.count("enc") == 1 and m.name[-4:] in ("Kenc", "Venc") for m in found.measured
    )
    assert "decoder: 24 candidates left out: shapes differ" in notes(found)


def test_a_loss_that_is_no_number_is_refused():
    model = plain()
    model.decoder.layers[0].fc1.weight.data[0, 0] = math.nan
    with pytest.raises(UserError, match="CHECKPOINT: its loss is nan"):
        search(model, samples())
