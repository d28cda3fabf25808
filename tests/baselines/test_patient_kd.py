"""The patient_kd criterion on real models, against loops over sentences and positions."""

import logging

import pytest
import torch
from fairseq.logging import metrics
from torch.testing import assert_close

from pet_fairseq.baselines.patient_kd import PatientKdConfig, PatientKdCriterion
from pet_fairseq.distillation.criterion import PetDistillationConfig, PetDistillationCriterion
from pet_fairseq.distillation.token_positions import real_positions
from pet_fairseq.errors import UserError
from pet_fairseq.nn.layers import STACKS
from tests.translation import make_batch, make_model, make_task, save_model

TEACHER = dict(encoder_embed_dim=24, decoder_embed_dim=16, encoder_layers=4, decoder_layers=6)
STUDENTS = {
    "other widths": dict(encoder_embed_dim=12, decoder_embed_dim=8),
    "one width differs": dict(encoder_embed_dim=24, decoder_embed_dim=8),
    "equal widths": dict(encoder_embed_dim=24, decoder_embed_dim=16),
    "one decoder layer": dict(encoder_embed_dim=12, decoder_embed_dim=8, decoder_layers=1),
}
TINY = {"ffn_embed_dim": 64, "attention_heads": 2}  # of transformer_tiny
EXPECTED_MAPS = {"encoder": [2, 3], "decoder": [3]}  # skip, 4 -> 3 and 6 -> 2


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


@pytest.fixture
def teacher_path(task, tmp_path):
    return save_model(tmp_path / "teacher.pt", task, **TEACHER)


def sizes(student):
    return dict(encoder_layers=3, decoder_layers=2) | STUDENTS[student]


def make(task, teacher_path, student="other widths", **options):
    """The criterion and a student, whose sizes fairseq gives to both."""
    given = dict(teacher_path=teacher_path, sentence_avg=False) | sizes(student) | options
    cfg = PatientKdConfig()
    for name, value in given.items():
        setattr(cfg, name, value)
    torch.manual_seed(5)
    criterion = PatientKdCriterion.build_criterion(cfg, task)
    return criterion, make_model(task, **sizes(student))[0]


def ragged_batch(task, columns=None):
    """Source lengths 7, 3, 4 and target lengths 2, 6, 5."""
    batch = make_batch(task, [2, 6, 5], columns)
    source = make_batch(task, [7, 3, 4], columns and columns + 1, seed=1)["net_input"]
    batch["net_input"] |= {name: source[name] for name in ("src_tokens", "src_lengths")}
    return batch


# --- the loss -------------------------------------------------------------------------------------


def run_by_hand(model, net_input):
    """States by stack as lists of T x B x C, and logits."""
    encoded = model.encoder(net_input["src_tokens"], return_all_hiddens=True)
    output, extra = model.decoder(net_input["prev_output_tokens"], encoded)
    return {"encoder": encoded["encoder_states"], "decoder": extra["inner_states"]}, output


def patience_by_loops(criterion, student, teacher, batch, layers):
    """For each stack: over layers, sentences and positions that are not padding."""
    pad = criterion.padding_idx
    tokens = {"encoder": batch["net_input"]["src_tokens"], "decoder": batch["target"]}
    means = []
    for stack, teacher_layers in layers.items():
        for j, layer in enumerate(teacher_layers):
            total, count = 0.0, 0
            for b, row in enumerate(tokens[stack].tolist()):
                for t, token in enumerate(row):
                    if token == pad:
                        continue
                    s, goal = student[stack][j + 1][t, b], teacher[stack][layer][t, b]
                    if stack in criterion.maps:
                        s = criterion.maps[stack][j].weight @ s
                    s, goal = s / s.pow(2).sum().sqrt(), goal / goal.pow(2).sum().sqrt()
                    total, count = total + (s - goal).pow(2).sum(), count + 1
            means.append((stack, total / count))
    by_stack = [[m for s, m in means if s == stack] for stack in layers]
    averages = [sum(found) / len(found) for found in by_stack if found]
    return sum(averages) / len(averages)


