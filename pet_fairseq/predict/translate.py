"""`pet-fairseq translate`: a line of text in, its translation out."""

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import torch

from pet_fairseq.checkpoints.model_files import find_checkpoint
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.files import atomic_file, check_folder
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.huggingface.source import CONFIG
from pet_fairseq.predict.bad_lines import BadLines, broken_bytes, report
from pet_fairseq.predict.batches import BatchLimit
from pet_fairseq.predict.bergamot import find_marian, open_marian
from pet_fairseq.predict.ctranslate2 import find_ctranslate2, open_ctranslate2
from pet_fairseq.predict.engine import Engine, FairseqEngine
from pet_fairseq.predict.lines import (
    Line,
    check_input,
    read_ahead,
    read_windows,
    without_line_breaks,
)
from pet_fairseq.predict.load_model import PATH, load
from pet_fairseq.predict.long_lines import split_to_fit
from pet_fairseq.predict.onnx import find_onnx, open_onnx
from pet_fairseq.predict.predictor import MAX_TOKENS
from pet_fairseq.predict.translator import Translator

STDOUT = "-"
MOST_THREADS = 1024  # torch ends the process where it cannot start so many


def translate(args: Namespace, text_options: list[str]) -> None:
    """Translate the lines of a file; see commands.py for args.

    Each line has its line, an empty one if there is nothing to translate. At the end a line on
    stderr counts those that were bad.

    Raises:
        UserError: a model that cannot be used; with --strict, a line that is not UTF-8 or too long.
        OSError: files that cannot be read or written.
    """
    limit = check_options(args)
    bad_lines = BadLines()
    with open_output(args.output) as out:
        engine = open_engine(args, text_options)
        windows = (
            segment_lines(engine, window, args.long_lines, args.strict, bad_lines)
            for window in read_windows(args.input)
        )
        for sources in read_ahead(windows):
            out.writelines(f"{line}\n".encode() for line in translate_lines(engine, sources, limit))
            out.flush()
    report(bad_lines, args.command)


def open_output(output: str) -> AbstractContextManager[IO[bytes]]:
    """The file of --output to write, which is there when it is complete, or standard output.

    Raises:
        UserError: another command is writing the file.
    """
    if output == STDOUT:
        return nullcontext(sys.stdout.buffer)
    busy = f"--output {output}: another command is writing it; wait for it, or give another file"
    return atomic_file(Path(output), busy)


def check_options(args: Namespace) -> BatchLimit:
    """The size of a batch, if all that can be checked before the model is loaded is well.

    Raises:
        UserError: the input is missing or UTF-16, the output cannot be written, or a number is
            below 1.
    """
    limit = check_numbers(args)
    check_input(args.input)
    if args.output != STDOUT:
        check_output(Path(args.output))
    return limit


def check_output(path: Path) -> None:
    """Raise UserError if a file cannot be written, before the work that it is to hold."""
    if path.is_dir():
        raise UserError(f"--output {path}: is a folder; give a file in it")
    if path.exists() and not path.is_file():  # a finished file would take its place
        raise UserError(f"--output {path}: is no regular file; leave it out and use > {path}")
    if not path.parent.is_dir():
        raise UserError(f"--output {path}: {path.parent} is not a folder; create it first")
    check_folder(path.parent, "--output")


def check_numbers(args: Namespace) -> BatchLimit:
    """The size of a batch; raises UserError if that or the number of threads cannot be."""
    numbers = ("batch_size", "max_tokens", "threads")
    check_positive(**{name: n for name in numbers if (n := getattr(args, name)) is not None})
    if (args.threads or 0) > MOST_THREADS:
        raise UserError(f"--threads {args.threads}: give {MOST_THREADS} or less")
    if args.batch_size is not None:
        return BatchLimit(args.batch_size, counts_tokens=False)
    return BatchLimit(args.max_tokens or MAX_TOKENS)


def open_engine(args: Namespace, text_options: list[str]) -> Engine:
    """Load the model that the user names, in the form in which it is fastest.

    Raises:
        UserError: it does not translate, or cannot be used.
    """
    onnx = find_onnx(args.checkpoint)
    if onnx is not None:
        return open_onnx(onnx, args, text_options)
    marian = find_marian(args.checkpoint)
    if marian is not None:
        return open_marian(marian, args, text_options)
    converted = find_ctranslate2(args.checkpoint)
    if converted is not None:
        return open_ctranslate2(converted, args, text_options)
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    with imported(args.checkpoint) as checkpoint:
        given = Namespace(**vars(args) | {"checkpoint": checkpoint})
        model = load(given, text_options, fast=True)
    if not isinstance(model, Translator):
        raise UserError(
            f"{PATH} {args.checkpoint}: classifies texts; use pet-fairseq predict, or give a model "
            "that translates"
        )
    return FairseqEngine(model, args.ratio)


@contextmanager
def imported(path: str) -> Iterator[str]:
    """The folder of import-hf for one of transformers, while it is loaded; all else is itself.

    Raises:
        UserError: files that import-hf refuses.
    """
    folder = Path(path)
    if find_checkpoint(folder) is not None or not (folder / CONFIG).is_file():
        yield path
        return
    with TemporaryDirectory(prefix="pet-fairseq-") as made:
        model = Path(made, "model")
        try:
            import_model(folder, model)
        except UserError as error:
            raise UserError(f"{PATH} {path}: as pet-fairseq import-hf reads it: {error}") from error
        yield str(model)


def segment_lines(
    engine: Engine, lines: Iterable[Line], long_lines: str, strict: bool, bad_lines: BadLines
) -> list[list[list[str]]]:
    """The pieces of each sentence of each line.

    Args:
        long_lines: as for `split_to_fit`. strict: whether a bad line ends the run.
        bad_lines: counts them.
    Raises:
        UserError: with `strict`, a line that is not UTF-8, or too long for the model.
    """
    sources: list[list[list[str]]] = []
    for line in lines:
        broken = broken_bytes(line, strict)
        pieces, bad = split_to_fit(engine, line.text, long_lines)
        if bad is not None and strict:
            raise UserError(
                f"{line.where}: more than the {engine.room} tokens that the model reads"
            )
        bad_lines.add((*broken, *(() if bad is None else (bad,))))
        sources.append(pieces)
    return sources


def translate_lines(
    engine: Engine, sources: list[list[list[str]]], limit: BatchLimit
) -> Iterator[str]:
    """The translations of the lines of `segment_lines`, in batches of similar lengths."""
    found = engine.translate([pieces for some in sources for pieces in some], limit)
    translations = (engine.detokenise(best) for best, *_ in found)
    return (without_line_breaks(" ".join(islice(translations, len(some)))) for some in sources)
