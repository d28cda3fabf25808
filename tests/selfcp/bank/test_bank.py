"""The bank's files and its search, against numpy in double precision over everything."""

import json
import os
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.bank.bank import (
    FILES,
    FIRST,
    INDEX,
    MEMORY,
    Bank,
    Writer,
    create,
    locked,
    unit,
)
from pet_fairseq.selfcp.bank.manifest import Source, checksum

MADE_WITH = {"backbone": "a" * 64, "connector": "b" * 64, "dictionary": "c" * 64}
BLOCKS = (3, 1, 5, 2)


def source_of(number, sha256="d" * 64):
    return Source("BIN", "train", sha256, number, 0)


def make_memories(number, width, seed=0):
    """Of each demonstration 1 to 4 memory tokens; some first ones occur several times."""
    draw = np.random.default_rng(seed)
    memories = [draw.normal(size=(draw.integers(1, 5), width)) for _ in range(number)]
    for i in range(2, number, 7):
        memories[i][0] = memories[i // 2][0]
    return [memory.astype(np.float32) for memory in memories]


def build(folder, memories, blocks=BLOCKS, source=None):
    """Make the bank or go on with it; the digest of text i is 100 + i."""
    folder.mkdir(exist_ok=True)
    with locked(folder):
        if not (folder / "bank.json").exists():
            create(folder, memories[0].shape[1], 12.0, MADE_WITH)
        writer = Writer(folder)
        done = writer.begin(source or source_of(len(memories)))
        for start, stop in pairwise(accumulate(blocks, initial=0)):
            if start >= done:
                writer.append(memories[start:stop], range(100 + start, 100 + stop))
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def search_slowly(memories, key, number, without=None):
    """Cosines of a key with what is stored, one after the other in double precision."""

    def scaled(vector):
        length = np.sqrt((vector.astype(np.float64) ** 2).sum())
        return vector / length if length else vector

    found = []
    for i, memory in enumerate(memories):
        stored = scaled(memory[0].astype(np.float64)).astype(np.float32).astype(np.float64)
        if without != 100 + i:
            found.append((-(stored * scaled(key.astype(np.float64))).sum(), i))
    return [(i, -cosine) for cosine, i in sorted(found)[:number]]


# --- search ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 5, 64])
@pytest.mark.parametrize("blocks", [(1,), (3, 1, 5, 2), (40, 60, 7), (150, 150)])
@pytest.mark.parametrize("number", [1, 4, 1000])
def test_search(width, blocks, number, tmp_path):
    memories = make_memories(sum(blocks), width)
    bank = Bank(build(tmp_path / "bank", memories, blocks))
    keys = np.random.default_rng(9).normal(size=(40, width)).astype(np.float32)
    keys[3] = memories[-1][0]
    keys[4] = 0
    texts = [100 + i % (len(memories) + 3) for i in range(40)]
    plain, without = bank.search(keys, number), bank.search(keys, number, texts)
    for i, key in enumerate(keys):
        for hits, left_out in ((plain[i], None), (without[i], texts[i])):
            expected = search_slowly(memories, key, number, left_out)
            assert [hit.number for hit in hits] == [j for j, _ in expected]
            found = [hit.cosine for hit in hits]
            np.testing.assert_allclose(found, [c for _, c in expected], rtol=0, atol=1e-12)


def test_search_tells_apart_what_single_precision_does_not(tmp_path):
    draw = np.random.default_rng(2)
    middle = draw.normal(size=64)
    near = (middle + 1e-5 * draw.normal(size=(200, 64))).astype(np.float32)
    memories = [row[None] for row in near]
    bank = Bank(build(tmp_path / "bank", memories, (200,)))
    keys = middle + 1e-5 * draw.normal(size=(20, 64))
    found = [[hit.number for hit in hits] for hits in bank.search(keys, 10)]
    assert found == [[i for i, _ in search_slowly(memories, key, 10)] for key in keys]
    single = bank.first @ unit(keys).astype(np.float32).T
    best = np.argsort(-single, axis=0, kind="stable")[:10].T
    assert any(set(some) != set(hits) for some, hits in zip(best.tolist(), found))


def test_other_queries_change_nothing(tmp_path):
    bank = Bank(build(tmp_path / "bank", make_memories(300, 48), (300,)))
    keys = np.random.default_rng(3).normal(size=(70, 48))
    together = bank.search(keys, 5)
    assert together == [bank.search(key[None], 5)[0] for key in keys]


def test_memory_is_what_was_written(tmp_path):
    memories = make_memories(11, 6)
    bank = Bank(build(tmp_path / "bank", memories))
    assert len(bank) == 11
    for i in (5, 0, 10, *range(11)):
        assert np.array_equal(bank.memory(i), memories[i])


def test_an_empty_bank_has_nothing(tmp_path):
    create(tmp_path, 4, 12.0, MADE_WITH)
    bank = Bank(tmp_path)
    assert bank.search(np.ones((2, 4)), 3) == [[], []]
    assert "unfinished, holds 0 of 0" in bank.manifest.unfinished


# --- building in parts ----------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for kill -9: nothing that the process would still do is done."""


def kill_at(monkeypatch, step, torn):
    """End the process at a step of writing; `torn`: half of what was being written is lost.

    A step is a file that is to be on disk, or a name that is to be given.
    """
    steps = iter(range(1000))
    sizes = {}  # of the files when they were last on disk

    def instead(real, file, *more):
        if isinstance(file, int):
            path = Path(f"/proc/self/fd/{file}").readlink()
            before = 0 if path.suffix == ".unfinished" else sizes.get(path, 0)
            sizes[path] = os.fstat(file).st_size
        if next(steps) == step:
            if torn and isinstance(file, int):
                os.ftruncate(file, (before + sizes[path]) // 2)
            raise Killed
        return real(file, *more)

    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, real=real: instead(real, *a))


@pytest.mark.parametrize("torn", [False, True])
def test_building_goes_on_after_a_kill_at_any_step(torn, tmp_path):
    memories = make_memories(sum(BLOCKS), 6)
    whole = contents(build(tmp_path / "whole", memories))
    kills = 0
    for step in range(100):
        folder = tmp_path / f"{step}"
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, step, torn)
            try:
                build(folder, memories)
                break
            except Killed:
                kills += 1
        if (folder / "bank.json").exists():
            assert Bank(folder).manifest.unfinished
        assert contents(build(folder, memories)) == whole
        assert Bank(folder).manifest.unfinished == ""
    # the new manifest, the source in it, and each block: three files and the manifest
    assert step == 2 + 2 + len(BLOCKS) * (3 + 2)
    assert kills == step


