"""Pieces of bytes become characters, as the library SentencePiece decodes them."""

import pytest

from pet_fairseq.byte_pieces import join_bytes, join_bytes_in_text
from tests.byte_pieces import PIECES, TEXT, TEXTS, train


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train(tmp_path_factory.mktemp("model") / "spm.model")


def joined(pieces):
    return join_bytes(" ".join(pieces)).replace(" ", "").replace("\u2581", " ").strip()


def test_there_and_back(model):
    for text in TEXTS:
        pieces = model.encode(text, out_type=str)
        assert any(model.is_byte(model.piece_to_id(piece)) for piece in pieces)
        assert joined(pieces) == model.decode(pieces) == text


@pytest.mark.parametrize(
    "broken",
    ["<0xC3>", "<0xC3> \u2581 b", "a <0xE4> <0xB8> <0x41>", "<0xA9> <0xC3> <0xA9> <0xF0> <0x9F>"],
)
def test_bytes_of_no_character(broken, model):
    assert joined(broken.split()) == model.decode(broken.split())


def test_a_line_stays_a_line_and_a_space_a_space():
    assert join_bytes("a <0x0A> <0x0D> <0x20> b") == "a \u2581\u2581\u2581 b"
    assert join_bytes_in_text("a<0xC3><0xA9><0x0A>b") == "a\u00e9 b"


def test_what_is_no_byte():
    for piece in ("<0xc3>", "<0xC>", "<0x413>", "\u2581<0x41>", "<0x41>\u2581"):
        assert join_bytes(f"a {piece} b") == f"a {piece} b"


def test_in_a_text():
    assert join_bytes_in_text(f"{TEXT} <0xE4><0xB8><0xAD><0xC3>!") == f"{TEXT} \u4e2d\ufffd!"
    for text in (PIECES, "a<0xC3>b", "mov <0x41><0x0A>", ""):  # apart, no character, ASCII
        assert join_bytes_in_text(text) == text
