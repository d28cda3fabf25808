"""Rules for a student's training."""

from pathlib import Path

import pytest

from pet_fairseq.compress.training import (
    Batch,
    Budget,
    Corpus,
    batch_tokens,
    cache_megabytes,
    checkpoint_bytes,
    choose_batch,
    default_epochs,
    default_updates,
    updates_for,
    updates_per_epoch,
)
from pet_fairseq.errors import UserError
from pet_fairseq.runner.device import Device
from pet_fairseq.runner.stage import Output


def option(options, name):
    return options[options.index(name) + 1]


def test_batches_of_a_cpu_are_small_and_hold_the_longest_sentence():
    cpu, gpu = Device("cpu"), Device("cuda")
    assert batch_tokens(cpu, (512, 512)) == 1_000
    assert batch_tokens(cpu, (1024, 2048)) == 2_048
    assert batch_tokens(gpu, (1024, 1024)) == 8_192


def test_fewer_tokens_at_a_time_leave_the_batch_as_it_is():
    gpu = Device("cuda")
    assert choose_batch(gpu, (1024, 1024)) == Batch(8_192)
    small = choose_batch(gpu, (1024, 1024), 2_048)
    assert small.options == ("--max-tokens", "2048", "--update-freq", "4")
    assert small.tokens == 8_192
    assert small.describe(2) == "8,192 tokens a batch on 2 GPUs, 2,048 at a time"
    assert choose_batch(gpu, (1024, 1024), 3_000) == Batch(2_731, 3)
    assert choose_batch(gpu, (1024, 1024), 6_000) == Batch(4_096, 2)
    assert choose_batch(gpu, (1024, 1024), 20_000) == Batch(20_000)
    with pytest.raises(UserError, match=r"--max-tokens 1000: TEACHER reads .* up to 1024 tokens"):
        choose_batch(gpu, (512, 1024), 1_000)


def test_updates_by_the_size_of_the_data():
    assert default_updates(430_000, 1_000) == 21_500  # Multi30k
    assert default_updates(1, 1_000) == 1_000
    assert default_updates(400_000, 1_000) == 20_000
    assert updates_per_epoch(2_001, 2_000) == 2


def test_a_long_text_is_read_less_often_but_trains_longer():
    assert default_epochs(1) == default_epochs(10**6) == 50
    assert default_epochs(8 * 10**6) == pytest.approx(25)
    assert default_epochs(10**9) == pytest.approx(5)
    assert default_updates(10**9, 8_192) == pytest.approx(5 * 10**9 / 8_192, rel=1e-3)
    lengths = [default_updates(tokens, 8_192) for tokens in (10**6, 10**7, 10**8, 10**9)]
    assert lengths == sorted(lengths)


def test_gpus_share_the_updates():
    assert updates_per_epoch(10**6, 1_000, 4) == 250
    assert default_updates(10**9, 8_192, 4) == pytest.approx(
        default_updates(10**9, 8_192) / 4, rel=1e-3
    )


def test_the_length_in_words():
    assert Budget(497, 24_850).describe(Batch(1_000), 1) == (
        "training: 50 epochs of 497 updates, 24,850 in all; 1,000 tokens a batch; 10 validations "
        "without a better one end it sooner"
    )
    assert "5.01 epochs of 10,000 updates, 50,100 in all; 8,192 tokens a batch on 4 GPUs;" in (
        Budget(10_000, 50_100).describe(Batch(8_192), 4)
    )
    hours = Budget(497, None, Path("timing.log"), 2).describe(Batch(1_000), 1)
    assert "as many updates as fit into 2 h, an epoch has 497;" in hours


def test_validations_of_a_training_set_in_several_folders():
    """Intervals are in fairseq's epochs, each of which reads one folder."""
    one, four = Budget(80, 10_000), Budget(80, 10_000, folders=4)
    assert option(one.validation(), "--validate-interval") == "1"
    assert option(four.validation(), "--validate-interval") == "5"  # of 20 updates
    assert Budget(1_000, 20_000).has_validations_within()
    assert not Budget(1_000, 20_000, folders=4).has_validations_within()