def test_a_second_source(tmp_path):
    memories = make_memories(20, 6)
    folder = build(tmp_path / "bank", memories[:11])
    with locked(folder):
        writer = Writer(folder)
        assert writer.begin(source_of(9, "e" * 64)) == 0
        writer.append(memories[11:15], range(4))
        writer = Writer(folder)
        assert "holds 15 of 20" in writer.manifest.unfinished
        with pytest.raises(
            UserError, match=r"unfinished, holds 15 of 20 .* `pet-fairseq bank add`"
        ):
            writer.begin(source_of(2, "f" * 64))
        assert writer.begin(source_of(11)) == 11  # all there
        assert writer.begin(source_of(9, "e" * 64)) == 4
        writer.append(memories[15:], range(5))
        assert Writer(folder).begin(source_of(9, "e" * 64)) == 9
    bank = Bank(folder)
    assert bank.manifest.unfinished == ""
    assert all(np.array_equal(bank.memory(i), memories[i]) for i in range(20))


def test_one_writes_at_a_time(tmp_path):
    refused = pytest.raises(UserError, match="another process is writing this bank")
    with locked(tmp_path), refused, locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_other_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds other files \(notes.txt\), but no bank.json"):
        create(tmp_path, 4, 12.0, MADE_WITH)


def test_memory_that_is_not_finite(tmp_path):
    folder = build(tmp_path / "bank", make_memories(11, 6))
    before = contents(folder)
    bad = np.full((2, 6), np.nan, np.float32)
    with pytest.raises(UserError, match="gives memory that is not finite"):
        Writer(folder).append([bad], [1])
    assert contents(folder) == before


