"""Lines that are longer than a model reads: cut, or split where sentences end."""

import re
from collections.abc import Iterable
from typing import Optional

from pet_fairseq.predict.bad_lines import Bad
from pet_fairseq.predict.engine import Engine
from pet_fairseq.predict.lines import without_line_breaks

LONGEST_WORD = 1000  # characters; the time that some BPEs take grows with the square of them
CJK_END = "[\u3002\uff01\uff1f]"  # Chinese and Japanese marks, which no space follows
# the beginning of a longer word, as far as a mark where a space does no harm
WORD_BEGINNING = re.compile(
    rf"(?=\S{{{LONGEST_WORD}}})(?:\S{{,{LONGEST_WORD - 1}}}{CJK_END}|\S{{{LONGEST_WORD}}})"
)
# where a long line may be split: behind a mark that ends a sentence, and a quote or bracket
SENTENCE_END = re.compile(
    r"(?<=[.!?\u2026])\s+"
    r"|(?<=[.!?\u2026][\"'\u201d\u2019\u00bb)\]])\s+"
    rf"|(?<={CJK_END})"
)


def split_to_fit(
    engine: Engine, text: str, long_lines: str
) -> tuple[list[list[str]], Optional[Bad]]:
    """The tokens of a line in pieces that the model can read, and what was done to it for that.

    Args:
        long_lines: "cut": the first piece has as much as fits, and there is no other; "split":
            pieces end where sentences end, and inside sentences that do not fit themselves.
    """
    text = WORD_BEGINNING.sub(r"\g<0> ", without_line_breaks(text))
    tokens = engine.tokenise(text)
    if len(tokens) <= engine.room:
        return [tokens] if tokens else [], None
    if long_lines == "cut":
        return [tokens[: engine.room]], Bad.CUT
    sentences = [engine.tokenise(sentence) for sentence in SENTENCE_END.split(text)]
    return fill(sentences, engine.room), Bad.SPLIT


def fill(sentences: Iterable[list[str]], room: int) -> list[list[str]]:
    """Pieces of at most `room` tokens, as many whole sentences in each as fit."""
    pieces: list[list[str]] = []
    for sentence in sentences:
        if pieces and len(pieces[-1]) + len(sentence) <= room:
            pieces[-1] += sentence
        else:
            pieces += [sentence[i : i + room] for i in range(0, len(sentence), room)]
    return pieces
