"""The teacher's cache: the same answers, the model run once per sentence pair, the limit kept."""

import math

import pytest
import torch

from pet_fairseq.distillation.cache import pair_keys
from pet_fairseq.distillation.teacher import Teacher
from pet_fairseq.distillation.token_positions import real_positions
from pet_fairseq.errors import UserError
from tests.strict_device import DEVICE, move, strict_device, to_cpu, waits_of
from tests.translation import make_batch, make_model, make_task, save_model, select


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


@pytest.fixture
def paths(task, tmp_path):
    """An ensemble of two widths."""
    made = [
        save_model(tmp_path / f"{d}.pt", task, encoder_embed_dim=d, decoder_embed_dim=d)
        for d in (32, 64)
    ]
    return ":".join(made)


def ask(teacher, model, batch, temperature=2.0):
    at = real_positions(batch["target"], teacher.cache.padding_idx)
    answer = teacher.ask(model, batch, at)
    half = len(at[0]) // 2
    parts = [answer.log_probs(rows, temperature) for rows in (slice(0, half), slice(half, None))]
    return torch.cat(parts)


def count_runs(teacher):
    runs = []
    for model in teacher.models:
        model.register_forward_hook(lambda *_: runs.append(1))
    return runs


def test_cached_answers_are_those_of_the_model(task, paths):
    student, _ = make_model(task, "pet_transformer_tiny")
    plain, cached = Teacher(paths, task), Teacher(paths, task, cache_mb=1)
    runs = count_runs(cached)
    batch = make_batch(task, [3, 7, 2, 6])
    expected = ask(plain, student, batch)
    assert torch.equal(ask(cached, student, batch), expected)
    assert len(runs) == 2
    assert torch.equal(ask(cached, student, batch), expected)
    torch.testing.assert_close(
        ask(cached, student, select(batch, [2, 0], 4)),  # another order and padding
        torch.cat([expected[10:12], expected[:3]]),
    )
    assert len(runs) == 2
    ask(cached, student, make_batch(task, [3, 7, 2, 6], seed=1))  # other words
    assert len(runs) == 4


def test_cache_stops_at_its_limit(task, paths):
    student, _ = make_model(task, "pet_transformer_tiny")
    batch = make_batch(task, [3, 7, 2, 6])
    token = (32 + 64) * 4
    teacher = Teacher(paths, task, cache_mb=11 * token / 2**20)  # room for 11 tokens
    ask(teacher, student, batch)
    assert sorted(len(part) for part in teacher.cache.features.values()) == [3, 7]
    assert teacher.cache.free_bytes == token
    sizes = [part.untyped_storage().nbytes() for part in teacher.cache.features.values()]
    assert sum(sizes) == 10 * token  # not views of the batch
    runs = count_runs(teacher)
    ask(teacher, student, batch)
    assert len(runs) == 2  # two pairs are missing
    ask(teacher, student, select(batch, [0, 1], 7))
    assert len(runs) == 2


def test_keys_tell_pairs_apart(task):
    batch = make_batch(task, [3, 3], seed=5)
    keys = pair_keys(batch, task.target_dictionary.pad())
    for side in ("src_tokens", "prev_output_tokens"):
        other = make_batch(task, [3, 3], seed=5)
        other["net_input"][side][0, 0] = 4 + (other["net_input"][side][0, 0] - 3) % 12
        changed = pair_keys(other, task.target_dictionary.pad())
        assert changed[0] != keys[0] and changed[1] == keys[1]
    wide = make_batch(task, [3, 3], columns=9, seed=5)
    assert pair_keys(wide, task.target_dictionary.pad()) == keys


def test_bad_options(task, paths, tmp_path):
    for size in (-1, math.inf, math.nan):
        with pytest.raises(UserError, match=f"--teacher-cache-mb {size}: give a number of MiB"):
            Teacher(paths, task, cache_mb=size)
    other = save_model(tmp_path / "lstm.pt", task, "lstm")
    with pytest.raises(UserError, match=r"--teacher-cache-mb 5: .*lstm.pt is no Transformer"):
        Teacher(other, task, cache_mb=5)


@pytest.mark.parametrize("arch", ["transformer_tiny", "pet_transformer_tiny", "can_transformer"])
def test_no_attention_weights_are_formed(arch, task, tmp_path):
    """Nobody reads the weights on the source, and without them attention is one fused kernel."""
    sizes = dict(encoder_embed_dim=32, encoder_layers=2, decoder_layers=2)
    teacher = Teacher(save_model(tmp_path / "teacher.pt", task, arch, **sizes), task)
    weights = []
    for model in teacher.models:
        for layer in model.decoder.layers:
            layer.register_forward_hook(lambda _layer, _inputs, output: weights.append(output[1]))
    student, _ = make_model(task, "pet_transformer_tiny")
    ask(teacher, student, make_batch(task, [3, 7, 2, 6]))
    assert weights == [None, None]


@pytest.mark.slow
def test_the_cache_is_for_the_cpu(task, paths, caplog):
    """On another device nothing is fetched; one warning says so."""
    student, _ = make_model(task, "pet_transformer_tiny")
    batch = make_batch(task, [3, 7, 2, 6])
    expected = ask(Teacher(paths, task), student, batch)
    teacher = Teacher(paths, task, cache_mb=1)
    with strict_device() as waits:
        student.to(DEVICE)
        answers = [ask(teacher, student, move(batch))]
        waits.clear()  # of moving the teacher
        answers.append(ask(teacher, student, move(batch)))
    assert {line.split(":")[0] for line in waits_of(waits)} == {
        "pet_fairseq/distillation/token_positions.py"  # where the test itself asks
    }
    torch.testing.assert_close(to_cpu(answers), [expected, expected])
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        "--teacher-cache-mb: not used on strict; the cache is in main memory, and every lookup "
        "would stall the device"
    ]
    assert teacher.cache.features == {}


def test_bleu_of_the_validation_is_the_students(task, paths):
    """--eval-bleu translates with the model that is trained, built before its criterion."""
    task.cfg.eval_bleu, task.cfg.eval_bleu_args = True, '{"beam": 1, "max_len_b": 9}'
    student = task.build_model(make_model(task)[1])
    generator = task.sequence_generator
    Teacher(paths, task)
    assert task.sequence_generator is generator and list(generator.model.models) == [student]
