"""The folder of a translated corpus: numbered shards of pairs, and what they were made of."""

import json
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple
from uuid import uuid4

from pet_fairseq.errors import UserError, option_of
from pet_fairseq.files import naming, read_text, write_json
from pet_fairseq.predict.bad_lines import BadLines
from pet_fairseq.runner.lock import FolderLock, locked
from pet_fairseq.runner.record import Record, differences

SIDES = ("source", "target")
SETTINGS = "settings.json"
SUMMARY = "summary.json"
SUBWORDS = "the subword model"  # an input that older folders do not name
# what JSON of another form than ours ends in
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


class Share(NamedTuple):
    """A part of the shards: those whose number is `number` - 1, or a multiple of `of` more."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, word: str) -> "Share":
        """A share as the user writes it, such as 1/4; raises ValueError for anything else."""
        number, of = map(int, word.split("/"))
        if not 1 <= number <= of:
            raise ValueError(word)
        return cls(number, of)

    def part(self, job: int, jobs: int) -> "Share":
        """The share of one of several jobs; job: from 0."""
        return Share(self.number + self.of * job, self.of * jobs)

    def holds(self, number: int) -> bool:
        return number % self.of == self.number - 1

    def numbers(self) -> Iterator[int]:
        """Its shards, without end."""
        return count(self.number - 1, self.of)


class ShardRecord(NamedTuple):
    """What became of a shard.

    Attributes:
        seconds: how long it took. last: whether the text ends with it.
    """

    pairs: int
    seconds: float
    last: bool
    bad_lines: BadLines


def side_path(folder: Path, number: int, side: str) -> Path:
    return folder / f"{number:05}.{side}"


def record_path(folder: Path, number: int) -> Path:
    """The file that is written when a shard's sides are there."""
    return folder / f"{number:05}.json"


def read_shard_record(path: Path) -> ShardRecord:
    """Raises UserError if it cannot be read."""
    try:
        content = json.loads(read_text(path, "shard"))
        pairs, seconds = int(content["pairs"]), float(content["seconds"])
        return ShardRecord(pairs, seconds, content["last"] is True, BadLines.from_record(content))
    except UNREADABLE as error:
        raise UserError(f"{path}: cannot be read; remove it, and start again") from error


def read_shard_records(folder: Path) -> dict[int, ShardRecord]:
    """The finished shards by their numbers, in order."""
    paths = folder.glob("[0-9]*.json")
    numbers = sorted(int(path.stem) for path in paths if path.stem.isdecimal())
    return {number: read_shard_record(record_path(folder, number)) for number in numbers}


def pending(folder: Path, share: Share) -> Iterator[int]:
    """The shards of a share that are not finished, without end where the text's is not known."""
    records = read_shard_records(folder)
    last = next((number for number, record in records.items() if record.last), math.inf)
    numbers = takewhile(lambda number: number <= last, share.numbers())
    return (number for number in numbers if number not in records)


def is_complete(records: dict[int, ShardRecord]) -> bool:
    """Whether these are all shards of a text."""
    no_gap = list(records) == list(range(len(records)))
    return no_gap and any(record.last for record in records.values())


def shards(folder: Path) -> Iterator[tuple[Path, Path]]:
    """The files of the sources and of the translations, shard by shard.

    Raises:
        UserError: at once, if a shard is missing; the message has the first one.
    """
    paths = []
    for number in count():
        pair = side_path(folder, number, "source"), side_path(folder, number, "target")
        record = record_path(folder, number)
        if not all(path.is_file() for path in (*pair, record)):
            raise UserError(
                f"{folder}: shard {number:05} is missing; let pet-fairseq translate-corpus finish, "
                "or copy the shards of the other machines there"
            )
        paths.append(pair)
        if read_shard_record(record).last:
            return iter(paths)
    raise AssertionError  # `count` has no end


