"""`pet-fairseq translate-corpus`: a large text becomes training pairs, shard by shard."""

import hashlib
import json
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, NamedTuple

from pet_fairseq.checkpoints.model_files import find_checkpoint, find_model_files
from pet_fairseq.devices import choose_device, usable_cores
from pet_fairseq.errors import UserError, check_positive, message_of
from pet_fairseq.files import check_folder
from pet_fairseq.huggingface.source import CONFIG
from pet_fairseq.number_format import format_speed
from pet_fairseq.predict.bad_lines import Bad, BadLines, broken_bytes, report
from pet_fairseq.predict.bergamot import find_marian
from pet_fairseq.predict.corpus.filters import Rules, why_dropped
from pet_fairseq.predict.corpus.jobs import Progress, Update, run_jobs
from pet_fairseq.predict.corpus.shards import (
    SUBWORDS,
    ShardRecord,
    Share,
    is_complete,
    keep_settings,
    locked_work_folder,
    new_shard,
    option_words,
    pending,
    read_shard_records,
    sum_records,
    write_shard_record,
    write_summary,
)
from pet_fairseq.predict.corpus.text import OPTION, TextReader, check_text
from pet_fairseq.predict.ctranslate2 import find_ctranslate2
from pet_fairseq.predict.engine import Engine
from pet_fairseq.predict.lines import Line
from pet_fairseq.predict.load_model import PATH
from pet_fairseq.predict.long_lines import split_to_fit
from pet_fairseq.predict.onnx import find_onnx
from pet_fairseq.predict.shared_options import Search
from pet_fairseq.predict.translate import check_numbers, open_engine
from pet_fairseq.runner.call import Call
from pet_fairseq.runner.record import Record, digest

AT_ONCE = 2_000  # lines that are sorted by their length and translated before more are read
LONGEST_LINE = 1 << 15  # characters that are segmented; no model reads as many
BEGINNING = 1 << 20  # bytes of a text by which it is known again
SEEDS = 1_000_003  # from the seeds of one text to those of another
# options that change the pairs
SETTINGS = (
    *("data", "backbone_path", "ratio", "precision", "batch_size", "max_tokens"),
    *("beam", "lenpen", "nbest", "sampling", "sampling_topk", "seed"),
    *("shard_lines", "max_ratio"),
)
# the same, of folders that need not name them: only values other than these are settings
LATER_SETTINGS = {"sampling_topp": 0.0, "temperature": 1.0}


def translate_corpus(args: Namespace, text_options: list[str]) -> None:
    """Translate text into shards of pairs; see commands.py for args.

    What is finished stays, and the next run with the same words goes on behind it.

    Raises:
        UserError: a model or text that cannot be used, a folder of another corpus, or one in which
            a run is at work; with --strict, a line that would be dropped.
        OSError: files that cannot be read or written.
    """
    check_options(args)
    check_text(args.text)
    settings = make_settings(args, text_options)
    check_folder(args.out, "--out")
    keep_settings(args.out, settings, write=False)
    with locked_work_folder(args.out, args.shard_of) as (lock, place):
        progress = Progress()
        if args.jobs == 1:
            work(args, args.shard_of, place, settings, progress.update)
        else:
            calls = [call_of(args, job, place, settings) for job in range(args.jobs)]
            on_gpus = choose_device(args.device) == "cuda"
            run_jobs([call.words() for call in calls], on_gpus, lock.handle, progress)
        progress.close()
    conclude(args, progress)


def check_options(args: Namespace) -> None:
    """Check what can be checked before anything is read; raises UserError."""
    check_numbers(args)
    check_positive(shard_lines=args.shard_lines, jobs=args.jobs)
    Search.of(args).check()
    if args.max_ratio < 1:
        raise UserError(f"--max-ratio {args.max_ratio:g}: give 1 or more")


def make_settings(args: Namespace, text_options: list[str]) -> Record:
    """What the pairs depend on: options, the model's files, and the texts by their beginnings.

    Folders of texts do not count, so that these may be moved; nor does what only makes it faster.
    """
    texts = [Path(file) for file in args.text]
    values = {name: getattr(args, name) for name in SETTINGS}
    for name, default in LATER_SETTINGS.items():
        values[name] = None if getattr(args, name) == default else getattr(args, name)
    options = option_words(values)
    words = [args.command, *options, *text_options, OPTION, *(path.name for path in texts)]
    files = enumerate(model_files(args), 1)
    return Record(
        words,
        {f"file {number} of {OPTION}": describe_text(path) for number, path in enumerate(texts, 1)}
        | {f"file {number} of {PATH}": digest(path) for number, path in files},
    )


def with_subwords(settings: Record, files: Sequence[Path]) -> Record:
    """Settings with what divides text into pieces, which is known when the model is loaded.

    It may lie anywhere around the data; one file's name or place does not count.
    """
    content = ", ".join(map(digest, files)) or "none"
    return replace(settings, inputs={**settings.inputs, SUBWORDS: content})


def model_files(args: Namespace) -> list[Path]:
    """The files of a model, or the folder of an exported one; raises UserError if it has none."""
    converted = find_ctranslate2(args.checkpoint)
    if converted is not None:
        return [converted.resolve()]
    folder = Path(args.checkpoint)
    forms = (find_onnx(str(folder)), find_marian(str(folder)), (folder / CONFIG).is_file())
    if any(forms) and find_checkpoint(folder) is None:
        return [folder.resolve()]
    return [Path(path) for path in find_model_files(args.checkpoint, args.data, PATH)[0]]


def describe_text(file: Path) -> str:
    with file.open("rb") as text:
        beginning = hashlib.blake2b(text.read(BEGINNING), digest_size=16).hexdigest()
    return f"{file.stat().st_size} bytes, {beginning}"


