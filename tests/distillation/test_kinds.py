"""Every encoder-decoder of fairseq as a teacher: its distributions are those of the model itself.

Each is compared with a second copy of the model, which fairseq loads and runs as it is, and with
sentences that stand alone.
"""

import pytest
import torch
from fairseq import checkpoint_utils

from pet_fairseq.distillation.criterion import PetDistillationConfig, PetDistillationCriterion
from pet_fairseq.distillation.outputs import run_model
from pet_fairseq.distillation.teacher import Teacher
from pet_fairseq.distillation.token_positions import real_positions
from pet_fairseq.errors import UserError
from pet_fairseq.nn.hooks import forward_hooks
from tests.kinds import KINDS, save_kind
from tests.translation import load_task, make_batch, make_model, make_task, select

LENGTHS = [7, 5, 4, 3]  # falling, as in fairseq's batches
UNMASKED = ["fconv_self_att"]  # fairseq's own forward does not mask padding in the source
ENSEMBLE = ["lstm", "transformer_align", "fconv", "adaptive softmax", "layerdrop"]


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data", max_source_positions=38, max_target_positions=38)


@pytest.fixture
def save(tmp_path, task):
    """Saves a model of a kind; returns its path."""

    def save(kind):
        torch.manual_seed(len(kind))
        return save_kind(tmp_path / f"{kind}.pt", task, KINDS[kind])

    return save


def student_of(task, dtype=torch.float32):
    return make_model(task)[0].to(dtype)


def ask(teacher, student, batch, temperature=1.0):
    at = real_positions(batch["target"], 1)
    return teacher.ask(student, batch, at).log_probs(slice(None), temperature)


def load(path, task, dtype=torch.float32):
    (model,), _ = checkpoint_utils.load_model_ensemble([path], task=task)
    return model.to(dtype).eval()


@torch.no_grad()
def own_log_probs(model, batch):
    """What the model itself says of the real target positions, a row each."""
    log_probs = model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)
    return torch.cat([log_probs[i, :length] for i, length in enumerate(LENGTHS)])


def right_padded(batch):
    """The same batch with the padding of the source behind the words."""
    source = batch["net_input"]["src_tokens"]
    rows = [row.roll(length) for row, length in zip(source, LENGTHS)]
    return {**batch, "net_input": {**batch["net_input"], "src_tokens": torch.stack(rows)}}


def assert_same(ours, theirs, tolerance=1e-5):
    torch.testing.assert_close(ours.double(), theirs.double(), atol=tolerance, rtol=tolerance)


# --- the distributions ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_distributions_are_the_models_own(kind, dtype, task, save):
    path = save(kind)
    teacher, student, own = Teacher(path, task), student_of(task, dtype), load(path, task, dtype)
    batch = make_batch(task, LENGTHS)
    expected = own_log_probs(own, batch)
    assert expected.shape == (sum(LENGTHS), 16)
    assert_same(expected.exp().sum(dim=1), torch.ones(sum(LENGTHS)))
    assert_same(ask(teacher, student, batch), expected)
    softened = torch.log_softmax(expected / 3, dim=1)
    assert_same(ask(teacher, student, batch, temperature=3.0), softened)
    # --left-pad-source, a switch that turns it off, gives a student such batches
    right = right_padded(batch)
    assert not torch.equal(right["net_input"]["src_tokens"], batch["net_input"]["src_tokens"])
    assert_same(ask(teacher, student, right), expected, 2e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in UNMASKED])
def test_padding_changes_nothing(kind, task, save):
    """In float64, so that other orders of additions do not hide a small difference."""
    path = save(kind)
    student = student_of(task, torch.float64)
    batch = make_batch(task, LENGTHS)
    together = ask(Teacher(path, task), student, batch)
    alone = [select(batch, [i], length) for i, length in enumerate(LENGTHS)]
    own = load(path, task, torch.float64)
    with torch.no_grad():
        each = [own.get_normalized_probs(own(**b["net_input"]), log_probs=True)[0] for b in alone]
    assert_same(together, torch.cat(each))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_dropped_and_nothing_of_it_is_trained_or_saved(kind, task, save):
    path = save(kind)
    own = load(path, task).train()
    batch = make_batch(task, LENGTHS)
    assert not torch.equal(own_log_probs(own, batch), own_log_probs(own, batch))  # it has dropout
    cfg = PetDistillationConfig(teacher_path=path, sentence_avg=False)
    criterion = PetDistillationCriterion.build_criterion(cfg, task).train()
    student = student_of(task)
    first, second = (ask(criterion.teacher, student, batch) for _ in range(2))
    assert torch.equal(first, second)
    criterion(student, batch)[0].backward()
    (teacher,) = criterion.teacher.models
    assert not any(module.training for module in teacher.modules())
    assert all(p.grad is None and not p.requires_grad for p in teacher.parameters())
    assert list(criterion.modules()) == [criterion] and criterion.state_dict() == {}


