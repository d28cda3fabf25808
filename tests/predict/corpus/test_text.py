"""Reading and skipping the lines of several files, plain and compressed."""

import gzip
import random

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.predict.corpus import text as module
from pet_fairseq.predict.corpus.text import LONGEST, TextReader, check_text

LINES = [b"", b"a b", b"c\r", b"\xff d", b"x" * (LONGEST - 1), b"y" * (3 * LONGEST), b"z " * 50]


def compress(content: bytes, kind: str) -> bytes:
    """In two members, as when files were joined."""
    half = len(content) // 2
    if kind == "":
        return content
    if kind == ".gz":
        return gzip.compress(content[:half]) + gzip.compress(content[half:])
    zstandard = pytest.importorskip("zstandard")
    return zstandard.compress(content[:half]) + zstandard.compress(content[half:])


def write(folder, draw, kinds) -> tuple[list[str], list[str]]:
    """Some files, and their lines as a reader has them."""
    names, texts = [], []
    for number, kind in enumerate(kinds):
        lines = [draw.choice(LINES) for _ in range(draw.randint(0, 30))]
        end = draw.choice([b"\n", b""]) if lines and lines[-1] else b"\n"
        content = b"\n".join(lines) + end if lines else b""
        names.append(str(folder / f"{number}{kind}"))
        (folder / f"{number}{kind}").write_bytes(compress(content, kind))
        texts += [line[:LONGEST].decode(errors="replace").rstrip("\r\n") for line in lines]
    return names, texts


@pytest.mark.parametrize("kinds", [("",), ("", "", ""), (".gz", ""), (".zst", ".gz")])
def test_skipping_is_reading_without_looking(kinds, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BUFFER", 1_000)  # so that lines lie across its ends
    draw = random.Random(len(kinds))
    for _ in range(20):
        names, texts = write(tmp_path, draw, kinds)
        reader = TextReader(names)
        assert [line.text for line in reader] == texts
        assert reader.ended and reader.part_read == 1 and reader.number == len(texts)
        skipped = draw.randint(0, len(texts) + 3)
        reader = TextReader(names)
        reader.skip(skipped)
        assert reader.number == min(skipped, len(texts))
        assert reader.ended == (skipped >= len(texts))
        assert [line.text for line in reader] == texts[skipped:]


def test_lines_are_named_by_file_and_number(tmp_path):
    (tmp_path / "a").write_text("\ufeffone\ntwo")
    (tmp_path / "b").write_text("three\n")
    lines = list(TextReader([str(tmp_path / "a"), str(tmp_path / "b")]))
    assert [line.where for line in lines] == [
        f"--text {tmp_path}/{place}" for place in ("a, line 1", "a, line 2", "b, line 1")
    ]
    assert [line.text for line in lines] == ["one", "two", "three"]


@pytest.mark.parametrize("kind", [".gz", ".zst"])
def test_damaged_files(kind, tmp_path):
    path = tmp_path / f"text{kind}"
    whole = compress(b"".join(b"%d\n" % i for i in range(50_000)), kind)
    for content, message in (
        (whole[:-9], "ends too early; copy or fetch the file again"),
        (whole[: len(whole) // 3], "ends too early"),
        (b"", "ends too early"),
        (b"a text of words\n" * 9, "damaged, or not compressed so"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=message) as error:
            list(TextReader([str(path)]))
        assert str(error.value).startswith(f"--text {path}: ")


def test_zstandard_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    (tmp_path / "text.zst").write_bytes(b"x")
    with pytest.raises(UserError, match=r"need zstandard; pip install 'pet-fairseq\[zst\]'"):
        check_text([str(tmp_path / "text.zst")])


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "no line has words"),
        (b"\n \n\t\n", "no line has words"),
        ("ein Hund\n".encode("utf-16"), "UTF-16; convert it to UTF-8"),
        ("ein Hund\n".encode("utf-16-le"), "UTF-16, or no text"),
        ("\u4e00\u4e8c\u4e09\u3002\n".encode("utf-16-be") * 9, "UTF-16, or no text"),
        (gzip.compress(bytes(random.Random(1).choices(b"abcd ", k=9_000))), "UTF-16, or no text"),
        (
            "ein Hund\nM\xe4dchen\n".encode("latin-1") * 20,
            "of the first 20 lines that are not ASCII",
        ),
    ],
)
def test_no_text(content, message, tmp_path):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(UserError, match=message):
        check_text([str(tmp_path / "text")])
    (tmp_path / "more").write_text("words\n")
    if not content.strip():  # but of several files one may have none
        check_text([str(tmp_path / "text"), str(tmp_path / "more")])


def test_some_damage_is_no_other_encoding(tmp_path):
    """A zero byte somewhere, some broken lines, and a character that is cut where we look."""
    good = "M\u00e4dchen \u4e00\n".encode()
    for content in (
        b"a\0b\n" + good * 100,
        b"\xe4\n" * 10,
        b"\xe4\n" * 50 + good * 51,
        good * 9_000,
    ):
        (tmp_path / "text").write_bytes(content)
        check_text([str(tmp_path / "text")])


def test_zeros_behind_a_compressed_text(tmp_path):
    """As tape drives and some mirrors leave them; gzip itself passes over them."""
    (tmp_path / "a.gz").write_bytes(compress(b"a\nb\n", ".gz") + bytes(3000))
    lines = TextReader([str(tmp_path / "a.gz")])
    assert [line.text for line in lines] == ["a", "b"]