def call_of(args: Namespace, job: int, place: Path, settings: Record) -> Call:
    """A job of several as the call of `work_in_process`."""
    threads = args.threads or max(1, usable_cores() // args.jobs)
    arguments = {
        "options": {**vars(args), "threads": threads},
        "share": args.shard_of.part(job, args.jobs),
        "place": place,
        "settings": settings,
    }
    return Call(work_in_process, arguments)


def work_in_process(options: dict, share: list[int], place: Path, settings: Record) -> None:
    """Do a job of several, and print what comes of it: arguments of `Update` as JSON lines."""

    def update(**words) -> None:
        print(json.dumps(words), flush=True)

    try:
        work(Namespace(**options), Share(*share), place, settings, update)
    except BrokenPipeError:  # the one that started it was killed
        return
    except (UserError, OSError) as error:
        update(error=message_of(error))


def work(args: Namespace, share: Share, place: Path, settings: Record, update: Update) -> None:
    """Translate the shards of a share that are missing.

    Args:
        place: of `locked_work_folder`. update: is told what has been read.
    Raises:
        UserError, OSError: as `translate_corpus`.
    """
    numbers = pending(args.out, share)
    first = next(numbers, None)
    if first is None:
        return
    engine = open_engine(args, args.rest)
    keep_settings(args.out, with_subwords(settings, engine.text.files), write=True)
    teacher = Teacher(engine, args)
    reader = TextReader(args.text)
    for number in chain([first], numbers):
        reader.skip(number * args.shard_lines - reader.number)
        if reader.ended:
            break
        if args.sampling:
            engine.seed(args.seed * SEEDS + number)
        start = time.monotonic()
        with new_shard(args.out, place, number) as sides:
            pairs, bad_lines = teacher.write_pairs(reader, sides, update)
        seconds = round(time.monotonic() - start, 3)
        record = ShardRecord(pairs, seconds, reader.ended, bad_lines)
        write_shard_record(args.out, number, record)
    reader.close()


class Reading(NamedTuple):
    """A line as the model reads it; pieces: none if it does not. bad: what is wrong with it."""

    where: str
    pieces: list[str]
    bad: tuple[Bad, ...] = ()


class Teacher:
    """An engine, and which of its pairs are kept; args: of the command line."""

    def __init__(self, engine: Engine, args: Namespace):
        languages = engine.languages
        copies = len(languages) == 2 and len({*languages.values()}) == 1
        self.engine = engine
        self.limit = check_numbers(args)
        self.rules = Rules(engine.longest, args.max_ratio, copies)
        self.strict = args.strict
        self.shard_lines = args.shard_lines

    def write_pairs(
        self, reader: TextReader, sides: Iterable[IO[bytes]], update: Update
    ) -> tuple[int, BadLines]:
        """Write the pairs of the next shard; returns their number, and what became of the lines."""
        pairs, bad_lines = 0, BadLines()
        lines = islice(reader, self.shard_lines)
        while some := list(islice(lines, AT_ONCE)):
            found = list(self.translate(some, bad_lines))
            for side, texts in zip(sides, zip(*found)):
                side.writelines(f"{text}\n".encode() for text in texts)
            pairs += len(found)
            update(lines=len(some), read=reader.part_read)
        return pairs, bad_lines

    def translate(self, lines: Iterable[Line], bad_lines: BadLines) -> Iterator[tuple[str, str]]:
        """The pairs of some lines, in pieces; bad_lines: counts them.

        Raises:
            UserError: with --strict, a line or a pair that would be dropped.
        """
        readings = [self.read(line) for line in lines]
        asked = [reading.pieces for reading in readings if reading.pieces]
        answers = iter(self.engine.translate(asked, self.limit))
        for reading in readings:
            targets = next(answers) if reading.pieces else []
            dropped = [why_dropped(reading.pieces, line.split(), self.rules) for line in targets]
            bad = (*reading.bad, *(kind for kind in dropped if kind is not None))
            if bad and self.strict:
                raise UserError(f"{reading.where}: {bad[0].value}; leave out --strict to drop it")
            bad_lines.add(bad)
            source = " ".join(reading.pieces)
            yield from ((source, line) for line, kind in zip(targets, dropped) if kind is None)

    def read(self, line: Line) -> Reading:
        """Segment a line into pieces; raises UserError with --strict if it is not UTF-8."""
        if len(line.text) > LONGEST_LINE:
            return Reading(line.where, [], (Bad.LONG,))
        broken = broken_bytes(line, self.strict)
        pieces, cut = split_to_fit(self.engine, line.text, "cut")
        if cut is not None:
            return Reading(line.where, [], (*broken, Bad.LONG))
        if not pieces:
            return Reading(line.where, [], (*broken, Bad.EMPTY))
        return Reading(line.where, pieces[0], broken)


def conclude(args: Namespace, progress: Progress) -> None:
    """Say what is there now, and write it down if it is the whole text."""
    records = read_shard_records(args.out)
    complete = is_complete(records)
    if not complete:  # of other machines' shards nothing is known
        records = {n: record for n, record in records.items() if args.shard_of.holds(n)}
    total = sum_records(records, args.shard_lines)
    if complete:
        write_summary(args.out, records, total)
    pairs = sum(record.pairs for record in records.values())
    speed = f", {format_speed(progress.speed)} lines/s" if progress.lines else ""
    what = "" if complete else f" of share {args.shard_of.number}/{args.shard_of.of}"
    print(f"{args.out}: {pairs:,} pairs from {total.lines:,} lines{what}{speed}")
    report(total, args.command)
