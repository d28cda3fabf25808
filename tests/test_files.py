"""Files that are there whole or not at all."""

import errno
import hashlib
import os
from pathlib import Path

import pytest
import torch

from pet_fairseq.checkpoints.saving import save_state
from pet_fairseq.errors import UserError
from pet_fairseq.files import (
    atomic_file,
    atomic_folder,
    atomic_write,
    hash_file,
    read_csv,
    read_lines,
    temporary_path,
    write_csv,
    write_text,
)
from pet_fairseq.predict.lines import read_lines as lines_to_translate


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_cannot_be_finished(tmp_path):
    """The old one stays, nothing lies beside it, and the error names it."""
    path = tmp_path / "table.md"
    write_text(path, "old")

    def write(file):
        file.write_text("half")
        full()

    with pytest.raises(OSError) as error:
        atomic_write(path, write)
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(path))
    assert names(tmp_path) == ["table.md"] and path.read_text() == "old"


def test_a_folder_that_cannot_be_finished(tmp_path):
    with pytest.raises(OSError) as error, atomic_folder(tmp_path / "out") as folder:
        (folder / "some").touch()
        full()
    assert error.value.filename == str(tmp_path / "out")
    assert names(tmp_path) == []
    missing = tmp_path / "input"
    with pytest.raises(FileNotFoundError) as error, atomic_folder(tmp_path / "out"):
        missing.read_text()
    assert error.value.filename == str(missing)  # another file's errors keep its name


def test_a_folder_that_two_processes_write(tmp_path):
    """The second one does not take what the first one has written for something left behind."""
    out = tmp_path / "out"
    with atomic_folder(out) as first:
        (first / "a").write_text("first")
        message = f"^{out}: another command is writing it; wait"
        with pytest.raises(UserError, match=message), atomic_folder(out):
            raise AssertionError("it was given a folder")
        assert names(first) == ["a"]
    assert names(tmp_path) == ["out"] and names(out) == ["a"]


def test_a_file_that_two_processes_write(tmp_path):
    """The second one takes nothing from the first, neither while that writes nor when it ends."""
    path = tmp_path / "file"
    with atomic_file(path, "busy") as first:
        first.write(b"first")
        with pytest.raises(UserError, match="busy"), atomic_file(path, "busy"):
            raise AssertionError("it was given a file")
    assert names(tmp_path) == ["file"] and path.read_bytes() == b"first"


def test_a_file_that_is_finished_while_another_process_asks_for_its_lock(tmp_path, monkeypatch):
    path = tmp_path / "file"
    temporary_path(path).write_text("first")

    def finish(*_):
        temporary_path(path).rename(path)

    with monkeypatch.context() as between:
        between.setattr("fcntl.flock", finish)
        with pytest.raises(UserError, match="busy"), atomic_file(path, "busy"):
            raise AssertionError("it was given the other one's file")
    assert names(tmp_path) == ["file"] and path.read_text() == "first"


def test_a_file_whose_writing_fails(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    temporary_path(path).write_text("of a process that was killed, and long")
    with pytest.raises(OSError) as error, atomic_file(path, "busy") as file:
        file.write(b"half")
        full()
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(path))
    assert names(tmp_path) == ["file"] and path.read_text() == "old"
    temporary_path(path).write_text("of a process that was killed, and long")
    with atomic_file(path, "busy") as file:
        file.write(b"new")
    assert names(tmp_path) == ["file"] and path.read_text() == "new"


def test_what_a_user_may_have_beside_it_stays(tmp_path):
    """A folder called OUT.tmp was deleted once."""
    (tmp_path / "out.tmp").mkdir()
    (tmp_path / "file.tmp").write_text("mine")
    with atomic_folder(tmp_path / "out"):
        pass
    write_text(tmp_path / "file", "new")
    assert names(tmp_path) == ["file", "file.tmp", "out", "out.tmp"]
    assert (tmp_path / "file.tmp").read_text() == "mine"


def test_what_a_killed_process_left_is_replaced(tmp_path):
    temporary_path(tmp_path / "file").write_text("half a file that is longer than the new one")
    write_text(tmp_path / "file", "new")
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "new"


def test_a_missing_folder_is_named_by_the_file(tmp_path):
    path = tmp_path / "none" / "file"
    with pytest.raises(FileNotFoundError) as error:
        write_text(path, "new")
    assert error.value.filename == str(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_checkpoint_on_a_full_disk(size):
    """torch itself reports the position in its archive, as a RuntimeError."""
    with pytest.raises(OSError) as error:
        save_state({f"{i}": torch.ones(size) for i in range(9)}, Path("/dev/full"))
    assert error.value.errno == errno.ENOSPC


def test_hash_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("pet_fairseq.files.HASH_BLOCK", 7)
    for size in (0, 6, 7, 50):
        path = tmp_path / "file"
        path.write_bytes(bytes(range(size)))
        assert (
            hash_file(path, hashlib.sha256()).digest()
            == hashlib.sha256(bytes(range(size))).digest()
        )


def test_a_table_as_csv(tmp_path):
    path = tmp_path / "table.csv"
    write_csv(path, ["row", "title"], [["pet", 'a "b", c'], ["é", None], [1.5, "two\nlines"]])
    assert path.read_bytes().decode() == ('row,title\npet,"a ""b"", c"\né,\n1.5,"two\nlines"\n')
    assert read_csv(path) == [
        *({"row": "pet", "title": 'a "b", c'}, {"row": "é", "title": ""}),
        {"row": "1.5", "title": "two\nlines"},
    ]


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "reference").write_bytes("\ufeffa b\nc\n".encode())
    assert read_lines(tmp_path / "reference", "REFERENCE") == ["a b", "c"]


def test_lines_end_where_those_that_are_translated_do(tmp_path):
    path, text = tmp_path / "reference", "a\rb\x85c\u2028d\r\n\ne\x0c\x1cf\n"
    path.write_bytes(text.encode())
    lines = read_lines(path, "REFERENCE")
    assert lines == ["a\rb\x85c\u2028d", "", "e\x0c\x1cf"]
    assert lines == [line.text for line in lines_to_translate(str(path))]
