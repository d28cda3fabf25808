"""What the commands do: files of texts become answers, or the words of a dictionary."""

import itertools
import json
import logging
from argparse import Namespace

from pet_fairseq.errors import check_positive
from pet_fairseq.predict.lines import format_of, read_lines, read_text
from pet_fairseq.predict.load_model import load
from pet_fairseq.predict.text import build_text, parse_text_options

AT_ONCE = 1000  # texts that are sorted by their length and answered before more are read


def predict(args: Namespace, text_options: list[str]) -> None:
    """Print the answers to the texts of a file, as JSON lines; see commands.py for args.

    Raises:
        UserError: a model or a text that cannot be used. OSError: files that cannot be read.
    """
    check_positive(max_tokens=args.max_tokens)
    logging.getLogger("fairseq").setLevel(logging.WARNING)  # it turns on every logger
    predictor = load(args, text_options)
    form = args.format or format_of(args.input)
    lines = read_lines(args.input)
    while some := list(itertools.islice(lines, AT_ONCE)):
        encoded = [predictor.encode_named(read_text(line, form), line.where) for line in some]
        for answer in predictor.answer_all(encoded, args.ratio, args.max_tokens):
            print(json.dumps(answer, ensure_ascii=False))


def encode(args: Namespace, text_options: list[str]) -> None:
    """Print the lines of a file in the words of a dictionary.

    Raises:
        UserError, OSError: files that cannot be read. SystemExit: wrong options.
    """
    text = build_text(parse_text_options(text_options, f"pet-fairseq {args.command}"))
    for line in read_lines(args.input):
        print(text.encode(line.text))
