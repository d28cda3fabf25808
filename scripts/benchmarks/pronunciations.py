#!/usr/bin/env python3
"""Word errors, size and speed of models that pronounce words, beside the package g2p-en.

A model is NAME=FOLDER of what `pet-fairseq export` wrote, with words in letters between
blanks, as examples/cmudict has them. Where PRONUNCIATIONS have no stress, it is left out of what
is said. g2p-en was trained on most of these words, so its errors are too few. Its network alone
is asked (`G2p.predict`), not its dictionary. All of them work on one thread, in turn; the first
round warms up, the median of the others counts.

    pip install g2p-en && python -m nltk.downloader cmudict averaged_perceptron_tagger
    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    python scripts/benchmarks/pronunciations.py raw/test.letters raw/test.pronunciations \
        --models student=FOLDER ... [--beams 1 5] [--batch-sizes 1 64]
"""

import logging
import re
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch
from engines import translate
from harness import Parser, Report, report, take_turns, timed

import pet_fairseq
from pet_fairseq.compress.forms import folder_bytes
from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines
from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.predict.commands import TRANSLATE
from pet_fairseq.predict.engine import Engine
from pet_fairseq.predict.translate import open_engine
from pet_fairseq.results.word_errors import error_rates, parse_pronunciations

SIZES = {"--beams": [1, 5], "--batch-sizes": [1, 64], "--words": 1000, "--rounds": 4}
TINY = {"--beams": [1], "--batch-sizes": [3], "--words": 4, "--rounds": 2}
COLUMNS = {
    **{"model": "", "beam": "d", "batch": "d", "kB": ".0f"},
    **{"wrong words %": ".1f", "wrong phones %": ".2f"},
    **{"words/s": format_speed, "times the first": format_ratio},
}
G2P_EN = "g2p_en"
Row = tuple[str, int, int]  # a model, a beam, and how many words are in a batch
PER_WORD = 1  # g2p-en takes a word at a time


def name_and_path(model: str) -> tuple[str, str]:
    name, mark, path = model.partition("=")
    if not mark:
        raise UserError(f"--models {model}: give NAME=FOLDER")
    return name, path


def open_model(path: str, beam: int) -> Engine:
    words = [path, "--device", "cpu", "--threads", "1", "--beam", str(beam)]
    return open_engine(TRANSLATE.parse(words), ["--tokenizer", "space"])  # letters are words


def pronounce_by_g2p_en(model, words: list[str]) -> list[str]:
    return [" ".join(model.predict(word.replace(" ", ""))) for word in words]


def measure(args: Namespace, words: list[str], references: list[list[str]], result: Report) -> None:
    """Add a row for each model, beam and batch size."""
    has_stress = any(re.search(r"\d", spoken) for some in references for spoken in some)
    ways: dict[Row, Callable[[], tuple[float, list[str]]]] = {}
    sizes: dict[Row, int] = {}
    for name, path in map(name_and_path, args.models):
        for beam in args.beams:
            engine = open_model(path, beam)
            for size in args.batch_sizes:
                ways[name, beam, size] = partial(timed, "cpu", translate, engine, words, size)
                sizes[name, beam, size] = folder_bytes(Path(path))
    if find_spec(G2P_EN) is not None:
        package, row = import_module(G2P_EN), ("g2p-en", 1, PER_WORD)
        ways[row] = partial(timed, "cpu", pronounce_by_g2p_en, package.G2p(), words)
        sizes[row] = Path(package.__path__[0], "checkpoint20.npz").stat().st_size
    rounds = take_turns(ways, args.rounds)
    first = None
    for (name, beam, size), some in rounds.items():
        speed = len(words) / statistics.median(seconds for seconds, _ in some)
        first = first or speed
        said = some[0][1]
        if not has_stress:
            said = [re.sub(r"\d", "", spoken) for spoken in said]
        rates = error_rates(said, references)
        kilobytes = sizes[name, beam, size] / 1000
        result.add_row(name, beam, size, kilobytes, rates.wer, rates.per, speed, speed / first)


def main() -> None:
    parser = Parser(__doc__, SIZES, TINY, ("--out", "--csv"))
    parser.add_argument("letters", type=Path, metavar="WORDS", help="words in letters, one a line")
    parser.add_argument("pronunciations", type=Path, metavar="PRONUNCIATIONS")
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=FOLDER")
    args = parser.parse_args()
    pet_fairseq.register()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    try:
        words = read_lines(args.letters, "WORDS")
        lines = read_lines(args.pronunciations, "PRONUNCIATIONS")
        references = parse_pronunciations(lines, args.pronunciations, "PRONUNCIATIONS")
        if len(words) != len(references):
            raise UserError(
                f"WORDS {args.letters}: {len(words)} words, but {args.pronunciations} has "
                f"{len(references)} lines; give files of the same words"
            )
        chosen = range(0, len(words), -(-len(words) // args.words))
        about = f"{len(chosen)} words, one core"
        with report(args, about, COLUMNS) as result:
            measure(args, [words[i] for i in chosen], [references[i] for i in chosen], result)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
