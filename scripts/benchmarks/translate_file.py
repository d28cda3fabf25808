#!/usr/bin/env python3
"""`pet-fairseq translate` beside CTranslate2's own translate_file, with the same engine and text.

Both read a file of text and write one, a line for a line, with the same model, beam, batch size and
threads, and SentencePiece around it; both load the model. They take turns, the first round warms
up, and the ratio is the median of those within each round.

    python scripts/benchmarks/translate_file.py ENGINE TEXT      # ENGINE: export --to ctranslate2
"""

import logging
import sys
import tempfile
from functools import partial
from pathlib import Path

import ctranslate2
import sentencepiece
from harness import Parser, median_ratio, report, seconds, take_turns

from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.predict.commands import TRANSLATE
from pet_fairseq.predict.translate import translate

SIZES = {"--beams": [1, 5], "--threads": 2, "--batch-size": 32, "--rounds": 3}
TINY = {"--beams": [1], "--threads": 1, "--batch-size": 2, "--rounds": 1}
COLUMNS = {
    "beam": "d",
    "translate, lines/s": format_speed,
    "translate_file": format_speed,
    "ratio": format_ratio,
}


def by_translate(engine: Path, text: Path, out: Path, beam: int, threads: int, size: int) -> None:
    words = ["--device", "cpu", "--beam", beam, "--threads", threads, "--batch-size", size]
    files = [engine, "--input", text, "--output", out]
    translate(TRANSLATE.parse([str(word) for word in (*files, *words)]), [])


def by_engine(engine: Path, text: Path, out: Path, beam: int, threads: int, size: int) -> None:
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(engine / "spm.model"))
    translator = ctranslate2.Translator(str(engine), inter_threads=threads, intra_threads=1)
    translator.translate_file(
        str(text),
        str(out),
        max_batch_size=size,
        beam_size=beam,
        max_decoding_length=200,
        source_tokenize_fn=lambda line: pieces.encode(line, out_type=str),
        target_detokenize_fn=pieces.decode,
    )


def main() -> None:
    parser = Parser(__doc__, SIZES, TINY, ("--out", "--csv"))
    parser.add_argument("engine", type=Path, metavar="ENGINE")
    parser.add_argument("text", type=Path, metavar="TEXT")
    args = parser.parse_args()
    if not (args.engine / "spm.model").is_file():
        sys.exit(f"{args.engine}: has no spm.model; export a student with SentencePiece")
    logging.disable(logging.WARNING)
    lines = len(args.text.read_text(encoding="utf-8").splitlines())
    with (
        tempfile.TemporaryDirectory() as folder,
        report(args, f"{lines:,} lines", COLUMNS) as table,
    ):
        for beam in args.beams:
            ways = {
                name: partial(
                    *(seconds, "cpu", way, args.engine, args.text, Path(folder, name)),
                    *(beam, args.threads, args.batch_size),
                )
                for name, way in (("ours", by_translate), ("theirs", by_engine))
            }
            taken = take_turns(ways, args.rounds)
            ours, theirs = ([lines / each for each in taken[name]] for name in ways)
            table.add_row(
                *(beam, sorted(ours)[len(ours) // 2], sorted(theirs)[len(theirs) // 2]),
                median_ratio(ours, theirs),
            )


if __name__ == "__main__":
    main()
