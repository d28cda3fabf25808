"""Binary data in which given pairs and a teacher's translations stand together."""

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, cycle, takewhile
from pathlib import Path

from fairseq.data import Dictionary, indexed_dataset

from pet_fairseq.compress.raw_text import check_pairs
from pet_fairseq.compress.teacher_text import open_teacher
from pet_fairseq.files import atomic_folder
from pet_fairseq.predict.corpus.shards import shards as complete_shards
from pet_fairseq.predict.text import languages_of

FURTHER_SET = re.compile(r"train\d+")


def mixture_folders(folder: Path, number: int) -> tuple[Path, ...]:
    """Where a mixture with so many data folders is: in `folder` itself, or in folders of it."""
    return (folder,) if number == 1 else tuple(folder / str(i) for i in range(number))


def write_mixture(
    teacher: Path, data: Sequence[Path], shards: Path, repeat: int, folder: Path
) -> None:
    """Write data folders anew, with the pairs of a translated corpus in their training sets.

    fairseq trains on the sets train, train1, train2 ... of a folder as one. Each of the given ones
    is there `repeat` times, as links. The pairs of the corpus are one more, for which the folders
    take turns. The other sets and the dictionaries are links, too.

    Args:
        teacher: the checkpoint that translated. data: folders of fairseq-preprocess; the first has
            its dictionaries. shards: what translate-corpus wrote.
    Raises:
        UserError: a shard is missing, there are too few pairs, or no subword model of
            the teacher's words.
    """
    check_pairs(shards, len(data))
    opened = open_teacher(teacher, data[0])
    task, languages = opened.task, list(languages_of(opened.task).values())
    pair = "-".join(languages)
    with atomic_folder(folder) as new:
        parts, names = mixture_folders(new, len(data)), []
        for part, given in zip(parts, data):
            part.mkdir(exist_ok=True)
            names.append(f"{train_set(link_data(given, languages, repeat, part))}.{pair}")
        for file in opened.segmenter().files:
            shutil.copyfile(file, parts[0] / file.name)
        for side, words in enumerate((task.source_dictionary, task.target_dictionary)):
            paths = [part / f"{name}.{languages[side]}" for part, name in zip(parts, names)]
            write_binary(read_side(shards, side), words, paths)


def train_set(number: int) -> str:
    """The names that fairseq has for the parts of a training set: train, train1, train2 ..."""
    return f"train{number or ''}"


def train_sets(data: Path, languages: Sequence[str]) -> list[str]:
    """The parts that a folder has of the training set of a language pair."""
    pairs = ["-".join(languages), "-".join(reversed(languages))]
    there = {file.name.rpartition(".")[0].rpartition(".")[0] for file in data.glob("*.idx")}
    return list(
        takewhile(
            lambda name: any(f"{name}.{pair}" in there for pair in pairs), map(train_set, count())
        )
    )


def link_data(given: Path, languages: Sequence[str], repeat: int, part: Path) -> int:
    """Link the sets and dictionaries of a data folder in another one.

    Args:
        repeat: how many links each part of the training set has.
    Returns:
        how many parts the training set has then.
    """
    sets = train_sets(given, languages)
    for file in (*given.glob("*.bin"), *given.glob("*.idx"), *given.glob("dict.*.txt")):
        name, _, rest = file.name.partition(".")
        links = [name]
        if name in sets:
            links = [train_set(sets.index(name) + i * len(sets)) for i in range(repeat)]
        elif FURTHER_SET.fullmatch(name):
            links = []  # fairseq would not have come to it
        for link in links:
            (part / f"{link}.{rest}").symlink_to(file.resolve())
    return repeat * len(sets)


def read_side(shards: Path, side: int) -> Iterator[str]:
    """The lines of a corpus in pieces, of source (0) or target (1)."""
    for files in complete_shards(shards):
        with files[side].open(encoding="utf-8") as lines:
            yield from lines


def write_binary(lines: Iterable[str], words: Dictionary, paths: Sequence[Path]) -> None:
    """Write lines as fairseq-preprocess does; several files take turns.

    Args:
        paths: without .bin and .idx.
    """
    builders = [
        indexed_dataset.make_builder(f"{path}.bin", impl="mmap", vocab_size=len(words))
        for path in paths
    ]
    for line, builder in zip(lines, cycle(builders)):
        builder.add_item(words.encode_line(line, add_if_not_exist=False))
    for path, builder in zip(paths, builders):
        builder.finalize(f"{path}.idx")
