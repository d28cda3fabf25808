"""How the lines of a text become pieces that a model can read."""

import pytest

from pet_fairseq.predict.bad_lines import Bad, BadLines
from pet_fairseq.predict.batches import BatchLimit
from pet_fairseq.predict.lines import Line
from pet_fairseq.predict.long_lines import LONGEST_WORD, split_to_fit
from pet_fairseq.predict.translate import segment_lines, translate_lines, without_line_breaks

LINE_BREAKS = [c for c in map(chr, range(0x3000)) if len(f"a{c}b".splitlines()) > 1]


class Echo:
    """Reads up to ten words, and says each piece back between brackets."""

    room = 10

    def tokenise(self, text):
        return text.split()

    def translate(self, sources, limit):
        return [[f"[{' '.join(source)}]", "worse"] for source in sources]

    def detokenise(self, pieces):
        return pieces


def pieces(text, long_lines="split"):
    found, bad = split_to_fit(Echo(), text, long_lines)
    return [" ".join(piece) for piece in found], bad


def test_what_fits_stays_whole():
    assert pieces("a b. c d.") == (["a b. c d."], None)
    assert pieces(" a " * 10) == (["a " * 9 + "a"], None)
    assert pieces("") == pieces(" \t\u2003 ") == ([], None)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a b c d. e f g h! i j k? l.", ["a b c d. e f g h!", "i j k? l."]),
        ('a b c d e "f g." (h i.) j k l', ['a b c d e "f g." (h i.)', "j k l"]),
        ("a 1.5 b c d e f g h i. j k.", ["a 1.5 b c d e f g h i.", "j k."]),
        ("a b c. " + "x " * 21 + "y. z.", ["a b c.", "x " * 9 + "x", "x " * 9 + "x", "x y. z."]),
    ],
)
def test_long_lines_are_split_where_sentences_end(text, expected):
    assert pieces(text) == (expected, Bad.SPLIT)


def test_marks_that_no_space_follows():
    class Letters(Echo):
        def tokenise(self, text):
            return list(text)

    found, _ = split_to_fit(Letters(), "\u4e00\u4e8c\u4e09\u3002" * 3, "split")
    assert ["".join(piece) for piece in found] == [
        "\u4e00\u4e8c\u4e09\u3002" * 2,
        "\u4e00\u4e8c\u4e09\u3002",
    ]


def test_nothing_is_lost_or_too_long():
    text = " ".join(f"w{i}{'.' * (i % 17 == 0)}" for i in range(1_000))
    found, _ = pieces(text)
    assert " ".join(found) == text and max(len(piece.split()) for piece in found) <= 10


def test_cut():
    assert pieces("a b c. " * 5, "cut") == (["a b c. a b c. a b c. a"], Bad.CUT)


def test_words_without_end_are_split():
    found, _ = pieces("x" * (2 * LONGEST_WORD + 5))
    assert [len(word) for word in found[0].split()] == [LONGEST_WORD, LONGEST_WORD, 5]


def test_text_without_spaces_is_split_behind_a_mark():
    sentence = "\u4e00" * 29 + "\u3002"
    words = pieces(sentence * 100)[0][0].split()
    assert "".join(words) == sentence * 100 and max(map(len, words)) <= LONGEST_WORD
    assert all(word.endswith("\u3002") for word in words)
    assert len(words) == 4  # 33 sentences each, and what is left


def test_a_line_for_a_line():
    counts = BadLines()
    lines = [Line("1", "a"), Line("2", ""), Line("3", "b. " * 12, broken=0), Line("4", "c")]
    sources = segment_lines(Echo(), lines, "split", False, counts)
    found = list(translate_lines(Echo(), sources, BatchLimit(1)))
    assert found == ["[a]", "", "[" + "b. " * 9 + "b.] [b. b.]", "[c]"]
    assert counts.summary() == "1 of 4 lines: 1 split (line 3), 1 with broken bytes (line 3)"
    assert without_line_breaks("a\r\nb\nc") == "a  b c"


@pytest.mark.parametrize("character", LINE_BREAKS)
def test_a_line_break_within_a_line_divides_words(character):
    """SentencePiece would join the words around some of them."""

    class OneSpace(Echo):
        def tokenise(self, text):
            return text.split(" ")

    found, bad = split_to_fit(OneSpace(), f"a{character}b", "split")
    assert (found, bad) == ([["a", "b"]], None)


def test_batches():
    lengths = [3, 1, 2, 9]
    assert BatchLimit(4).batches(lengths) == [[1, 2], [0], [3]]
    assert BatchLimit(3, counts_tokens=False).batches(lengths) == [[1, 2, 0], [3]]
