"""Files of texts, line by line."""

import pytest

from pet_fairseq.predict.lines import read_lines, read_text


@pytest.mark.parametrize("form, line", [("text", "a \ufeff b"), ("jsonl", '"a \ufeff b"')])
def test_a_byte_order_mark_is_no_part_of_the_text(form, line, tmp_path):
    """At the start of the file, where some programs write it; elsewhere it is a character."""
    (tmp_path / "texts").write_text(f"{line}\n{line}\n", encoding="utf-8-sig")
    lines = read_lines(str(tmp_path / "texts"))
    assert [read_text(line, form) for line in lines] == ["a \ufeff b"] * 2