@contextmanager
def locked_work_folder(folder: Path, share: Share) -> Iterator[tuple[FolderLock, Path]]:
    """A place for unfinished shards, which is locked; what others left there is removed.

    Raises:
        UserError: another run is at work on this share.
    """
    place = folder / f".share-{share.number}-of-{share.of}"
    with locked(place) as lock:
        try:
            remove_unfinished(place)
            yield lock, place
        finally:
            remove_unfinished(place)


def remove_unfinished(place: Path) -> None:
    for path in place.glob("unfinished*"):
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def new_shard(folder: Path, place: Path, number: int) -> Iterator[list[IO[bytes]]]:
    """The two files of a shard to write, which get their names at the end of the block.

    Args:
        place: of `locked_work_folder`.
    Raises:
        OSError: such as a full disk; nothing is left then.
    """
    paths = [side_path(folder, number, side) for side in SIDES]
    with TemporaryDirectory(dir=place, prefix="unfinished") as unfinished, naming(paths[0]):
        temporary = [Path(unfinished, side) for side in SIDES]
        with temporary[0].open("wb") as source, temporary[1].open("wb") as target:
            yield [source, target]
        for before, path in zip(temporary, paths):
            os.replace(before, path)


def write_shard_record(folder: Path, number: int, record: ShardRecord) -> None:
    path = record_path(folder, number)
    fields = {name: getattr(record, name) for name in ("pairs", "seconds", "last")}
    write_json(path, fields | record.bad_lines.record())


def sum_records(records: dict[int, ShardRecord], shard_lines: int) -> BadLines:
    """The lines of all these shards; the numbers of bad ones are those of the whole text."""
    total = BadLines()
    for number, record in records.items():
        total.join(record.bad_lines, lines_before=number * shard_lines)
    return total


def write_summary(folder: Path, records: dict[int, ShardRecord], total: BadLines) -> None:
    seconds = sum(record.seconds for record in records.values())
    content: dict[str, Any] = {
        "shards": len(records),
        "pairs": sum(record.pairs for record in records.values()),
        "seconds": round(seconds, 3),
        "lines_per_second": round(total.lines / seconds, 2) if seconds else None,
    }
    write_json(folder / SUMMARY, content | total.record())


def keep_settings(folder: Path, settings: Record, write: bool) -> None:
    """Compare the settings of a run with those that a folder was made with.

    Args:
        write: whether to write them down if the folder has none.
    Raises:
        UserError: they differ.
    """
    path = folder / SETTINGS
    if path.exists():
        before = read_settings(path)
        changes = differences(before, without_later_inputs(settings, before))
        if changes:
            raise UserError(
                f"{folder}: was made otherwise ({'; '.join(changes)}); give another --out, or what "
                "was given before, or remove the folder"
            )
    elif write:
        new = folder / f"{SETTINGS}.{uuid4().hex}"  # jobs and machines begin at the same time
        write_json(new, {"command": settings.command, "inputs": settings.inputs})
        new.replace(path)


def without_later_inputs(settings: Record, before: Record) -> Record:
    """Settings of now to compare with those of a folder that was begun by an older version."""
    known = {k: v for k, v in settings.inputs.items() if k != SUBWORDS or k in before.inputs}
    return replace(settings, inputs=known)


def read_settings(path: Path) -> Record:
    """Raises UserError if they cannot be read."""
    try:
        content = json.loads(read_text(path, "settings"))
        command = [str(word) for word in content["command"]]
        return Record(command, {str(key): str(value) for key, value in content["inputs"].items()})
    except UNREADABLE as error:
        raise UserError(f"{path}: no settings of translate-corpus; give another --out") from error


def option_words(options: dict[str, object]) -> Sequence[str]:
    """Options as a command line: what is not given is left out."""
    return [
        word
        for name, value in options.items()
        if value not in (None, False)
        for word in (option_of(name), *([] if value is True else [str(value)]))
    ]
