"""The distillation loss against loops from its equation, and the criterion on real models."""

import logging
import math

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.logging import meters, metrics
from torch.utils._python_dispatch import TorchDispatchMode

from pet_fairseq import distillation
from pet_fairseq.distillation import (
    PetDistillationConfig,
    PetDistillationCriterion,
    TokenSums,
    chunked_sums,
    distillation_sums,
)
from pet_fairseq.errors import UserError
from pet_fairseq.teacher import ensemble_log_probs
from tests.translation import WORDS, make_batch, make_model, make_task, save_model, select


def softmax(logits, temperature):
    """Probabilities of one token, a list from a list."""
    highest = max(logits)
    powers = [math.exp((z - highest) / temperature) for z in logits]
    return [p / sum(powers) for p in powers]


def loss_by_loops(logits, teacher_logits, target, alpha, temperature, smoothing):
    """(1-a) CE + a T^2 KL, token by token and word by word; (loss, nll, kl) summed over tokens."""
    loss = total_nll = total_kl = 0.0
    for z, z_teacher, gold in zip(logits.tolist(), teacher_logits.tolist(), target.tolist()):
        p = softmax(z, 1)
        words = len(z)
        nll = -math.log(p[gold])
        others = sum(-math.log(p[w]) for w in range(words) if w != gold)
        cross_entropy = (1 - smoothing) * nll + smoothing / (words - 1) * others
        p_soft, q_soft = softmax(z, temperature), softmax(z_teacher, temperature)
        kl = sum(q * (math.log(q) - math.log(p)) for q, p in zip(q_soft, p_soft))
        loss += (1 - alpha) * cross_entropy + alpha * temperature**2 * kl
        total_nll += nll
        total_kl += kl
    return loss, total_nll, total_kl


def make_projection(tokens, width=5, words=11, dtype=torch.float64):
    features = torch.randn(tokens, width, dtype=dtype).requires_grad_()
    weight = torch.randn(words, width, dtype=dtype).requires_grad_()
    bias = torch.randn(words, dtype=dtype).requires_grad_()
    teacher_logits = 2 * torch.randn(tokens, words, dtype=dtype)
    return features, weight, bias, teacher_logits, torch.randint(words, (tokens,))


def teacher_log_probs(logits, temperature):
    """In the dtype of the logits, where the package works in float32."""
    return torch.log_softmax(logits / temperature, dim=-1)


def sums_in_chunks(projection, alpha, temperature, smoothing, chunk):
    features, weight, bias, teacher_logits, target = projection

    def sums(rows_features, rows):
        log_probs = teacher_log_probs(teacher_logits[rows], temperature)
        logits = rows_features @ weight.T + bias
        return distillation_sums(logits, log_probs, target[rows], alpha, temperature, smoothing)

    return chunked_sums(sums, features, [weight, bias], chunk)


@pytest.mark.parametrize("alpha", [0, 0.1, 0.5, 1])
@pytest.mark.parametrize("temperature", [1, 2, 10])
@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_values_equal_loops(alpha, temperature, chunk):
    projection = make_projection(tokens=7)
    features, weight, bias, teacher_logits, target = projection
    sums = sums_in_chunks(projection, alpha, temperature, 0.1, chunk)
    logits = features @ weight.T + bias
    loss, nll, kl = loss_by_loops(logits, teacher_logits, target, alpha, temperature, 0.1)
    assert sums.loss.item() == pytest.approx(loss, rel=1e-12)
    assert sums.nll.item() == pytest.approx(nll, rel=1e-12)
    assert sums.kl.item() == pytest.approx(kl, rel=1e-10)
    assert sums.correct == sum(
        z.index(max(z)) == y for z, y in zip(logits.tolist(), target.tolist())
    )
    agree = [
        z.index(max(z)) == t.index(max(t)) for z, t in zip(logits.tolist(), teacher_logits.tolist())
    ]
    assert sums.agreement == sum(agree)


@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize("factor", [1.0, 128.0])  # fp16 multiplies the loss before backward
def test_gradients_equal_finite_differences(chunk, factor):
    projection = make_projection(tokens=4, width=3, words=5)
    features, weight, bias, teacher_logits, target = projection
    (factor * sums_in_chunks(projection, 0.3, 2.0, 0.1, chunk).loss).backward()
    step = 1e-6
    for parameter in (features, weight, bias):
        flat, grad = parameter.detach().view(-1), parameter.grad.view(-1)
        for i in range(flat.numel()):
            losses = []
            for sign in (1, -1):
                flat[i] += sign * step
                logits = features @ weight.T + bias
                losses.append(loss_by_loops(logits, teacher_logits, target, 0.3, 2.0, 0.1)[0])
                flat[i] -= sign * step
            numeric = factor * (losses[0] - losses[1]) / (2 * step)
            assert grad[i].item() == pytest.approx(numeric, rel=1e-5, abs=1e-5 * factor)


def test_no_tokens_give_zero_loss_and_gradients():
    projection = make_projection(tokens=0)
    sums = sums_in_chunks(projection, 0.5, 2.0, 0.1, 3)
    sums.loss.backward()
    assert sums.loss == sums.kl == sums.agreement == 0
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in projection[1:3])


