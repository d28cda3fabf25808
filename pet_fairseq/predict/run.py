"""What the commands do: files of texts become answers, or the words of a dictionary."""

import itertools
import json
from argparse import Namespace
from typing import NamedTuple, Optional

from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.predict.bad_lines import Bad, BadLines, broken_bytes, report
from pet_fairseq.predict.lines import (
    Line,
    check_input,
    format_of,
    read_lines,
    read_text,
    without_line_breaks,
)
from pet_fairseq.predict.load_model import load
from pet_fairseq.predict.predictor import Encoded, Predictor
from pet_fairseq.predict.sentences import (
    EmptyTextError,
    TextError,
    TextTooLongError,
    read_sentences,
)
from pet_fairseq.predict.text import build_text, parse_text_options

AT_ONCE = 1000  # texts that are sorted by their length and answered before more are read


class Reading(NamedTuple):
    """What became of a line.

    Attributes:
        encoded: what the model is to read, None if there is nothing.
        marks: what the answer says of the line beside the model's words. bad: the same, to count.
    """

    encoded: Optional[Encoded]
    marks: dict
    bad: tuple[Bad, ...] = ()


def predict(args: Namespace, text_options: list[str]) -> None:
    """Print the answers to the texts of a file, as JSON lines; see commands.py for args.

    Each line has its answer. At the end a line on stderr counts those that were bad.

    Raises:
        UserError: a model that cannot be used, a text that is refused, with --strict any that has
            no answer. OSError: files that cannot be read.
    """
    check_positive(max_tokens=args.max_tokens)
    check_input(args.input)
    predictor = load(args, text_options, cut_all=not args.strict)
    form = args.format or format_of(args.input)
    bad_lines = BadLines()
    lines = read_lines(args.input)
    while some := list(itertools.islice(lines, AT_ONCE)):
        readings = [read(predictor, line, form, args) for line in some]
        encoded = [reading.encoded for reading in readings if reading.encoded is not None]
        answers = iter(predictor.answer_all(encoded, args.ratio, args.max_tokens))
        for reading in readings:
            answer = predictor.no_answer if reading.encoded is None else next(answers)
            print(json.dumps({**answer, **reading.marks}, ensure_ascii=False))
            bad_lines.add(reading.bad)
    report(bad_lines, args.command)


def read(predictor: Predictor, line: Line, form: str, args: Namespace) -> Reading:
    """A line as the model reads it; args: with `strict` and `long_texts`.

    Raises:
        UserError: it is refused.
    """
    bad = broken_bytes(line, args.strict)
    marks = {"replaced": True} if bad else {}
    try:
        encoded = predictor.encode(read_sentences(read_text(line, form)))
    except TextError as error:
        refused = isinstance(error, TextTooLongError) and args.long_texts == "refuse"
        if args.strict or refused:
            raise UserError(f"{line.where}: {error}") from None
        if isinstance(error, EmptyTextError):
            return Reading(None, marks, (*bad, Bad.EMPTY))
        return Reading(None, {**marks, "skipped": str(error)}, (*bad, Bad.SKIPPED))
    return Reading(encoded, marks, (*bad, Bad.CUT) if encoded.truncated else bad)


def encode(args: Namespace, text_options: list[str]) -> None:
    """Print the lines of a file in the words of a dictionary.

    Raises:
        UserError, OSError: files that cannot be read, with --strict a line that is not UTF-8.
        SystemExit: wrong options.
    """
    check_input(args.input)
    text = build_text(parse_text_options(text_options, f"pet-fairseq {args.command}"))
    bad_lines = BadLines()
    for line in read_lines(args.input):
        bad = broken_bytes(line, args.strict)
        print(text.encode(without_line_breaks(line.text)))
        bad_lines.add(bad)
    report(bad_lines, args.command)
