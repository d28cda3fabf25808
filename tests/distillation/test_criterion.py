"""The criterion `pet_distillation` on real models."""

import logging
import math

import pytest
import torch
from fairseq.logging import meters, metrics
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask

from pet_fairseq.distillation import chunks
from pet_fairseq.distillation.criterion import PetDistillationConfig, PetDistillationCriterion
from pet_fairseq.distillation.loss import TokenSums
from pet_fairseq.distillation.token_positions import real_positions
from pet_fairseq.errors import UserError
from tests.translation import WORDS, make_batch, make_model, make_task, save_model, select


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


@pytest.fixture
def teacher_path(task, tmp_path):
    return save_model(tmp_path / "teacher.pt", task, encoder_embed_dim=32, decoder_embed_dim=32)


def make_criterion(task, teacher_path, **options):
    cfg = PetDistillationConfig(teacher_path=teacher_path, sentence_avg=False)
    for name, value in options.items():
        setattr(cfg, name, value)
    return PetDistillationCriterion.build_criterion(cfg, task)


def test_padding_enters_nothing(task, teacher_path):
    """A batch gives what its sentences give alone, and what a wider padded batch gives."""
    criterion = make_criterion(task, teacher_path, distillation_temperature=2.0)
    model, _ = make_model(task, "pet_transformer_tiny")

    def run(batches):
        model.zero_grad()
        logs = []
        for batch in batches:
            loss, _, log = criterion(model, batch)
            loss.backward()
            logs.append(log)
        keys = ("loss", "nll_loss", "kl", "agreement", "compared", "ntokens")
        return [sum(float(log[k]) for log in logs) for k in keys], [
            p.grad.clone() for p in model.parameters()
        ]

    lengths = [3, 7, 5]
    batch = make_batch(task, lengths)
    sums, grads = run([batch])
    alone = run([select(batch, slice(i, i + 1), n) for i, n in enumerate(lengths)])
    wide = run([make_batch(task, lengths, columns=12)])
    for other_sums, other_grads in (alone, wide):
        assert other_sums == pytest.approx(sums, rel=1e-4)
        for a, b in zip(grads, other_grads):
            torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3)
    assert sums[4] == sum(lengths)


def test_teacher_is_frozen_and_not_part_of_the_criterion(task, tmp_path):
    path = save_model(tmp_path / "teacher.pt", task, encoder_layers=1)
    state = torch.load(path)  # safely: the package allows its types
    state["cfg"]["model"].dropout = 0.5  # must not be active
    torch.save(state, path)
    criterion = make_criterion(task, path)
    model, _ = make_model(task)
    criterion.train()
    batch = make_batch(task, [4, 6])
    first, second = (criterion(model, batch)[2]["kl"] for _ in range(2))
    assert torch.equal(first, second)
    assert list(criterion.parameters()) == [] and criterion.state_dict() == {}
    criterion(model, batch)[0].backward()
    (teacher,) = criterion.teacher.models
    assert not teacher.training
    assert all(p.grad is None and not p.requires_grad for p in teacher.parameters())
    assert not {id(p) for p in model.parameters()} & {id(p) for p in teacher.parameters()}


def test_teacher_follows_the_students_dtype(task, teacher_path):
    criterion = make_criterion(task, teacher_path)
    model, _ = make_model(task, "pet_transformer_tiny")
    exact = criterion(model, make_batch(task, [5, 3]))[0].item()
    for dtype in (torch.bfloat16, torch.float16):
        loss, _, _ = criterion(model.to(dtype), make_batch(task, [5, 3]))
        loss.backward()
        assert next(criterion.teacher.models[0].parameters()).dtype == dtype
        assert loss.item() == pytest.approx(exact, rel=0.05)
        assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize(
    ("student", "teacher"), [("lstm", "transformer_tiny"), ("transformer_tiny", "lstm")]
)
def test_other_architectures(student, teacher, task, tmp_path):
    """Models without a Transformer decoder take part through their log-probabilities."""
    small = {"encoder_embed_dim": 16, "decoder_embed_dim": 16, "decoder_out_embed_dim": 16}
    small |= {"encoder_hidden_size": 16, "decoder_hidden_size": 16, "encoder_dropout_in": 0.0}
    path = save_model(tmp_path / "t.pt", task, teacher, **(small if teacher == "lstm" else {}))
    criterion = make_criterion(task, path, distillation_alpha=1.0, label_smoothing=0.0)
    model, _ = make_model(task, student, **(small if student == "lstm" else {}))
    model.eval()
    batch = make_batch(task, [4, 4])
    loss, _, log = criterion(model, batch)
    log_probs = model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)
    other = criterion.teacher.models[0]
    teacher_probs = other.get_normalized_probs(other(**batch["net_input"]), log_probs=False)
    expected = (teacher_probs * (teacher_probs.log() - log_probs)).sum()
    torch.testing.assert_close(log["kl"], expected.detach(), rtol=1e-4, atol=1e-5)
    loss.backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_alpha_0_equals_fairseqs_criterion(task, teacher_path):
    from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion

    batch = make_batch(task, [3, 6, 4])
    model, _ = make_model(task, "pet_transformer_tiny")
    for sentence_avg in (False, True):
        for prefix in (0, 2):
            ours = make_criterion(
                *(task, teacher_path),
                distillation_alpha=0.0,
                ignore_prefix_size=prefix,
                report_accuracy=True,
            )
            ours.sentence_avg = sentence_avg
            theirs = LabelSmoothedCrossEntropyCriterion(task, sentence_avg, 0.1, prefix, True)
            (loss, size, log), (loss_, size_, log_) = ours(model, batch), theirs(model, batch)
            assert loss.item() == pytest.approx(loss_.item(), rel=1e-5)
            assert size == size_
            for key in ("nll_loss", "n_correct", "total", "ntokens", "nsentences"):
                assert float(log[key]) == pytest.approx(float(log_[key]), rel=1e-5), key


