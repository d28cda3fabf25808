"""Raw text for a student: pairs of lines stay pairs."""

from types import SimpleNamespace

import pytest

from pet_fairseq.compress import raw_text
from pet_fairseq.compress.raw_text import SOURCE, TARGET, parallel, write_corpus_text
from pet_fairseq.errors import UserError


def test_a_carriage_return_within_a_line_is_a_space(tmp_path):
    """Else it would end a line wherever the text is read that is made of it."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"a\rb\r\nc\nd")
    target.write_bytes(b"a\nb\rc\r\rd\nd\r\n")
    texts = [(first.text, second.text) for first, second in parallel(source, target)]
    assert texts == [("a b", "a"), ("c", "b c  d"), ("d", "d")]
    target.write_bytes(b"a\nb\n")
    with pytest.raises(UserError, match=r"target: ends after 2 lines, but .*source goes on"):
        list(parallel(source, target))


def test_a_line_break_in_a_translation_is_a_space(tmp_path, monkeypatch):
    """Byte-level subwords can spell one."""
    for number, lines in enumerate([("a b\n", "c Ċ d\n"), ("e\n", "Ċ\n")]):
        for side, line in zip((SOURCE, TARGET), lines):
            (tmp_path / f"{number}.{side}").write_text(line)
    shards = [tuple(tmp_path / f"{n}.{side}" for side in (SOURCE, TARGET)) for n in range(2)]
    text = SimpleNamespace(decode=lambda line: line.replace(" ", "").replace("Ċ", "\n"))
    teacher = SimpleNamespace(segmenter=lambda: SimpleNamespace(source=text, target=text))
    monkeypatch.setattr(raw_text, "open_teacher", lambda path: teacher)
    monkeypatch.setattr(raw_text, "complete_shards", lambda folder: shards)
    write_corpus_text(tmp_path, tmp_path, tmp_path / "text")
    assert (tmp_path / "text" / SOURCE).read_text() == "ab\ne\n"
    assert (tmp_path / "text" / TARGET).read_text() == "c d\n \n"
