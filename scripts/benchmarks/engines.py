#!/usr/bin/env python3
"""Speed of one student in each engine: text in, text out, on one core, in batches of some sizes.

A model is NAME=PATH of whatever `pet-fairseq translate` opens: a checkpoint of fairseq, or a folder
of `pet-fairseq export` for CTranslate2, ONNX Runtime or Bergamot. A folder of Hugging Face is
opened by transformers itself. All models are loaded in this process, on one thread (Bergamot in a
process of Node, which has one), and translate the same sentences in turn; the first round warms up,
the median of the others counts. Sentences are taken at equal distances from TEXT.

    python scripts/benchmarks/engines.py TEXT --models teacher=FOLDER ctranslate2=FOLDER ... \
        [--beams 1 5] [--batch-sizes 1 32] [--reference FILE]
"""

import logging
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Optional

import torch
from harness import Parser, Report, report, take_turns, timed

import pet_fairseq
from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines
from pet_fairseq.huggingface.source import CONFIG
from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.predict.batches import BatchLimit
from pet_fairseq.predict.commands import TRANSLATE
from pet_fairseq.predict.ctranslate2 import find_ctranslate2
from pet_fairseq.predict.engine import Engine
from pet_fairseq.predict.onnx import find_onnx
from pet_fairseq.predict.translate import open_engine
from pet_fairseq.results.bleu import cached_bleu

SIZES = {"--beams": [1, 5], "--batch-sizes": [1, 32], "--sentences": 200, "--rounds": 3}
TINY = {"--beams": [1], "--batch-sizes": [1, 3], "--sentences": 4, "--rounds": 1}
COLUMNS = {
    **{"beam": "d", "batch": "d", "model": "", "sentences/s": format_speed},
    **{"times the first": format_ratio, "BLEU": ".2f"},
}
# the translations of texts, in batches of at most so many
Translate = Callable[[list[str], int], list[str]]


def open_model(path: str, data: Optional[str], beam: int) -> Translate:
    """What translates with a model.

    Raises:
        UserError: there is no such model, or it cannot be used.
    """
    is_exported = find_ctranslate2(path) or find_onnx(path)
    if Path(path, CONFIG).is_file() and not is_exported:
        tokenizer, model = open_transformers(path)
        return partial(translate_with_transformers, tokenizer, model, beam)
    words = [path, "--device", "cpu", "--threads", "1", "--beam", str(beam)]
    words += ["--data", data] if data else []
    return partial(translate, open_engine(TRANSLATE.parse(words), []))


def translate(engine: Engine, texts: list[str], batch_size: int) -> list[str]:
    found = engine.translate(
        [engine.tokenise(text) for text in texts], BatchLimit(batch_size, counts_tokens=False)
    )
    return [engine.detokenise(best) for best, *_ in found]


def open_transformers(path: str):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    return AutoTokenizer.from_pretrained(path), AutoModelForSeq2SeqLM.from_pretrained(path).eval()


def translate_with_transformers(
    tokenizer, model, beam: int, texts: list[str], batch_size: int
) -> list[str]:
    lengths = [len(text) for text in texts]
    translations = [""] * len(texts)
    for batch in BatchLimit(batch_size, counts_tokens=False).batches(lengths):
        words = tokenizer([texts[i] for i in batch], return_tensors="pt", padding=True)
        with torch.inference_mode():
            found = model.generate(**words, num_beams=beam)
        for i, line in zip(batch, tokenizer.batch_decode(found, skip_special_tokens=True)):
            translations[i] = line
    return translations


def some_lines(file: Path, number: int) -> list[str]:
    """So many lines of a file at equal distances, all if it has no more."""
    lines = read_lines(file, "TEXT")
    number = min(number, len(lines))
    return [lines[i * len(lines) // number] for i in range(number)]


def measure(args: Namespace, texts: list[str], models: dict[str, str], result: Report) -> None:
    """Add a row for each beam, batch size and model."""
    references = args.reference and some_lines(args.reference, args.sentences)
    for beam in args.beams:
        opened = {name: open_model(path, args.data, beam) for name, path in models.items()}
        for size in args.batch_sizes:
            ways = {
                name: partial(timed, "cpu", model, texts, size) for name, model in opened.items()
            }
            rounds = take_turns(ways, args.rounds)
            speeds = {
                name: len(texts) / statistics.median(seconds for seconds, _ in some)
                for name, some in rounds.items()
            }
            for name, speed in speeds.items():
                lines = rounds[name][0][1]
                bleu = references and cached_bleu(references).corpus_score(lines, None).score
                result.add_row(beam, size, name, speed, speed / next(iter(speeds.values())), bleu)


def main() -> None:
    parser = Parser(__doc__, SIZES, TINY, ("--out", "--csv"))
    parser.add_argument("text", type=Path, metavar="TEXT", help="sentences, one a line")
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=PATH")
    parser.add_argument("--data", metavar="BIN", help="for checkpoints of fairseq")
    parser.add_argument("--reference", type=Path, metavar="FILE", help="TEXT, translated")
    args = parser.parse_args()
    models = dict(model.split("=", 1) for model in args.models)
    pet_fairseq.register()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    try:
        texts = some_lines(args.text, args.sentences)
        about = f"{len(texts)} sentences, text to text, one core"
        with report(args, about, COLUMNS) as result:
            measure(args, texts, models, result)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
