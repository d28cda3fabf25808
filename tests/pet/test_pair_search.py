"""The search for pairs: candidates, tying by averages, the loss and the ranking."""

import copy
import itertools
import json
import math

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.pet.pair_plot import heat_maps, split_panels
from pet_fairseq.pet.pair_report import notes, read_stacks, to_json, to_markdown, write_files
from pet_fairseq.pet.pair_search import (
    CannotTieError,
    LeftOut,
    Measured,
    Search,
    all_losses,
    averaged,
    list_candidates,
    matched_layers,
    mean_and_error,
    mean_cosine,
    merge_groups,
    pair_candidates,
    saved_parameters,
    schemes,
    search,
    tied_tensors,
)
from pet_fairseq.pet.pairs import expand_preset
from tests.helpers import batch, build, dictionary, values


def plain(**options):
    """A Transformer of fairseq's in which nothing is shared."""
    return build(arch="transformer", **options).eval()


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


# --- candidates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (1, []),
        (2, [(1, 2)]),
        (3, [(1, 3)]),
        (5, [(1, 4), (2, 5)]),
        (6, [(1, 4), (2, 5), (3, 6)]),
    ],
)
def test_matched_layers(layers, expected):
    assert matched_layers(layers) == expected


def test_pairs_of_two_encoder_layers_by_hand():
    between = "L1=L2 Q1=Q2 K1=K2 V1=V2 Q1=K2 K1=Q2"
    inside = "Q1=K1 K1=V1 Q1=V1 Q2=K2 K2=V2 Q2=V2"
    found = pair_candidates("encoder", 2, "thesis")
    assert sorted(found) == sorted(f"{between} {inside}".split())


@pytest.mark.parametrize(
    ("stack", "layers", "which", "count"),
    [
        ("encoder", 6, "thesis", 15 + 3 * 5 + 6 * 3),
        ("encoder", 3, "thesis", 3 + 5 + 3 * 3),
        ("encoder", 1, "thesis", 3),
        ("decoder", 2, "thesis", 1 + 2 * 15),
        ("decoder", 6, "thesis", 15 + 6 * 15),
        ("encoder", 2, "all", 1 + 28),  # 8 projections
        ("encoder", 6, "all", 15 + 276),  # 24
        ("decoder", 2, "all", 1 + 120),  # 16
        ("decoder", 6, "all", 15 + 1128),  # 48
    ],
)
def test_number_of_pairs(stack, layers, which, count):
    found = pair_candidates(stack, layers, which)
    assert len(found) == len({frozenset(pair.split("=")) for pair in found}) == count
    if which == "all":
        assert {*pair_candidates(stack, layers, "thesis")} <= {*found}


def test_encoder_schemes_by_hand():
    assert schemes("encoder", 4) == {
        "layers": "L1=L3 L2=L4",
        "layers, crosswise Q-K": "L1=L3 L2=L4 Q1=K3 K1=Q3 Q2=K4 K2=Q4",
        "crosswise Q-K": "Q1=K3 K1=Q3 Q2=K4 K2=Q4",
        "Q-Q and K-K": "Q1=Q3 K1=K3 Q2=Q4 K2=K4",
        "Q-Q": "Q1=Q3 Q2=Q4",
        "K-K": "K1=K3 K2=K4",
        "V-V": "V1=V3 V2=V4",
        "Q=K": "Q=K",
        "K=V": "K=V",
        "Q=V": "Q=V",
        "Q=K Q=V": "Q=K Q=V",
    }
    assert schemes("encoder", 3)["crosswise Q-K"] == "Q1=K3 K1=Q3"
    assert [*schemes("encoder", 1)] == ["Q=K", "Q=V", "K=V", "Q=K Q=V"]


def test_decoder_schemes_by_hand():
    found = schemes("decoder", 6)
    slots = "Qself Kself Vself Qenc Kenc Venc".split()
    assert {f"{a}={b}" for a, b in itertools.combinations(slots, 2)} <= {*found}
    assert len(found) == 15 + 4 + 2 and len(schemes("decoder", 1)) == 15 + 2
    assert found["layers, Qself=Qenc"] == "L1=L4 L2=L5 L3=L6 Qself=Qenc"


