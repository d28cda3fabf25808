#!/usr/bin/env python3
"""`pet-fairseq translate` beside CTranslate2's own translate_file, with the same engine and text.

Both read a file of text and write one, a line for a line, with the same model, beam, batch size and
threads, and SentencePiece around it; both load the model. They take turns, the first round warms
up, and the ratio is the median of those within each round.

    python scripts/benchmarks/translate_file.py ENGINE TEXT      # ENGINE: export --to ctranslate2
"""

import logging
import statistics
import sys
import tempfile
from argparse import Namespace
from functools import partial
from pathlib import Path

import ctranslate2
import sentencepiece
from harness import Parser, median_ratio, report, seconds, take_turns

from pet_fairseq.files import read_lines
from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.predict.commands import TRANSLATE
from pet_fairseq.predict.translate import translate

SIZES = {"--beams": [1, 5], "--threads": 2, "--batch-size": 32, "--rounds": 3, "--length": 200}
TINY = {"--beams": [1], "--threads": 1, "--batch-size": 2, "--rounds": 1, "--length": 20}
COLUMNS = {
    "beam": "d",
    "translate, lines/s": format_speed,
    "translate_file": format_speed,
    "ratio": format_ratio,
}


def by_translate(args: Namespace, beam: int, out: Path) -> None:
    options = ["--device", "cpu", "--beam", beam, "--threads", args.threads]
    options += ["--batch-size", args.batch_size, "--input", args.text, "--output", out]
    translate(TRANSLATE.parse([str(word) for word in (args.engine, *options)]), [])


def by_engine(args: Namespace, beam: int, out: Path) -> None:
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(args.engine / "spm.model"))
    translator = ctranslate2.Translator(
        str(args.engine), inter_threads=args.threads, intra_threads=1
    )
    translator.translate_file(
        str(args.text),
        str(out),
        max_batch_size=args.batch_size,
        beam_size=beam,
        max_decoding_length=args.length,
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
    lines = len(read_lines(args.text, "TEXT"))
    with (
        tempfile.TemporaryDirectory() as folder,
        report(args, f"{lines:,} lines", COLUMNS) as table,
    ):
        for beam in args.beams:
            ways = {
                way: partial(seconds, "cpu", way, args, beam, Path(folder, way.__name__))
                for way in (by_translate, by_engine)
            }
            taken = take_turns(ways, args.rounds)
            ours, theirs = ([lines / each for each in taken[way]] for way in ways)
            speeds = statistics.median(ours), statistics.median(theirs)
            table.add_row(beam, *speeds, median_ratio(ours, theirs))


if __name__ == "__main__":
    main()