def other_terms_by_loops(student_logits, teacher_logits, batch, alpha, temperature, pad):
    """(1 - alpha) CE + alpha T^2 KL without label smoothing, summed over tokens."""
    total = 0.0
    for b, row in enumerate(batch["target"].tolist()):
        for t, gold in enumerate(row):
            if gold == pad:
                continue
            z, z_teacher = student_logits[b, t], teacher_logits[b, t]
            total = total - (1 - alpha) * z.log_softmax(-1)[gold]
            p, q = (x.div(temperature).softmax(-1) for x in (z, z_teacher))
            total = total + alpha * temperature**2 * (q * (q.log() - p.log())).sum()
    return total


@pytest.mark.parametrize("student", STUDENTS)
def test_loss_and_gradients_equal_loops(student, task, teacher_path):
    options = dict(distillation_alpha=0.3, distillation_temperature=2.0, label_smoothing=0.0)
    criterion, model = make(task, teacher_path, student, patience_weight=1.7, **options)
    criterion, model = criterion.double(), model.double()
    teacher = criterion.teacher.like(next(model.parameters()))[0]
    layers = EXPECTED_MAPS | ({"decoder": []} if student == "one decoder layer" else {})
    assert criterion.layers == layers
    batch = ragged_batch(task)

    loss, sample_size, log = criterion(model, batch)
    parameters = [*model.parameters(), *criterion.parameters()]
    found = torch.autograd.grad(loss, parameters)

    states, output = run_by_hand(model, batch["net_input"])
    with torch.no_grad():
        goals, teacher_output = run_by_hand(teacher, batch["net_input"])
    patience = patience_by_loops(criterion, states, goals, batch, layers)
    others = other_terms_by_loops(output, teacher_output, batch, 0.3, 2.0, criterion.padding_idx)
    assert sample_size == 13
    assert float(log["patience"]) / sample_size == pytest.approx(patience.item(), rel=1e-9)
    expected = others + 1.7 * 13 * patience
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert float(log["loss"]) == loss.item()
    for a, b in zip(found, torch.autograd.grad(expected, parameters), strict=True):
        assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_maps_exist_where_widths_differ(task, teacher_path):
    shapes = {}
    for student in STUDENTS:
        criterion, _ = make(task, teacher_path, student)
        shapes[student] = {name: tuple(p.shape) for name, p in criterion.named_parameters()}
    encoder = {f"maps.encoder.{j}.weight": (24, 12) for j in (0, 1)}
    assert shapes == {
        "other widths": encoder | {"maps.decoder.0.weight": (16, 8)},
        "one width differs": {"maps.decoder.0.weight": (16, 8)},
        "equal widths": {},
        "one decoder layer": encoder,
    }