# --- damage ---------------------------------------------------------------------------------------


def read_all(folder):
    bank = Bank(folder)
    return [bank.memory(i) for i in range(len(bank))]


@pytest.mark.parametrize("name", [*FILES, "bank.json"])
def test_a_flipped_byte(name, tmp_path):
    path = build(tmp_path / "bank", make_memories(11, 6)) / name
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        flipped = whole[place] ^ (1 << place % 8)
        path.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
        if name == "bank.json" and same_json(path.read_bytes(), whole):
            continue  # one white space for another
        with pytest.raises(UserError, match=f"{name}: damaged.*; build the bank anew"):
            read_all(path.parent)
    path.write_bytes(whole)
    assert len(read_all(path.parent)) == 11


def same_json(a, b):
    try:
        return json.loads(a) == json.loads(b)
    except ValueError:
        return False


@pytest.mark.parametrize("name", [*FILES, "bank.json"])
def test_a_file_cut_short(name, tmp_path):
    path = build(tmp_path / "bank", make_memories(11, 6)) / name
    whole = path.read_bytes()
    for size in {0, 1, len(whole) // 2, len(whole) - 4, len(whole) - 2}:
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match=rf"{name}: (cut short|damaged).*build the bank anew"):
            Bank(path.parent)
    path.unlink()
    with pytest.raises(UserError, match=r"cut short, 0 of|not a bank, it has no bank.json"):
        Bank(path.parent)


def test_only_what_is_asked_for_is_checked(tmp_path):
    """Damage in one demonstration's memory is found when it is read."""
    memories = make_memories(11, 6)
    path = build(tmp_path / "bank", memories) / MEMORY
    flipped = bytearray(path.read_bytes())
    flipped[sum(len(memory) for memory in memories[:4]) * 6 * 4] ^= 1
    path.write_bytes(flipped)
    bank = Bank(path.parent)
    assert np.array_equal(bank.memory(3), memories[3])
    with pytest.raises(UserError, match=r"memory.f32: damaged \(memory of demonstration 4\)"):
        bank.memory(4)


@pytest.mark.parametrize("name", [MEMORY, FIRST, INDEX])
def test_what_the_manifest_does_not_count_is_not_read(name, tmp_path):
    memories = make_memories(11, 6)
    folder = build(tmp_path / "bank", memories)
    with open(folder / name, "ab") as file:
        file.write(b"left over")
    assert all(np.array_equal(a, b) for a, b in zip(read_all(folder), memories))


def test_what_is_left_over_is_written_over(tmp_path):
    memories = make_memories(14, 6)
    folders = [build(tmp_path / name, memories[:11]) for name in ("clean", "left_over")]
    for name in FILES:
        with open(folders[1] / name, "ab") as file:
            file.write(b"left over" * 100)
    for folder in folders:
        writer = Writer(folder)
        writer.begin(source_of(3, "e" * 64))
        writer.append(memories[11:], range(3))
    assert contents(folders[0]) == contents(folders[1])


def test_no_bank(tmp_path):
    with pytest.raises(UserError, match=r"none: no such folder; make one with `pet-fairseq bank"):
        Bank(tmp_path / "none")
    with pytest.raises(UserError, match=r"not a bank, it has no bank.json; make one with"):
        Bank(tmp_path)
    for text in ("", "[]", "{}", "1", "null", "\x00"):
        (tmp_path / "bank.json").write_text(text)
        with pytest.raises(UserError, match=r"bank.json: damaged"):
            Bank(tmp_path)


def test_another_version(tmp_path):
    folder = build(tmp_path / "bank", make_memories(11, 6))
    fields = json.loads((folder / "bank.json").read_text())
    fields.pop("checksum")
    fields["version"] = 2
    (folder / "bank.json").write_text(json.dumps({**fields, "checksum": checksum(fields)}))
    with pytest.raises(UserError, match=r"version 2, this program reads 1; build the bank anew"):
        Bank(folder)


def test_zeros_have_no_direction():
    vectors = np.array([[0, 0], [3, 4]], np.float32)
    assert np.array_equal(unit(vectors), [[0, 0], [0.6, 0.8]])
