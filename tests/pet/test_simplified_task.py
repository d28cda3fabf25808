"""The four-class task against loops from the equations, and the criterion on real models."""

import logging
import math
from itertools import product

import pytest
import torch
from fairseq.data import FairseqDataset

from pet_fairseq.errors import UserError
from pet_fairseq.pet import simplified_task
from pet_fairseq.pet.simplified_task import (
    PetSimplifiedTaskConfig,
    PetSimplifiedTaskCriterion,
    class_log_probs,
    class_sums,
    judge,
    median_confidence,
    teacher_classes,
)
from tests.translation import WORDS, make_batch, make_model, make_task, save_model

# --- the equations --------------------------------------------------------------------------------


def softmax(logits):
    highest = max(logits)
    powers = [math.exp(z - highest) for z in logits]
    return [p / sum(powers) for p in powers]


def four_probs(logits, gold):
    """Eq. 3.1-3.3 in float64; what is left of 1 is summed from the other words."""
    p = softmax(logits)
    best = p.index(max(p))
    not_c = sum(x for w, x in enumerate(p) if w != best)
    not_r = sum(x for w, x in enumerate(p) if w != gold)
    c, r = p[best], p[gold]
    return [c * r, not_c * r, c * not_r, not_c * not_r]


def class_by_table(teacher_probs, gold, eps1, eps2):
    """Table 2, word for word."""
    top = max(teacher_probs)
    if teacher_probs.index(top) == gold:
        return 0 if top >= eps1 else 1
    return 2 if top >= eps2 else 3


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
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_loss_and_gradient_beside_certainty(gap, dtype):
    for gold_is_top, label in product((True, False), range(4)):
        check_loss_and_gradient(gap, gold_is_top, label, dtype)


def check_loss_and_gradient(gap, gold_is_top, label, dtype):
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


# --- the criterion --------------------------------------------------------------------------------


class Sentences(FairseqDataset):
    """A data set of fairseq's kind: random pairs of random lengths."""

    def __init__(self, task, size):
        self.task = task
        self.lengths = torch.randint(2, 9, (size,)).tolist()

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return index

    def size(self, index):
        return (self.lengths[index], self.lengths[index])

    def collater(self, indices):
        return make_batch(self.task, [self.lengths[i] for i in indices], seed=indices[0])


@pytest.fixture
def task(tmp_path):
    made = make_task(tmp_path / "data")
    made.datasets["train"] = Sentences(made, 120)
    return made


@pytest.fixture
def teacher_path(task, tmp_path):
    return save_model(tmp_path / "teacher.pt", task, encoder_embed_dim=32, decoder_embed_dim=32)


def make_criterion(task, teacher_path, **options):
    cfg = PetSimplifiedTaskConfig(
        teacher_path=teacher_path, sentence_avg=False, decoder_output_dim=64
    )
    for name, value in options.items():
        setattr(cfg, name, value)
    return PetSimplifiedTaskCriterion.build_criterion(cfg, task)


def logits_of(model, batch):
    model.eval()
    with torch.no_grad():
        return model(**batch["net_input"])[0].double()


def test_loss_equals_loops_over_real_tokens(task, teacher_path):
    """An untrained teacher is never sure: thresholds below its confidence make all classes."""
    criterion = make_criterion(task, teacher_path, confident_correct="auto", confident_wrong="auto")
    model, _ = make_model(task, "pet_transformer_tiny")
    batch = make_batch(task, [3, 7, 2, 6, 5], columns=9)
    loss, sample_size, log = criterion(model, batch)
    student = logits_of(model, batch)
    teacher = logits_of(criterion.teacher.models[0], batch).softmax(-1)
    eps1, eps2 = criterion.thresholds
    expected, shares = 0.0, [0] * 4
    for i, j in batch["target"].ne(task.target_dictionary.pad()).nonzero().tolist():
        gold = int(batch["target"][i, j])
        label = class_by_table(teacher[i, j].tolist(), gold, eps1, eps2)
        shares[label] += 1
        expected -= math.log(four_probs(student[i, j].tolist(), gold)[label])
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    assert sample_size == 23 and sum(shares) == 23
    assert [int(log[f"class{i}"]) for i in range(4)] == shares