def test_padding_does_not_matter(task, teacher_path):
    criterion, model = make(task, teacher_path)
    losses, grads = [], []
    for columns in (None, 11):
        model.zero_grad()
        loss, _, _ = criterion(model, ragged_batch(task, columns))
        loss.backward()
        losses.append(loss.item())
        grads.append([p.grad for p in model.parameters()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for a, b in zip(*grads):
        assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_states_of_padding_are_not_looked_at(task, teacher_path):
    criterion, model = make(task, teacher_path)
    batch = ragged_batch(task)
    states, _ = run_by_hand(model, batch["net_input"])
    goals, _ = run_by_hand(criterion.teacher.models[0], batch["net_input"])
    pad = criterion.padding_idx
    tokens = {"encoder": batch["net_input"]["src_tokens"], "decoder": batch["target"]}
    positions = {stack: real_positions(tokens[stack], pad) for stack in tokens}
    before = criterion.patience(states, goals, positions)
    for stack in tokens:
        for state in (*states[stack], *goals[stack]):
            state.data[tokens[stack].T.eq(pad)] = float("nan")
    assert torch.equal(criterion.patience(states, goals, positions), before)


def test_weight_0_is_pet_distillation(task, teacher_path):
    criterion, model = make(task, teacher_path, patience_weight=0.0)
    cfg = PetDistillationConfig(teacher_path=teacher_path, sentence_avg=False)
    plain = PetDistillationCriterion.build_criterion(cfg, task)
    batch = ragged_batch(task)
    (loss, size, log), (loss_, size_, log_) = criterion(model, batch), plain(model, batch)
    assert torch.equal(loss, loss_) and size == size_
    assert log.keys() - log_.keys() == {"patience"}


def test_each_model_runs_once_and_keeps_no_hook(task, teacher_path):
    criterion, model = make(task, teacher_path)
    runs = []
    (teacher,) = criterion.teacher.models
    stacks = [model.encoder, model.decoder, teacher.encoder, teacher.decoder]
    hooks = [m.register_forward_hook(lambda module, *_: runs.append(module)) for m in stacks]
    criterion(model, ragged_batch(task))
    assert sorted(map(id, runs)) == sorted(map(id, stacks))
    for hook in hooks:
        hook.remove()
    assert not any(m._forward_hooks for m in stacks)


def test_minimised_by_training(task, teacher_path):
    """With the maps among the trained parameters, as fairseq's trainer does."""
    criterion, model = make(task, teacher_path, patience_weight=5.0)
    before = [p.detach().clone() for p in criterion.parameters()]
    optimizer = torch.optim.Adam([*model.parameters(), *criterion.parameters()], lr=1e-2)
    batch, logged = ragged_batch(task), []
    for _ in range(15):
        optimizer.zero_grad()
        loss, _, log = criterion(model, batch)
        loss.backward()
        optimizer.step()
        logged.append(float(log["patience"]))
    assert logged[-1] < 0.5 * logged[0]
    assert all(not torch.equal(a, b) for a, b in zip(before, criterion.parameters()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype, task, teacher_path):
    criterion, model = make(task, teacher_path)
    exact = criterion(model, ragged_batch(task))[0].item()
    loss, _, _ = criterion.to(dtype)(model.to(dtype), ragged_batch(task))
    loss.backward()
    assert loss.item() == pytest.approx(exact, rel=0.05)
    for parameter in (*model.parameters(), *criterion.parameters()):
        assert torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize("arch", ["can_transformer", "pet_transformer_tiny"])
def test_other_students_of_this_package(arch, task, teacher_path):
    shape = dict(encoder_embed_dim=16, decoder_embed_dim=16, encoder_layers=2, decoder_layers=2)
    shape |= dict(encoder_ffn_embed_dim=16, decoder_ffn_embed_dim=16)
    criterion, _ = make(task, teacher_path, **shape)
    model, _ = make_model(task, arch, **shape)
    loss, _, _ = criterion(model, ragged_batch(task))
    loss.backward()
    assert all(p.grad is not None for p in (*model.parameters(), *criterion.parameters()))


def test_teachers_of_this_package(task, tmp_path):
    shape = dict(encoder_embed_dim=16, decoder_embed_dim=16, encoder_layers=4, decoder_layers=4)
    shape |= dict(encoder_ffn_embed_dim=16, decoder_ffn_embed_dim=16)
    for arch in ("can_transformer", "pet_transformer_tiny"):
        path = save_model(tmp_path / f"{arch}.pt", task, arch, **shape)
        criterion, model = make(task, path)
        loss, _, log = criterion(model, ragged_batch(task))
        loss.backward()
        assert criterion.layers == {"encoder": [2, 3], "decoder": [2]}
        assert float(log["kl"]) > 0 and float(log["patience"]) > 0


# --- state, log, options --------------------------------------------------------------------------


def test_state_holds_the_maps_and_nothing_of_the_teacher(task, teacher_path, caplog):
    criterion, _ = make(task, teacher_path)
    state = {name: tensor.clone() + 1 for name, tensor in criterion.state_dict().items()}
    assert list(state) == [name for name, _ in criterion.named_parameters()] and len(state) == 3
    criterion.load_state_dict(state, strict=True)
    assert all(torch.equal(criterion.state_dict()[name], state[name]) for name in state)
    criterion.load_state_dict(None, strict=True)  # the state of a criterion without parameters
    assert all(torch.equal(criterion.state_dict()[name], state[name]) for name in state)
    assert "no patience maps" in caplog.text


def test_logged_numbers(task, teacher_path, caplog):
    caplog.set_level(logging.INFO)
    criterion, model = make(task, teacher_path, distillation_temperature=2.0, patience_weight=3.0)
    logs = [criterion(model, ragged_batch(task))[2] for _ in range(2)]
    with metrics.aggregate() as aggregator:
        PatientKdCriterion.reduce_metrics([*logs, {"patience": 0.0, "ntokens": 13}])
    values = aggregator.get_smoothed_values()
    assert values["patience"] == pytest.approx(2 / 3 * float(logs[0]["patience"]) / 13, abs=1e-3)
    assert {"loss", "nll_loss", "ppl", "kl", "agreement"} <= values.keys()
    kl, patience = (float(logs[0][key]) / 13 for key in ("kl", "patience"))
    lines = [r.getMessage() for r in caplog.records if "first batch" in r.getMessage()]
    assert lines == [
        f"first batch, per token: distillation {0.5 * 4 * kl:.3f} nats (alpha T^2 KL), patience "
        f"term {3 * patience:.3f}; --patience-weight 3 sets their balance"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(patience_weight=-1.0), "--patience-weight -1: give 0 or more"),
        (dict(patience_weight=float("nan")), "--patience-weight nan: give 0 or more"),
        (dict(patience_layers="2,9"), "--patience-layers 2,9: .*9 is not one of .* 1..4"),
        (dict(patience_layers="2"), "--patience-layers 2: .*encoder has 3 layers, so list 2"),
        (dict(encoder_layers=None), "--encoder-layers: patient_kd must know it"),
        (dict(distillation_alpha=2.0), "--distillation-alpha 2.0"),
        (dict(teacher_path=""), "--teacher-path: missing"),
        (dict(teacher_cache_mb=5.0), "--teacher-cache-mb 5: .*leave the option out"),
    ],
)
def test_wrong_options(options, message, task, teacher_path):
    with pytest.raises(UserError, match=f"^({message})") as error:
        make(task, **{"teacher_path": teacher_path} | options)
    assert "\n" not in str(error.value)


def test_wrong_teachers(task, teacher_path, tmp_path):
    with pytest.raises(UserError, match=r"^--teacher-path .*one teacher, not an ensemble"):
        make(task, f"{teacher_path}:{teacher_path}")
    small = dict(encoder_embed_dim=16, decoder_embed_dim=16, decoder_out_embed_dim=16)
    path = save_model(tmp_path / "lstm.pt", task, "lstm", **small)
    with pytest.raises(UserError, match=r"^--teacher-path .*lstm\.pt: .*not LSTMModel"):
        make(task, path)


def test_wrong_students(task, teacher_path):
    criterion, _ = make(task, teacher_path)
    batch = ragged_batch(task)
    small = dict(encoder_embed_dim=16, decoder_embed_dim=16, decoder_out_embed_dim=16)
    small |= dict(encoder_hidden_size=16, decoder_hidden_size=16)
    with pytest.raises(UserError, match=r"^--arch: patient_kd needs a Transformer"):
        criterion(make_model(task, "lstm", **small)[0], batch)
    with pytest.raises(UserError, match=r"^--arch: .*--encoder-layers and --decoder-layers"):
        criterion(make_model(task, **sizes("other widths") | dict(encoder_layers=2))[0], batch)
    dropping, _ = make_model(task, **sizes("other widths"), decoder_layerdrop=0.2)
    with pytest.raises(UserError, match=r"^--decoder-layerdrop: patient_kd needs every layer"):
        criterion(dropping, batch)


def test_a_teacher_whose_forward_keeps_no_states(task, teacher_path, tmp_path):
    """transformer_align's: the same layers give the same patience."""
    plain, _ = make(task, teacher_path)
    tiny = {f"{s}_{name}": n for s in STACKS for name, n in TINY.items()}
    path = save_model(tmp_path / "align.pt", task, "transformer_align", **TEACHER, **tiny)
    aligned, student = make(task, path)
    weights = plain.teacher.models[0].state_dict()
    aligned.teacher.models[0].load_state_dict(weights)
    batch = ragged_batch(task)
    plain.maps.load_state_dict(aligned.maps.state_dict())
    found, expected = (c(student, batch)[2]["patience"] for c in (aligned, plain))
    assert_close(found, expected)
