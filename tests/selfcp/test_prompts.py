"""Reading JSON lines: every record, one at a time, and what is refused."""

import gzip
import json
import tracemalloc
from itertools import pairwise

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.selfcp import prompts
from pet_fairseq.selfcp.prompts import Record, cut, read_paragraphs, read_records

GOOD = {"query": "is it?", "prompt": "it is.", "response": "yes"}
MOST = 10_000


def write(path, lines):
    content = b"".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def line(**changes):
    return json.dumps(GOOD | changes) + "\n"


def refuses(path, *texts, most=MOST):
    with pytest.raises(UserError) as error:
        list(read_records(path, most, "reading"))
    for text in (str(path), *texts):
        assert text in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_records_with_their_lines(name, tmp_path, capfd):
    """Empty fields but the response, other fields, other letters, empty lines, no last end."""
    prompt = "é 한 \U0001d54f\n\t" + "long " * 1500
    lines = ["\ufeff", line(), "\n", line(query="", prompt="", more=[1]), " \t\n"]
    path = write(tmp_path / name, [*lines, json.dumps(GOOD | {"prompt": prompt})])
    found = list(read_records(path, MOST, "testing"))
    assert found == [
        (f"{path}: line 1", Record(**GOOD)),
        (f"{path}: line 3", Record("", "", "yes")),
        (f"{path}: line 5", Record("is it?", prompt, "yes")),
    ]
    shown = capfd.readouterr().err
    assert f"testing {name}" in shown and "100%" in shown


@pytest.mark.parametrize(
    ("bad", "texts"),
    [
        (json.dumps({"query": "q", "prompt": "p"}), ("no field 'response'",)),
        (json.dumps({"query": "q", "response": "r"}), ("no field 'prompt'",)),
        (json.dumps({"prompt": "p", "response": "r"}), ("no field 'query'",)),
        ("{}", ("no field 'query'",)),
        (line(prompt=None), ("'prompt' is not a string",)),
        (line(query=5), ("'query' is not a string",)),
        (line(response=["yes"]), ("'response' is not a string",)),
        (line(response=""), ("'response' is empty",)),
        (line(response=" \n\u3000"), ("'response' is empty",)),
        ('["query", "prompt", "response"]', ("not a JSON object",)),
        ('"query"', ("not a JSON object",)),
        ("query: q\n", ("not JSON", "column 1")),
        (line()[:-10], ("not JSON",)),
        (line().strip() + line(), ("not JSON", "Extra data")),
        ("[" * 5000, ("not JSON",)),
        ('{"query": ' + "1" * 5000 + "}", ("not JSON",)),
        (b'{"query": "caf\xe9"}\n', ("not UTF-8", "0xe9 at byte 14")),
        ("\ufeff".encode("utf-16") + b"\n", ("not UTF-8", "at byte 0")),
        (line(prompt="x\ud83d"), ("'prompt'", "\\ud83d")),
    ],
)
def test_bad_records(bad, texts, tmp_path):
    path = write(tmp_path / "bad.jsonl", [line(), "\n", bad])
    refuses(path, "line 3:", *texts)


def test_whole_characters_of_two_halves(tmp_path):
    path = write(tmp_path / "a.jsonl", [line(prompt="\U0001f600")])
    assert "\\ud83d\\ude00" in path.read_text()
    assert next(read_records(path, MOST, "reading"))[1].prompt == "\U0001f600"


@pytest.mark.parametrize("content", [[], ["\n", "  \n"]])
def test_no_records(content, tmp_path):
    refuses(write(tmp_path / "none.jsonl", content), "no records")


def test_damaged_archives(tmp_path):
    whole = write(tmp_path / "a.gz", [line(prompt=str(i)) for i in range(5000)]).read_bytes()
    cases = {"plain": line().encode(), "cut": whole[:-9], "broken": whole[:50] + b"\0" * 900}
    for name, content in cases.items():
        path = tmp_path / f"{name}.gz"
        path.write_bytes(content)
        refuses(path, "line ", "not gzip, or cut short")


# Sizes


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_longest_line(name, tmp_path):
    longest = len(line(prompt="x" * 500))
    path = write(tmp_path / name, [line(), line(prompt="x" * 500), line()])
    assert len(list(read_records(path, longest, "reading"))) == 3
    refuses(path, "line 2:", "0.0 MB, more than --max-record-mb", most=longest - 1)
    path = write(tmp_path / name, [line(prompt="x" * 3_000_000).strip()])
    refuses(path, "line 1:", " 3.0 MB, more than --max-record-mb 0.5;", most=500_000)


def test_a_line_too_large_is_not_in_memory(tmp_path):
    path = write(tmp_path / "large.jsonl", [line(), '{"query": "'])
    with path.open("r+b") as file:
        file.truncate(200_000_000)
    refused, most = peak(lambda: refuses(path, "line 2:", " 200.0 MB", most=1_000_000))
    assert refused and most < 5_000_000


def test_only_one_record_is_in_memory(tmp_path):
    path = write(tmp_path / "many.jsonl", (line(prompt="x" * 100_000) for _ in range(100)))
    count, most = peak(lambda: sum(1 for _ in read_records(path, 200_000, "reading")))
    assert count == 100 and most < 2_000_000


def peak(call):
    """True or the result, and the bytes that were needed for it at most."""
    tracemalloc.start()
    try:
        result = call()
        return True if result is None else result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_record_that_memory_does_not_hold(tmp_path, monkeypatch):
    def full(text):
        raise MemoryError

    monkeypatch.setattr(prompts.json, "loads", full)
    refuses(write(tmp_path / "a.jsonl", [line()]), "line 1:", "do not fit into memory")


# Texts


def test_paragraphs(tmp_path):
    path = write(tmp_path / "a.txt", ["one  two \n", "\n", " \u3000\n", '{"three": 3}'])
    found = list(read_paragraphs(path, MOST, "reading"))
    assert found == [(f"{path}: line 1", "one  two"), (f"{path}: line 4", '{"three": 3}')]
    assert list(read_paragraphs(write(tmp_path / "b.txt", []), MOST, "reading")) == []
    with pytest.raises(UserError, match=r"c\.txt: line 2: not UTF-8 \(0xff at byte 1"):
        list(read_paragraphs(write(tmp_path / "c.txt", ["a\n", b"b\xff\n"]), MOST, "reading"))
    with pytest.raises(UserError, match=r"line 1: 0\.0 MB, more than --max-record-mb 3e-06"):
        list(read_paragraphs(path, 3, "reading"))


def by_hand(text, most):
    """The same parts, a character at a time."""
    parts, part = [], ""
    for character in text:
        if len(part) == most and character != " ":
            blank = part.rfind(" ")
            head = part if blank < 1 else part[:blank]
            parts.append(head)
            part = part[len(head) :]
        elif len(part) == most:
            parts.append(part)
            part = ""
        part += character
    return [*parts, part]


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8, 100])
def test_cutting(most):
    for text in ("", "a", "ab cd efg h", "abcdefghijk", "  a  bcd   ", "to be or not to be " * 20):
        parts = list(cut(text, most))
        assert parts == by_hand(text, most)
        assert "".join(parts) == text and max(map(len, parts)) <= most
        cuts = [(a, b) for a, b in pairwise(parts) if b[0] != " "]
        assert all(" " not in a[1:] for a, b in cuts)