def test_same_sums_without_gradients():
    projection = make_projection(tokens=9)
    with_grad = sums_in_chunks(projection, 0.5, 2.0, 0.1, 4)
    with torch.no_grad():
        without = sums_in_chunks(projection, 0.5, 2.0, 0.1, 4)
    for a, b in zip(with_grad, without):
        torch.testing.assert_close(a.detach(), b)
    assert not without.loss.requires_grad


def test_alpha_0_is_fairseqs_label_smoothed_cross_entropy():
    features, weight, bias, teacher_logits, target = make_projection(tokens=6)
    logits = (features @ weight.T + bias).detach()
    log_probs = teacher_log_probs(teacher_logits, 1)
    sums = distillation_sums(logits, log_probs, target, 0, 1, 0.2)
    loss, nll = label_smoothed_nll_loss(torch.log_softmax(logits, -1), target, 0.2)
    torch.testing.assert_close(sums.loss, loss)
    torch.testing.assert_close(sums.nll, nll)


def test_kl_is_zero_for_equal_logits():
    logits = torch.randn(5, 8, dtype=torch.float64)
    sums = distillation_sums(logits, teacher_log_probs(logits, 3), torch.zeros(5).long(), 1, 3, 0)
    assert sums.loss.item() == pytest.approx(0, abs=1e-12)
    assert sums.agreement == 5


def test_hot_temperature_matches_logits():
    """For large T the gradient of T^2 KL tends to (z - z_teacher) / V, centred (Hinton 2015)."""
    words, temperature = 6, 1e4
    z = torch.randn(3, words, dtype=torch.float64).requires_grad_()
    teacher = torch.randn(3, words, dtype=torch.float64)
    log_probs = teacher_log_probs(teacher, temperature)
    distillation_sums(z, log_probs, torch.zeros(3).long(), 1, temperature, 0).loss.backward()
    difference = z.detach() - teacher
    expected = (difference - difference.mean(-1, keepdim=True)) / words
    torch.testing.assert_close(z.grad, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_ensemble_is_the_mean_of_its_members(temperature):
    members = [torch.randn(4, 7) for _ in range(3)]
    mean = sum(torch.softmax(z.double(), -1) for z in members) / 3
    powers = mean ** (1 / temperature)
    expected = (powers / powers.sum(-1, keepdim=True)).log().float()
    torch.testing.assert_close(ensemble_log_probs(members, temperature), expected)
    one = ensemble_log_probs(members[:1], temperature)
    torch.testing.assert_close(ensemble_log_probs(members[:1] * 2, temperature), one)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    """No worse than the same loss on full half-precision logits, and finite at extreme logits."""
    projection = make_projection(tokens=50, dtype=torch.float32)
    halves = [t.detach().to(dtype) for t in projection[:3]]
    halves = [t.requires_grad_() for t in halves]
    teacher_logits, target = projection[3:]
    for scale in (1, 1e3):  # the second: logits of some 10,000
        exact = sums_in_chunks(
            (*(t.double() * 1 for t in halves), teacher_logits.double(), target), 0.5, 2, 0.1, 9
        )
        features, weight, bias = halves
        for t in halves:
            t.grad = None

        def sums(rows_features, rows, scale=scale, weight=weight, bias=bias):
            log_probs = ensemble_log_probs([teacher_logits[rows]], 2.0)
            logits = (rows_features @ weight.T + bias) * scale
            return distillation_sums(logits, log_probs, target[rows], 0.5, 2.0, 0.1)

        result = chunked_sums(sums, features, [weight, bias], 9)
        result.loss.backward()
        assert all(torch.isfinite(t.grad).all() for t in halves) and torch.isfinite(result.loss)
        if scale == 1:
            logits = (features @ weight.T + bias).float()
            log_probs = ensemble_log_probs([teacher_logits], 2.0)
            plain = distillation_sums(logits, log_probs, target, 0.5, 2.0, 0.1).loss
            budget = (plain - exact.loss).abs() + 1e-4 * exact.loss.abs()
            assert (result.loss - exact.loss).abs() <= 2 * budget


class LargestTensor(TorchDispatchMode):
    """Remembers how many numbers the largest tensor made inside has."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return out


def test_no_tensor_is_larger_than_a_chunk():
    projection = make_projection(tokens=60, words=50, dtype=torch.float32)
    with LargestTensor() as largest:
        sums_in_chunks(projection, 0.5, 2.0, 0.1, 10).loss.backward()
    assert 0 < largest.numbers <= 10 * 50
    with LargestTensor() as largest:
        sums_in_chunks(projection, 0.5, 2.0, 0.1, 60).loss.backward()
    assert largest.numbers == 60 * 50


# --- the criterion --------------------------------------------------------------------------------


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


def test_chunk_size_follows_the_vocabulary(task, teacher_path, monkeypatch):
    """The criterion itself works in chunks: tiny ones give the same numbers."""
    criterion = make_criterion(task, teacher_path)
    model, _ = make_model(task, "pet_transformer_tiny")
    batch = make_batch(task, [9, 4, 7])
    whole = criterion.compute_sums(model, batch)[0]
    monkeypatch.setattr(distillation, "CHUNK_NUMBERS", 3 * len(task.target_dictionary))
    chunks = criterion.compute_sums(model, batch)[0]
    assert isinstance(chunks, TokenSums)
    for a, b in zip(whole, chunks):
        torch.testing.assert_close(a, b)
