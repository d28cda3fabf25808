"""SentencePiece for all languages together, with the dictionary that fairseq wants beside it.

python segment.py train PREFIX PIECES TEXT...    writes PREFIX.model and dict.txt beside it
python segment.py encode MODEL < TEXT            prints the text's pieces
"""

import argparse
import sys
from pathlib import Path

import sentencepiece

RESERVED = 3  # <unk>, <s> and </s>, which every dictionary of fairseq begins with


def train(prefix: Path, pieces: int, texts: list[Path]) -> None:
    sentencepiece.SentencePieceTrainer.train(
        input=[str(text) for text in texts],
        model_prefix=str(prefix),
        vocab_size=pieces,
        character_coverage=1.0,
        num_threads=1,  # the model depends on it
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    words = [model.id_to_piece(piece) for piece in range(RESERVED, len(model))]
    (prefix.parent / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))


def encode(model: Path) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for line in sys.stdin:
        print(" ".join(processor.encode(line.rstrip("\n"), out_type=str)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    trained = commands.add_parser("train")
    trained.add_argument("prefix", type=Path)
    trained.add_argument("pieces", type=int)
    trained.add_argument("texts", type=Path, nargs="+")
    commands.add_parser("encode").add_argument("model", type=Path)
    args = parser.parse_args()
    if args.command == "train":
        train(args.prefix, args.pieces, args.texts)
    else:
        encode(args.model)


if __name__ == "__main__":
    main()
