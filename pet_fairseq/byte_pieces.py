"""Pieces of SentencePiece that stand for one byte of a character, such as `<0xC3>`.

A model that was trained with `--byte_fallback` divides characters that it has no pieces for into
them; neither fairseq's `--bpe sentencepiece` nor its `--remove-bpe` joins them again.
"""

import re

SPACE = "\u2581"  # how SentencePiece writes a space
BYTE = "<0x[0-9A-F]{2}>"
PIECES = re.compile(rf"(?<!\S){BYTE}(?: {BYTE})*(?!\S)")
IN_TEXT = re.compile(f"(?:{BYTE})+")
BROKEN = re.compile("[\udc80-\udcff]")  # bytes of no character, decoded by surrogateescape


def join_bytes(pieces: str) -> str:
    """A line of pieces in which those of bytes have become characters, as SentencePiece decodes.

    A byte that is part of no character becomes U+FFFD, the end of a line a space.
    """
    return PIECES.sub(lambda run: re.sub("[ \r\n]", SPACE, characters(run[0])), pieces)


def join_bytes_in_text(text: str) -> str:
    """A text, whose pieces have been put together, with characters in place of bytes.

    Bytes without a character beyond ASCII among them stay: a text may have `<0x41>` itself.
    """

    def join(run: re.Match) -> str:
        joined = re.sub("[\r\n]", " ", characters(run[0]))
        return run[0] if joined.replace("\ufffd", "").isascii() else joined

    return IN_TEXT.sub(join, text)


def characters(run: str) -> str:
    values = bytes.fromhex("".join(re.findall("<0x(..)>", run)))
    return BROKEN.sub("\ufffd", values.decode("utf-8", errors="surrogateescape"))
