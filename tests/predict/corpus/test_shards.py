"""The shards of a folder: whose they are, and whether all are there."""

import os
import random

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.predict.bad_lines import Bad, BadLines
from pet_fairseq.predict.corpus.shards import (
    ShardRecord,
    Share,
    is_complete,
    keep_settings,
    new_shard,
    pending,
    read_shard_records,
    shards,
    sum_records,
    write_shard_record,
)
from pet_fairseq.runner.record import Record


def first_numbers(share: Share, end: int) -> list[int]:
    return [number for number, _ in zip(share.numbers(), range(end)) if number < end]


def test_shares_and_their_jobs_divide_the_shards():
    for machines in (1, 2, 3, 5):
        for jobs in (1, 2, 4):
            parts = [
                first_numbers(Share(machine, machines).part(job, jobs), 60)
                for machine in range(1, machines + 1)
                for job in range(jobs)
            ]
            assert sorted(number for part in parts for number in part) == list(range(60))
    for machine in (1, 2, 3):
        expected = [number for number in range(60) if number % 3 == machine - 1]
        assert first_numbers(Share(machine, 3), 60) == expected
        assert [number for number in range(60) if Share(machine, 3).holds(number)] == expected
        jobs = [first_numbers(Share(machine, 3).part(job, 2), 60) for job in (0, 1)]
        assert sorted(jobs[0] + jobs[1]) == expected


@pytest.mark.parametrize("word", ["0/1", "3/2", "1", "a/b", "1/2/3", "-1/-1", ""])
def test_no_share(word):
    with pytest.raises(ValueError):
        Share.parse(word)


def write(folder, number, last=False, lines=3):
    bad_lines = BadLines()
    for i in range(lines):
        bad_lines.add([Bad.COPIED] if i == number else [])
    (folder / "place").mkdir(exist_ok=True)
    with new_shard(folder, folder / "place", number) as sides:
        for side in sides:
            side.write(b"a\n")
    write_shard_record(folder, number, ShardRecord(lines - 1, 0.5, last, bad_lines))


def test_what_is_missing(tmp_path):
    assert first_numbers_of(pending(tmp_path, Share())) == [0, 1, 2, 3, 4]
    write(tmp_path, 1)
    assert first_numbers_of(pending(tmp_path, Share())) == [0, 2, 3, 4, 5]
    write(tmp_path, 4, last=True)
    assert list(pending(tmp_path, Share())) == [0, 2, 3]
    assert list(pending(tmp_path, Share(1, 2))) == [0, 2]
    for number, missing in ((0, 0), (2, 2), (3, 3)):
        with pytest.raises(UserError, match=f"shard {missing:05} is missing"):
            shards(tmp_path)
        assert not is_complete(read_shard_records(tmp_path))
        write(tmp_path, number)
    assert is_complete(read_shard_records(tmp_path))
    names = [(source.name, target.name) for source, target in shards(tmp_path)]
    assert names == [(f"0000{n}.source", f"0000{n}.target") for n in range(5)]
    (tmp_path / "00002.target").unlink()
    with pytest.raises(UserError, match="shard 00002 is missing"):
        shards(tmp_path)


def first_numbers_of(numbers) -> list[int]:
    return [next(numbers) for _ in range(5)]


def test_a_shard_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "place").mkdir()
    with pytest.raises(OSError) as error, new_shard(tmp_path, tmp_path / "place", 7):
        raise OSError(28, "No space left on device")
    assert error.value.filename == str(tmp_path / "00007.source")
    assert [path.name for path in tmp_path.rglob("*")] == ["place"]


def test_counts_add_up(tmp_path):
    """The numbers of bad lines are those of the whole text, the first five of a kind."""
    draw = random.Random(1)
    whole, records = BadLines(), {}
    for number in range(6):
        part = BadLines()
        for _ in range(10):
            kinds = draw.sample(list(Bad), draw.choice([0, 0, 1, 2]))
            part.add(kinds)
            whole.add(kinds)
        write_shard_record(tmp_path, number, ShardRecord(9, 1.0, number == 5, part))
    records = read_shard_records(tmp_path)
    assert vars(sum_records(records, 10)) == vars(whole)
    (tmp_path / "00003.json").write_text("{}")
    with pytest.raises(UserError, match=r"00003\.json: cannot be read; remove it"):
        read_shard_records(tmp_path)


def test_jobs_that_begin_together_keep_one_file_of_settings(tmp_path, monkeypatch):
    """The second one writes its file, whole, while the first one is about to rename its own."""
    settings = Record(["translate-corpus", "--beam", "4"], {"text": "100 bytes"})
    rename = os.replace

    def interrupted(temporary, path):
        monkeypatch.setattr(os, "replace", rename)
        keep_settings(tmp_path, settings, write=True)
        rename(temporary, path)

    monkeypatch.setattr(os, "replace", interrupted)
    keep_settings(tmp_path, settings, write=True)
    assert [file.name for file in tmp_path.iterdir()] == ["settings.json"]
    keep_settings(tmp_path, settings, write=True)
    with pytest.raises(UserError, match="was made otherwise"):
        keep_settings(tmp_path, Record(["translate-corpus"], settings.inputs), write=True)