@pytest.mark.parametrize("head", ["modelled", "project", "replace"])
def test_heads_train_the_model_and_leave_it_as_it_is(head, task, teacher_path):
    criterion = make_criterion(task, teacher_path, simplified_head=head)
    model, _ = make_model(task, "pet_transformer_tiny")
    before = dict(model.state_dict())
    batch = make_batch(task, [3, 7, 2, 6, 5])
    parameters = [*model.parameters(), *criterion.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss, _, log = criterion(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert int(log["class_correct"]) >= 20  # of 23
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in criterion.parameters())
    assert model.state_dict().keys() == before.keys()
    numbers = sum(p.numel() for p in criterion.parameters())
    assert numbers == {"modelled": 0, "project": 4 * 16 + 4, "replace": 4 * 64 + 4}[head]


def test_padding_enters_nothing(task, teacher_path):
    criterion = make_criterion(task, teacher_path)
    model, _ = make_model(task, "pet_transformer_tiny")
    model.eval()
    narrow = make_batch(task, [3, 7, 2])
    wide = make_batch(task, [3, 7, 2], columns=12)
    first, second = criterion(model, narrow), criterion(model, wide)
    assert first[0].item() == pytest.approx(second[0].item(), rel=1e-5)
    assert {k: int(v) for k, v in first[2].items() if k != "loss"} == {
        k: int(v) for k, v in second[2].items() if k != "loss"
    }


def test_thresholds_come_from_sentences_spread_over_the_training_set(
    task, teacher_path, monkeypatch
):
    monkeypatch.setattr(simplified_task, "SAMPLE_SENTENCES", 10)
    criterion = make_criterion(task, teacher_path, confident_wrong="auto")
    asked = []
    monkeypatch.setattr(Sentences, "__getitem__", lambda self, index: asked.append(index) or index)
    model, _ = make_model(task, "pet_transformer_tiny")
    criterion(model, make_batch(task, [3]))
    assert asked == list(range(0, 120, 12))
    assert criterion.thresholds[0] == 0.9 and 0 < criterion.thresholds[1] < 0.7
    criterion(model, make_batch(task, [3]))
    assert len(asked) == 10  # chosen once


def test_sentences_that_are_too_long_stay_out_of_the_sample(task, teacher_path):
    task.cfg.max_source_positions = task.cfg.max_target_positions = 4
    criterion = make_criterion(task, teacher_path)
    batches = list(criterion.sample_batches(torch.device("cpu")))
    assert max(batch["target"].size(1) for batch, _ in batches) == 4


def test_a_teacher_that_is_never_wrong_is_a_warning(task, teacher_path, caplog, monkeypatch):
    criterion = make_criterion(task, teacher_path, confident_correct="auto", confident_wrong="auto")

    def always_right(log_probs, target):
        return simplified_task.Judgement(log_probs.max(-1)[0], torch.ones_like(target).bool())

    monkeypatch.setattr(simplified_task, "judge", always_right)
    model, _ = make_model(task, "pet_transformer_tiny")
    with caplog.at_level(logging.INFO, "pet_fairseq"):
        loss, _, _ = criterion(model, make_batch(task, [3, 5]))
    assert math.isfinite(loss.item())
    assert criterion.thresholds[1] == 0.7
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 2 and all(w.startswith("--confident-wrong 0.7") for w in warnings)
    assert "confidently wrong 0.0%" in caplog.text


@pytest.mark.parametrize("value", ["0", "-0.1", "1.0001", "nan", "often", ""])
@pytest.mark.parametrize("name", ["confident_correct", "confident_wrong"])
def test_bad_thresholds(task, teacher_path, name, value):
    option = "--" + name.replace("_", "-")
    with pytest.raises(UserError, match=rf"{option} {value}.*up to 1, or auto"):
        make_criterion(task, teacher_path, **{name: value})


def test_bad_options(task, teacher_path, tmp_path):
    with pytest.raises(UserError, match="--teacher-path: missing"):
        make_criterion(task, "")
    with pytest.raises(UserError, match="--simplified-head replace: needs a Transformer"):
        make_criterion(task, teacher_path, simplified_head="replace", decoder_output_dim=None)
    other = make_task(tmp_path / "other", [*WORDS, "more"])
    with pytest.raises(UserError, match="made with another dictionary"):
        make_criterion(other, teacher_path)