def test_layers_see_nothing_that_comes_later(task, save):
    """Whoever records them, as patient_kd does: also where alignments are taken from all words."""
    model, batch = load(save("full context"), task), make_batch(task, LENGTHS)
    net_input, kept = batch["net_input"], []
    with torch.no_grad():
        encoded = model.encoder(net_input["src_tokens"], net_input["src_lengths"])
        expected = model.decoder(net_input["prev_output_tokens"], encoded)[1]["inner_states"]
        with forward_hooks((model.decoder, lambda _m, _i, output: kept.append(output[1]))):
            run_model(model, net_input)
    for states in kept:
        for ours, theirs in zip(states["inner_states"], expected):
            torch.testing.assert_close(ours, theirs)
    assert kept


# --- ensembles ------------------------------------------------------------------------------------


def test_an_ensemble_of_kinds_is_the_mean_of_their_distributions(task, save):
    paths = [save(kind) for kind in ENSEMBLE]
    batch = make_batch(task, LENGTHS)
    ours = ask(Teacher(":".join(paths), task), student_of(task), batch, temperature=2.0)
    mean = torch.stack([own_log_probs(load(p, task), batch).exp() for p in paths]).mean(dim=0)
    expected = mean.sqrt() / mean.sqrt().sum(dim=1, keepdim=True)
    assert_same(ours.exp(), expected)


def test_an_ensemble_in_half_precision(task, save):
    """A Transformer's features are in the student's precision, log-probabilities in float32."""
    paths = [save(kind) for kind in ("lstm", "transformer_align", "layerdrop")]
    batch = make_batch(task, LENGTHS)
    ours = ask(Teacher(":".join(paths), task), student_of(task, torch.bfloat16), batch)
    models = [load(path, task, torch.bfloat16) for path in paths]
    mean = torch.stack([own_log_probs(model, batch).exp() for model in models]).mean(dim=0)
    assert ours.dtype == torch.float32
    assert_same(ours.exp(), mean, 2e-2)


def test_features_of_every_output_layer_are_kept(task, save):
    """That of `roberta_enc_dec` is a RoBERTa's head."""
    paths = ":".join(save(kind) for kind in ("roberta_enc_dec", "layerdrop", "projected output"))
    student, batch = student_of(task), make_batch(task, LENGTHS)
    teacher = Teacher(paths, task, cache_mb=1)
    first, second = (ask(teacher, student, batch) for _ in range(2))
    assert len(teacher.cache.features) == len(LENGTHS)
    assert torch.equal(first, second)
    assert_same(first, ask(Teacher(paths, task), student, batch))


# --- batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lstm", "fconv", "lightconv", "transformer_align"])
def test_batches_that_are_wider_than_their_longest_sentence(kind, task, save):
    """As --required-seq-len-multiple makes them."""
    path, student = save(kind), student_of(task)
    batch, wide = make_batch(task, LENGTHS), make_batch(task, LENGTHS, columns=12)
    expected = own_log_probs(load(path, task), batch)
    assert_same(ask(Teacher(path, task), student, wide), expected)


@pytest.mark.parametrize("kind", ["lstm", "fconv", "lightconv"])
def test_targets_padded_on_the_left(kind, task, save):
    path = save(kind)
    left = load_task(task.cfg.data, left_pad_target=True, max_source_positions=38)
    left.cfg.max_target_positions = 38
    with pytest.raises(UserError, match=f"^--left-pad-target: --teacher-path {path} holds "):
        Teacher(path, left)
    Teacher(save("layerdrop"), left)  # masks padding wherever it is
