"""Raw text in a teacher's pieces: the sets of a training, and what is held out for them."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice, zip_longest
from pathlib import Path
from typing import Optional

from fairseq.tasks.translation import TranslationTask

from pet_fairseq.compress.teacher_text import FIRST_LINES, EngineText, Segmenter, open_teacher
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_folder, write_json
from pet_fairseq.predict.bad_lines import BadLines, broken_bytes, report
from pet_fairseq.predict.corpus.shards import read_shard_records
from pet_fairseq.predict.corpus.shards import shards as complete_shards
from pet_fairseq.predict.lines import Line, read_lines, without_line_breaks
from pet_fairseq.predict.text import languages_of

SOURCE, TARGET = "source.txt", "target.txt"
REFERENCE, TEST_SOURCE = "raw.reference", "raw.source"  # the test set as it was given
IN_ENGINE = "test.engine"  # the sources of the test set, in the pieces of a model in CTranslate2
SPLITS = ("train", "valid", "test")
MOST_HELD_OUT = 1000  # sentences, and
SHARE_HELD_OUT = 0.1  # at most this share, for each set that is missing


@dataclass(frozen=True)
class TextPair:
    """Files of source and target sentences, line by line; `repeat`: how often training has them."""

    source: Path
    target: Path
    repeat: int = 1


def check_pairs(shards: Path, fewest: int) -> None:
    """Raise UserError if a corpus of translate-corpus has fewer pairs."""
    pairs = sum(record.pairs for record in read_shard_records(shards).values())
    if pairs < fewest:
        raise UserError(
            f"--text: {pairs} pairs came of it, too few to train on; the files in {shards} count "
            "what was dropped; give more text"
        )


def write_corpus_text(teacher: Path, shards: Path, folder: Path) -> None:
    """Write the shards of translate-corpus as raw text: source.txt and target.txt.

    Raises:
        UserError: a shard is missing, there is no pair, or the teacher's words cannot be joined to
            text.
    """
    check_pairs(shards, 1)
    segmenter = open_teacher(teacher).segmenter()
    with atomic_folder(folder) as new:
        for name, side, text in ((SOURCE, 0, segmenter.source), (TARGET, 1, segmenter.target)):
            with (new / name).open("w", encoding="utf-8") as out:
                for files in complete_shards(shards):
                    with files[side].open(encoding="utf-8") as lines:
                        decoded = (text.decode(line.rstrip()) for line in lines)
                        out.writelines(without_line_breaks(one) + "\n" for one in decoded)


def write_pieces(
    teacher: Path,
    sets: dict[str, list[TextPair]],
    folder: Path,
    engine: Optional[Path] = None,
    data: Optional[Path] = None,
) -> None:
    """Write raw text in the teacher's pieces: train, valid and test, and its dictionaries.

    Where valid or test is not given, it is held out of the first of the training text, if there is
    any; its sentences are left out of all other training text. Of several translations of a
    sentence, one below the other as translate-corpus --nbest writes them, such a set has the first.
    Pairs with an empty side, or one longer than the teacher reads, are left out, but for those of a
    test set that is given; about.json counts them, and those in which broken bytes were replaced,
    which a line on standard error names, too. The raw text of the test set is in raw.source
    and raw.reference.

    Args:
        engine: a model in CTranslate2 that reads the test set, too, in pieces of its own; its
            sources are in test.engine, cut to its length. Where it has no subword model,
            the sources of `sets` are in its pieces, and are joined for the student.
        data: a folder with the teacher's dictionaries, None for the one that it names.
    Raises:
        UserError: files whose numbers of lines differ, no pair that can be used, no subword
            model, or one that is not the teacher's, or capital letters that it does not know.
    """
    opened = open_teacher(teacher, data)
    task, segmenter = opened.task, opened.segmenter()
    reads = None if engine is None else EngineText(engine)
    counts: dict[str, Counter] = {split: Counter() for split in SPLITS}
    missing = [split for split in SPLITS if split not in sets]
    with atomic_folder(folder) as new, Writers(new, task, reads) as writers:
        for split, pairs in sets.items():
            held_out = missing if split == "train" else []
            first = choose_sets(pairs[0].source, split, held_out)
            for pair in pairs:
                if engine is None:  # else the pieces are those of its own text, made just now
                    lines = islice(parallel(pair.source, pair.target), FIRST_LINES)
                    names = (str(pair.source), str(pair.target))
                    segmenter.check(((one.text, other.text) for one, other in lines), names)
                choose = first if pair is pairs[0] else drop_others(first, split)
                write_pair(pair, split, choose, segmenter, writers, counts)
        for file in segmenter.files:
            shutil.copyfile(file, new / file.name)
        write_json(new / "about.json", counts)
        check_counts(counts, sets)


def write_pair(
    pair: TextPair,
    split: str,
    choose: Callable[[str], Optional[str]],
    segmenter: "Segmenter",
    writers: "Writers",
    counts: dict[str, Counter],
) -> None:
    """Write the lines of a pair of files into the sets that `choose` names, and count them.

    Args:
        split: the set that the files are given for. Of a test set all lines are written, since its
            translations are as many.
        choose: the set of a source sentence; None to leave it out of all.
    """
    written = None  # the last source
    bad_lines = BadLines()
    for source, target in parallel(pair.source, pair.target):
        broken = {*broken_bytes(source, strict=False), *broken_bytes(target, strict=False)}
        bad_lines.add(broken)
        text = source.text if writers.reads is None else writers.reads.raw(source.text)
        place = choose(text)
        if place is None:
            counts["train"]["held out"] += 1
            continue
        if place != split and text == written:
            counts[place]["another translation"] += 1
            continue
        pieces, reason = segmenter.pair(text, target.text)
        counts[place].update((reason or "kept", *(bad.value for bad in broken)))
        if reason is None or split == "test":
            written = text
            for _ in range(pair.repeat if place == "train" else 1):
                writers.write(place, pieces, source.text, target.text)
    report(bad_lines, f"compress: {pair.source}, {pair.target}")


def check_counts(counts: dict[str, Counter], sets: dict[str, list[TextPair]]) -> None:
    """Raise UserError for a set without a pair that can be used."""
    for split in SPLITS if "train" in sets else sets:
        if not counts[split]["kept"]:
            named = split if split in sets else "train"
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in counts[split].items())
            raise UserError(
                f"{sets[named][0].source}: has no pair for {split}: "
                f"{reasons or 'none'}; give more text, or --{split}-pair"
            )


def choose_sets(source: Path, split: str, held_out: list[str]) -> Callable[[str], str]:
    """A function from a sentence of a file to the set that it belongs to: `split`, or held out.

    Sentences with the same letters and digits come into the same set, in every run.

    Args:
        held_out: the sets that are taken out of this one.
    """
    with source.open("rb") as file:
        lines = sum(1 for _ in groupby(file))  # --nbest repeats them
    buckets = max(round(1 / SHARE_HELD_OUT), lines // MOST_HELD_OUT)

    def choose(text: str) -> str:
        letters = "".join(filter(str.isalnum, text.lower()))
        number = int.from_bytes(hashlib.sha256(letters.encode()).digest()[:8], "big") % buckets
        return held_out[number] if number < len(held_out) else split

    return choose


def drop_others(choose: Callable[[str], str], split: str) -> Callable[[str], Optional[str]]:
    """`choose` for more text of a set: None for the sentences that are held out of the first."""
    return lambda text: split if choose(text) == split else None


def parallel(source: Path, target: Path) -> Iterator[tuple[Line, Line]]:
    """The lines of two files side by side; a line break within one is a space.

    Some would be the end of a line to whatever reads the text that is made of it.

    Raises:
        UserError: their numbers of lines differ.
    """
    for number, (first, second) in enumerate(
        zip_longest(read_lines(str(source)), read_lines(str(target)))
    ):
        if first is None or second is None:
            shorter, longer = (source, target) if first is None else (target, source)
            raise UserError(
                f"{shorter}: ends after {number} lines, but {longer} goes on; give files whose "
                "lines belong together"
            )
        yield in_one_line(first), in_one_line(second)


def in_one_line(line: Line) -> Line:
    return line._replace(text=without_line_breaks(line.text))


class Writers:
    """The files of a folder for fairseq-preprocess: the sets, dictionaries, and the raw test set.

    Args:
        reads: what segments the test set for test.engine, if there is to be one.
    """

    def __init__(self, folder: Path, task: TranslationTask, reads: Optional[EngineText] = None):
        languages = tuple(languages_of(task).values())
        for language, words in zip(languages, (task.source_dictionary, task.target_dictionary)):
            words.save(str(folder / f"dict.{language}.txt"))
        names = [f"{split}.{language}" for split in SPLITS for language in languages]
        self.files = {
            name: (folder / name).open("w", encoding="utf-8")
            for name in (*names, REFERENCE, TEST_SOURCE, *([IN_ENGINE] if reads else []))
        }
        self.languages = languages
        self.reads = reads

    def __enter__(self) -> "Writers":
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files.values():
            file.close()

    def write(self, split: str, pieces: tuple[str, str], source: str, target: str) -> None:
        """Write a pair of a set: in pieces, and as it was given."""
        for language, side in zip(self.languages, pieces):
            self.files[f"{split}.{language}"].write(f"{side}\n")
        if split == "test":
            self.files[REFERENCE].write(f"{target}\n")
            raw = source if self.reads is None else self.reads.raw(source)
            self.files[TEST_SOURCE].write(f"{raw}\n")
            if self.reads is not None:
                self.files[IN_ENGINE].write(f"{self.reads.pieces(source)}\n")
