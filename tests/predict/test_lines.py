"""Files of texts, line by line."""

import os
import threading
import time

import pytest

from pet_fairseq.predict.lines import (
    BLOCK,
    MOST_LINES,
    WINDOW,
    read_ahead,
    read_lines,
    read_text,
    read_windows,
    whole_lines,
)


@pytest.mark.parametrize("form, line", [("text", "a \ufeff b"), ("jsonl", '"a \ufeff b"')])
def test_a_byte_order_mark_is_no_part_of_the_text(form, line, tmp_path):
    """At the start of the file, where some programs write it; elsewhere it is a character."""
    (tmp_path / "texts").write_text(f"{line}\n{line}\n", encoding="utf-8-sig")
    lines = read_lines(str(tmp_path / "texts"))
    assert [read_text(line, form) for line in lines] == ["a \ufeff b"] * 2


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"a",
        b"a\r\n\r\nb",
        b"\xef\xbb\xbfa\n\xef\xbb\xbfb\xff\n",
        b"\n" * (3 * BLOCK),
        b"a b\n" * 5_000,
        b"x" * (3 * WINDOW) + b"\ny\n" + b"z" * BLOCK,
    ],
    ids=lambda text: str(len(text)),
)
def test_windows_hold_the_same_lines(text, tmp_path):
    file = str(tmp_path / "texts")
    (tmp_path / "texts").write_bytes(text)
    windows = list(read_windows(file))
    assert [line for window in windows for line in window] == list(read_lines(file))
    for window in windows:
        longest = max(len(line.text) for line in window)
        assert 0 < len(window) <= MOST_LINES + BLOCK
        assert sum(len(line.text) + 1 for line in window) <= WINDOW + BLOCK + longest


def test_a_pause_ends_a_window():
    """What has been written is read, without the line that has only begun."""
    reader, writer = os.pipe()
    with open(reader, "rb", 0) as raw, open(writer, "wb", 0) as out:
        in_the_end = threading.Timer(20, out.close)  # lines that are kept would be waited for
        in_the_end.daemon = True
        in_the_end.start()
        lines = whole_lines(raw)
        out.write(b"a\nb\nhalf")
        assert next(lines) == [b"a", b"b"]
        out.write(b" line\n")
        assert next(lines) == [b"half line"]
        out.write(b"end")
        out.close()
        assert list(lines) == [[b"end"]]
        in_the_end.cancel()


def test_the_next_window_is_read_while_one_is_worked_on():
    read = threading.Semaphore(0)

    def windows():
        for number in range(5):
            read.release()
            yield number

    ahead = read_ahead(windows())
    assert next(ahead) == 0
    for _ in range(2):  # the one that is worked on, and the next
        assert read.acquire(timeout=20)
    assert list(ahead) == [1, 2, 3, 4]


def test_an_error_comes_after_the_windows_before_it():
    def windows():
        yield "a"
        yield "b"
        raise ValueError("bad line")

    ahead = read_ahead(windows())
    assert [next(ahead), next(ahead)] == ["a", "b"]
    with pytest.raises(ValueError, match="bad line"):
        next(ahead)


def test_a_pipe_that_does_not_wait_ends_nothing():
    """Its `read` gives None where nothing has been written yet."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)

    def write():
        for line in (b"a\n", b"b\n"):
            time.sleep(0.3)
            os.write(writer, line)
        os.close(writer)

    thread = threading.Thread(target=write)
    thread.start()
    with open(reader, "rb", buffering=0) as raw:
        lines = [line for window in whole_lines(raw) for line in window]
    thread.join()
    assert lines == [b"a", b"b"]
