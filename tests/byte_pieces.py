"""A SentencePiece model with `--byte_fallback`, and texts of which it knows some characters."""

from pathlib import Path

import sentencepiece

TEXTS = ["ab caf\u00e9 \U0001f600\u4e2dA", "a<0x41>b", "b \u00e9\u00e9 A"]
PIECES = "\u2581a <0xC3> <0xA9> <0xC3> <0xA9> b \u2581 <0x41>"  # as a model gives them
TEXT = "a\u00e9\u00e9b A"


def train(file: Path) -> sentencepiece.SentencePieceProcessor:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ab ba abba"] * 20),
        model_prefix=str(file.with_suffix("")),
        vocab_size=264,
        byte_fallback=True,
        minloglevel=2,
    )
    trained = file.with_suffix(".model")
    if trained != file:
        trained.rename(file)
    return sentencepiece.SentencePieceProcessor(model_file=str(file))