@pytest.mark.parametrize("layers", [2, 4, 6])
@pytest.mark.parametrize(
    ("stack", "preset", "name"),
    [
        ("encoder", "pet", "layers, crosswise Q-K"),
        ("encoder", "layers", "layers"),
        ("decoder", "pet", "layers, Qself=Qenc"),
        ("decoder", "qk", "layers, Qself=Kself"),
        ("decoder", "kv", "layers, Kself=Vself Kenc=Venc"),
        ("decoder", "layers", "layers"),
    ],
)
def test_presets_are_among_the_schemes(stack, preset, name, layers):
    ours, theirs = schemes(stack, layers)[name], expand_preset(preset, stack, layers)
    assert sorted(ours.split()) == sorted(theirs.split())


def test_unknown_candidates_and_stacks():
    with pytest.raises(UserError, match="--candidates some: give one of thesis, all"):
        pair_candidates("encoder", 2, "some")
    for wrong in ("middle", "encoder,", "encoder,encoder", ""):
        with pytest.raises(UserError, match=f"--stacks {wrong}: give"):
            read_stacks(wrong)
    assert read_stacks("decoder, encoder") == ["decoder", "encoder"]


# --- tying ----------------------------------------------------------------------------------------


def test_average_of_a_pair_and_exact_restoration():
    model = plain()
    before = values(model)
    with averaged(tied_tensors(model.encoder.layers, "Q1=K3", "encoder")):
        inside = values(model)
    assert all(torch.equal(tensor, before[name]) for name, tensor in values(model).items())
    names = [f"encoder.layers.{layer}.self_attn.{p}_proj." for layer, p in ((0, "q"), (2, "k"))]
    for part in ("weight", "bias"):
        mean = (before[names[0] + part] + before[names[1] + part]) / 2
        for name in names:
            torch.testing.assert_close(inside.pop(name + part), mean, rtol=1e-6, atol=1e-7)
    assert all(torch.equal(tensor, before[name]) for name, tensor in inside.items())


def test_restoration_after_an_error():
    model = plain()
    before = values(model)
    with pytest.raises(KeyError), averaged(tied_tensors(model.decoder.layers, "L1=L3", "decoder")):
        raise KeyError
    assert all(torch.equal(tensor, before[name]) for name, tensor in values(model).items())


def test_group_of_three_is_averaged_over_the_group():
    model = plain()
    before = values(model)
    groups = tied_tensors(model.decoder.layers, "Qself2=Kself2 Qself2=Venc2", "decoder")
    names = [
        f"decoder.layers.1.{m}_proj." for m in "self_attn.q self_attn.k encoder_attn.v".split()
    ]
    with averaged(groups):
        inside = values(model)
    for part in ("weight", "bias"):
        total = sum(before[name + part].double() for name in names)
        for name in names:
            torch.testing.assert_close(inside[name + part], (total / 3).float(), rtol=0, atol=0)
    assert saved_parameters(groups) == 2 * (12 * 12 + 12)


def test_averages_of_equal_numbers_are_those_numbers():
    values = torch.rand(1000)
    group = [values.clone() for _ in range(3)]
    with averaged([group]):
        assert all(torch.equal(tensor, values) for tensor in group)


def test_groups_with_a_common_tensor_are_joined():
    a, b, c, d, e = torch.zeros(5, 1)
    groups = merge_groups([[a, b], [c, d], [e], [b, d]])
    expected = [{id(e)}, {id(t) for t in (a, b, c, d)}]
    assert [{id(t) for t in group} for group in groups] == expected


def test_cosine_by_hand():
    pair = [torch.tensor([[1.0, 0], [0, 0]]), torch.tensor([[1.0, 1], [0, 0]])]
    triple = [torch.eye(2), torch.eye(2), -torch.eye(2)]  # 1, -1, -1
    biases = [torch.ones(2), torch.ones(2)]
    assert mean_cosine([pair]) == pytest.approx(0.5**0.5)
    assert mean_cosine([triple]) == pytest.approx(-1 / 3)
    assert mean_cosine([pair, triple, biases]) == pytest.approx((0.5**0.5 - 1 / 3) / 2)


