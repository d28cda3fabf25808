"""The criterion of the four-class task on real models."""

import logging
import math

import pytest
import torch
from fairseq.data import FairseqDataset

from pet_fairseq.errors import UserError
from pet_fairseq.pet import simplified_task
from pet_fairseq.pet.simplified_task import (
    PetSimplifiedTaskConfig,
    PetSimplifiedTaskCriterion,
)
from tests.pet.equations import class_by_table, four_probs
from tests.translation import WORDS, make_batch, make_model, make_task, save_model


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

    def num_tokens(self, index):
        return self.lengths[index]

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
    assert sorted(asked) == list(range(0, 120, 12))
    assert criterion.thresholds[0] == 0.9 and 0 < criterion.thresholds[1] < 0.7
    criterion(model, make_batch(task, [3]))
    assert len(asked) == 10  # chosen once


@pytest.mark.parametrize("size", [7, 10, 19, 25])
def test_the_sample_spans_the_whole_set(size, task, teacher_path, monkeypatch):
    monkeypatch.setattr(simplified_task, "SAMPLE_SENTENCES", 10)
    task.datasets["train"] = Sentences(task, size)
    criterion = make_criterion(task, teacher_path)
    asked = []
    monkeypatch.setattr(Sentences, "__getitem__", lambda self, index: asked.append(index) or index)
    criterion(make_model(task, "pet_transformer_tiny")[0], make_batch(task, [3]))
    asked.sort()  # they are read by length
    steps = [after - before for before, after in zip(asked, [*asked[1:], size])]
    assert len(asked) == min(size, 10) and asked[0] == 0
    assert max(steps) - min(steps) <= 1


def test_the_sample_is_from_the_training_set(task, teacher_path, caplog):
    """fairseq-train loads validation sets first, and --train-subset may have any name."""
    task.datasets = {"valid": Sentences(task, 4), "news": Sentences(task, 6)}
    criterion = make_criterion(task, teacher_path)
    with caplog.at_level(logging.INFO, "pet_fairseq"):
        criterion(make_model(task, "pet_transformer_tiny")[0], make_batch(task, [3]))
    tokens = sum(task.datasets["news"].lengths)
    assert f"the teacher on {tokens} tokens of the set news: " in caplog.text


def test_the_training_set_need_not_be_loaded_last(task, teacher_path, caplog):
    """With --valid-subset train,valid fairseq-train loads both before."""
    task.datasets = {"train": Sentences(task, 6), "valid": Sentences(task, 4)}
    task.cfg.train_subset = "train"  # as in a training
    criterion = make_criterion(task, teacher_path)
    with caplog.at_level(logging.INFO, "pet_fairseq"):
        criterion(make_model(task, "pet_transformer_tiny")[0], make_batch(task, [3]))
    assert f"{sum(task.datasets['train'].lengths)} tokens of the set train: " in caplog.text


def test_the_sample_is_from_the_first_of_several_folders(task, teacher_path, caplog, monkeypatch):
    """Also where a training is resumed in another one, which stays loaded."""
    shards = [Sentences(task, 6), Sentences(task, 9)]
    task.cfg.data, task.cfg.train_subset = "first:second", "train"

    def load(subset, epoch, combine):
        task.datasets[subset] = shards[(epoch - 1) % 2]

    monkeypatch.setattr(task, "load_dataset", load)
    task.datasets = {"train": shards[1]}
    criterion = make_criterion(task, teacher_path, confident_correct="auto")
    with caplog.at_level(logging.INFO, "pet_fairseq"):
        criterion(make_model(task, "pet_transformer_tiny")[0], make_batch(task, [3]))
    assert f"the teacher on {sum(shards[0].lengths)} tokens of the set train: " in caplog.text
    assert task.datasets == {"train": shards[1]}


def test_the_sample_is_judged_in_small_batches_and_chunks(task, teacher_path, monkeypatch):
    criterion = make_criterion(task, teacher_path, confident_correct="auto", confident_wrong="auto")
    model, _ = make_model(task, "pet_transformer_tiny")
    longest = max(task.dataset("train").lengths)
    monkeypatch.setattr(simplified_task, "SAMPLE_TOKENS", 2 * longest)
    whole = criterion.choose_thresholds(model)
    monkeypatch.setattr(simplified_task.ChunkSize, "on", lambda self, device: 3)
    batches = list(criterion.sample_batches(task.datasets["train"], torch.device("cpu")))
    assert max(batch["target"].numel() for batch, _ in batches) <= 2 * longest
    assert sum(len(batch["target"]) for batch, _ in batches) == len(task.dataset("train"))
    judgements = criterion.judge_sample(model, task.datasets["train"])
    sizes = [len(judgement.top) for judgement in judgements]
    assert max(sizes) == 3 and sum(sizes) == sum(len(at[0]) for _, at in batches)
    assert criterion.choose_thresholds(model) == pytest.approx(whole, abs=1e-6)


def test_students_without_an_output_layer_for_the_new_one(task, teacher_path):
    criterion = make_criterion(task, teacher_path, simplified_head="replace")
    adaptive, _ = make_model(task, adaptive_softmax_cutoff="8")
    for student in (make_model(task, "lstm")[0], adaptive):
        with pytest.raises(UserError, match=r"^--simplified-head replace: needs a Transformer"):
            criterion(student, make_batch(task, [3, 5]))
    criterion = make_criterion(task, teacher_path)
    with pytest.raises(UserError, match=r"^--adaptive-softmax-cutoff: a student"):
        criterion(adaptive, make_batch(task, [3, 5]))


def test_sentences_that_are_too_long_stay_out_of_the_sample(task, teacher_path):
    task.cfg.max_source_positions = task.cfg.max_target_positions = 4
    criterion = make_criterion(task, teacher_path)
    batches = list(criterion.sample_batches(task.datasets["train"], torch.device("cpu")))
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