def test_logged_numbers():
    logs = [
        {"loss": 20.0, "nll_loss": 10.0, "ntokens": 4, "sample_size": 4, "kl": 3.0}
        | {"agreement": 3, "compared": 4},
        {"loss": 10.0, "nll_loss": 8.0, "ntokens": 6, "sample_size": 6, "kl": 1.0}
        | {"agreement": 3, "compared": 6},
    ]
    with metrics.aggregate() as aggregator:
        PetDistillationCriterion.reduce_metrics(logs)
    values = aggregator.get_smoothed_values()
    assert values["loss"] == pytest.approx(30 / 10 / math.log(2), abs=1e-3)
    assert values["nll_loss"] == pytest.approx(18 / 10 / math.log(2), abs=1e-3)
    assert values["ppl"] == pytest.approx(math.exp(1.8), abs=0.01)
    assert values["kl"] == pytest.approx(4 / 10 / math.log(2), abs=1e-3)
    assert values["agreement"] == pytest.approx(60.0)
    assert isinstance(aggregator["kl"], meters.AverageMeter)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"teacher_path": "none.pt"}, r"--teacher-path none.pt: no such file"),
        ({"teacher_path": ""}, r"--teacher-path: missing"),
        ({"teacher_path": "a.pt:"}, r"--teacher-path a.pt:: a checkpoint beside ':' is missing"),
        ({"distillation_alpha": 1.5}, r"--distillation-alpha 1.5: .*0 to 1"),
        ({"distillation_temperature": 0}, r"--distillation-temperature 0: .*above 0"),
        ({"label_smoothing": 1.0}, r"--label-smoothing 1.0"),
    ],
)
def test_wrong_options(options, message, task, teacher_path):
    with pytest.raises(UserError, match=message):
        make_criterion(task, **{"teacher_path": teacher_path, **options})


def test_teacher_with_another_dictionary(task, tmp_path, caplog):
    swapped = make_task(tmp_path / "swapped", [*WORDS[:3], "other", *WORDS[4:]])
    path = save_model(tmp_path / "swapped.pt", swapped)
    files = f"{tmp_path}/swapped/dict.de.txt and {tmp_path}/data/dict.de.txt"
    with pytest.raises(UserError, match=rf"{files} differ: entry 7 is 'other' against 'w3'"):
        make_criterion(task, path)
    larger = make_task(tmp_path / "larger", [*WORDS, "more"])
    path = save_model(tmp_path / "larger.pt", larger)
    with pytest.raises(UserError, match="17 words against 16"):
        make_criterion(task, path)
    for name in ("larger", "swapped"):  # the folders are gone: only the sizes can be compared
        for file in (tmp_path / name).iterdir():
            file.unlink()
    with pytest.raises(UserError, match="17 words against 16"):
        make_criterion(task, path)
    with caplog.at_level(logging.WARNING):
        make_criterion(task, str(tmp_path / "swapped.pt"))
    assert "cannot compare dictionaries" in caplog.text


def test_teacher_that_reads_less(task, tmp_path):
    path = save_model(tmp_path / "short.pt", task, max_source_positions=20)
    with pytest.raises(
        UserError, match=r"--max-source-positions 1024.*give --max-source-positions 20"
    ):
        make_criterion(task, path)


def test_students_with_an_adaptive_softmax_are_refused(task, tmp_path):
    """As a teacher such a model is fine."""
    adaptive = dict(adaptive_softmax_cutoff="8")
    path = save_model(tmp_path / "teacher.pt", task, **adaptive)
    criterion = make_criterion(task, path)
    batch = make_batch(task, [4, 6])
    criterion(make_model(task)[0], batch)[0].backward()
    with pytest.raises(UserError, match=r"^--adaptive-softmax-cutoff: a student .*leave the opt"):
        criterion(make_model(task, **adaptive)[0], batch)


def test_language_models_are_refused(task, teacher_path, tmp_path):
    (tmp_path / "lm").mkdir()
    task.target_dictionary.save(str(tmp_path / "lm/dict.txt"))
    lm_task = LanguageModelingTask.setup_task(LanguageModelingConfig(data=str(tmp_path / "lm")))
    sizes = dict(decoder_layers=1, max_target_positions=1024)
    path = save_model(tmp_path / "lm/lm.pt", lm_task, "transformer_lm", **sizes)
    with pytest.raises(UserError, match=f"^--teacher-path {path}: not an encoder-decoder; "):
        make_criterion(task, path)
    for teacher in (path, teacher_path):
        with pytest.raises(UserError, match=r"^--task: gives no pairs of source and target"):
            make_criterion(lm_task, teacher)


def test_chunk_size_follows_the_vocabulary(task, teacher_path, monkeypatch):
    """The criterion itself works in chunks: tiny ones give the same numbers."""
    model, _ = make_model(task, "pet_transformer_tiny")
    batch = make_batch(task, [9, 4, 7])
    at = real_positions(batch["target"], task.target_dictionary.pad())
    whole = make_criterion(task, teacher_path).compute_sums(model, batch, at)
    monkeypatch.setattr(chunks, "CHUNK_ELEMENTS", 3 * len(task.target_dictionary))
    in_chunks = make_criterion(task, teacher_path).compute_sums(model, batch, at)
    assert isinstance(in_chunks, TokenSums)
    for a, b in zip(whole, in_chunks):
        torch.testing.assert_close(a, b)