def test_slots_that_cannot_be_tied():
    wide = plain(encoder_embed_dim=12, decoder_embed_dim=18).decoder.layers
    assert tied_tensors(wide, "Kenc1=Venc1", "decoder")
    for pairs in ("Qself1=Kenc1", "Qself=Qenc Qself=Venc"):
        with pytest.raises(CannotTieError, match="shapes differ"):
            tied_tensors(wide, pairs, "decoder")
    alone = plain(no_cross_attention=True).decoder.layers
    with pytest.raises(CannotTieError, match="no such slot"):
        tied_tensors(alone, "Qself=Qenc", "decoder")
    student = build(encoder_pairs="pet", decoder_pairs="pet")
    for stack, pairs in (
        ("encoder", "Q1=K3"),
        ("encoder", "L1=L3"),
        ("encoder", "V1=V3"),
        ("decoder", "Qself3=Qenc1"),
        ("decoder", "Qself=Qenc"),
    ):
        with pytest.raises(CannotTieError, match="share already"):
            tied_tensors(getattr(student, stack).layers, pairs, stack)


def test_tying_in_a_student_moves_what_shares_with_the_pair():
    """Q1 is K3 and K1 is Q3 in this student: tying Q1 and K1 ties all four."""
    student = build(encoder_pairs="pet", decoder_pairs="pet")
    groups = tied_tensors(student.encoder.layers, "Q1=K1", "encoder")
    with averaged(groups):
        weights = [
            getattr(student.encoder.layers[i].self_attn, name).weight.clone()
            for i, name in itertools.product((0, 2), ("q_proj", "k_proj"))
        ]
    assert all(torch.equal(weight, weights[0]) for weight in weights)
    assert saved_parameters(groups) == 12 * 12 + 12


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
    with pytest.raises(UserError, match="--checkpoint: its loss is nan"):
        search(model, samples())


# --- report ---------------------------------------------------------------------------------------


def measured(stack, name, rise, saved, kind="scheme"):
    return Measured(stack, kind, name, name, rise, 0.01, 0.1, saved, saved / 10)


def example():
    rows = [
        measured("encoder", "V-V", -0.01, 5),
        measured("encoder", "Q=K", 0.1, 20),
        measured("encoder", "crosswise Q-K", 0.2, 10),
        measured("encoder", "layers", 0.3, 100),
    ]
    pairs = [
        measured("encoder", pair, i / 10, 5, "pair")
        for i, pair in enumerate("Q1=K3 L1=L3 Q2=K2 Q1=Q3".split())
    ]
    left = [LeftOut("decoder", "scheme", "Qself=Qenc", "Qself=Qenc", "share already")]
    return Search(1.5, 6, 28, {"encoder": 3, "decoder": 2}, [*rows, *pairs], left)


def test_notes_on_the_schemes_of_the_thesis():
    encoder, decoder, odd, left = notes(example())
    assert "crosswise Q-K, is number 3 of 4 schemes" in encoder
    assert "number 2 of the 3 that save as many" in encoder
    assert "Qself=Qenc, was not measured: share already" in decoder
    assert "3 layers is odd" in odd and "pair 1 with 3 and leave layer 2 alone" in odd
    assert left == "decoder: 1 candidate left out: share already"


def test_table_and_files(tmp_path):
    text = to_markdown(example(), "teacher.pt", "valid of bin")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("|")]
    best = [cell.strip() for cell in rows[2][1:-1]]
    assert best == ["1", "V-V", "-0.0100", "0.0100", "+0.100", "0.5", '"V-V"']
    write_files(tmp_path, text, to_json(example()), example())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pairs.json", "pairs.md", "pairs.png"]
    content = json.loads((tmp_path / "pairs.json").read_text())
    assert [m["rank"] for m in content["schemes"]] == [1, 2, 3, 4]
    assert len(content["pairs"]) == 4 and content["left_out"][0]["reason"] == "share already"
    assert (tmp_path / "pairs.png").read_bytes().startswith(b"\x89PNG")


def test_panels():
    panels = split_panels("encoder", example().ranked("encoder", "pair"))
    slots = [panel.slots for panel in panels]
    assert slots == [["L1", "L3"], ["Q1", "Q3", "K3"], ["Q2", "K2"]]
    drawn = heat_maps(example()).axes[2]  # after the first panel and its colour bar
    texts = {text.get_position(): text.get_text() for text in drawn.texts}
    assert texts == {(0, 0): "0.300", (0, 1): "0.000"}  # Q3 and K3 over Q1
    heat_maps(example()._replace(measured=[])).savefig("/dev/null", format="png")