def test_the_checkpoints_that_a_training_keeps():
    assert checkpoint_bytes(1_000, validates_within_epochs=False) == 3 * 12_000
    assert checkpoint_bytes(1_000, validates_within_epochs=True) == 4 * 12_000


def test_validations_are_neither_rare_nor_after_every_few_updates():
    tiny, small = Budget(3, 1_000).validation(), Budget(200, 10_000).validation()
    huge = Budget(10_000, 100_000).validation()
    assert option(tiny, "--validate-interval") == option(tiny, "--save-interval") == "33"
    assert option(small, "--validate-interval") == "1"
    assert "--save-interval-updates" not in small
    assert option(huge, "--save-interval-updates") == "2000"
    assert option(huge, "--keep-interval-updates") == "1"
    assert option(Budget(500, 1_000).validation(), "--save-interval-updates") == "100"
    assert {option(options, "--patience") for options in (tiny, small, huge)} == {"10"}


def test_validations_of_a_training_whose_length_is_not_known_yet():
    short, long = (Budget(n, None, Path("timing.log"), 0.5, 1.1) for n in (4_000, 4_001))
    assert "--save-interval-updates" not in short.validation()
    word = option(long.validation(), "--save-interval-updates")
    assert word.command[-4:] == ("--share", "0.0182", "--at-least", "100")


def test_the_cache_holds_all_pairs_or_as_much_as_is_allowed():
    assert cache_megabytes(Corpus(1, 2**18), 100) == 101
    assert cache_megabytes(Corpus(1, 10**9), 512) == 2_000


def test_a_schedule_falls_to_zero():
    options = Budget(1, 800).schedule()
    assert option(options, "--max-update") == option(options, "--total-num-update") == "800"
    assert option(options, "--warmup-updates") == "100"
    assert option(Budget(1, 800).schedule(0.1), "--max-update") == "80"


def test_a_time_becomes_updates_when_the_speed_is_known():
    word = Budget(1, None, Path("timing.log"), 0.5, 1.1).share(1)
    assert isinstance(word, Output)
    assert word.command[:4] == ("updates-for", "timing.log", "--hours", "0.5")
    assert float(word.command[-1]) == pytest.approx(1 / 1.1, abs=1e-4)


def write_log(path, seconds_per_line, ups, updates=(10, 20, 30)):
    lines = [
        f"INFO | train_inner | epoch 001: {n} / 99 loss=5, wps=900, ups={ups}, num_updates={n:g}, "
        f"lr=0.001, train_wall=1, gb_free=1, wall={7 + seconds_per_line * n // 10}\n"
        for n in updates
    ]
    path.write_text("INFO | started\n" + "".join(lines))
    return path


def test_updates_that_fit_into_a_time(tmp_path):
    slow = write_log(tmp_path / "slow", 40, ups=0.99)  # ups is rounded; the clock is right: 0.25
    assert updates_for(slow, hours=1, share=1) == 900
    assert updates_for(slow, hours=1, share=0.1) == 90
    assert updates_for(slow, hours=1, share=0.0005) == 1  # a short rise of the learning rate
    assert updates_for(slow, hours=1, share=0.1, at_least=100) == 100
    fast = write_log(tmp_path / "fast", 1, ups=8.5)  # the clock is too rough here
    assert updates_for(fast, hours=2, share=0.5) == 30_600
    long = write_log(tmp_path / "long", 40, ups=0.99, updates=(1_000_000, 1_200_000))
    assert "num_updates=1e+06" in long.read_text() and "num_updates=1.2e+06" in long.read_text()
    assert updates_for(long, hours=1, share=1) == 900
    for hours in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(UserError, match=rf"--hours {hours:g}: give a number above 0"):
            updates_for(slow, hours, share=1)
    with pytest.raises(UserError, match=r"--hours 0\.001: room for 0 updates"):
        updates_for(slow, hours=0.001, share=1)
    (tmp_path / "empty").write_text("")
    with pytest.raises(UserError, match="empty: has no speeds"):
        updates_for(tmp_path / "empty", 1, 1)
