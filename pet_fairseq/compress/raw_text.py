"""Raw text in a teacher's pieces, and the teacher with the pieces of that text only."""

import hashlib
import shutil
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, Optional

from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig, OmegaConf, open_dict

from pet_fairseq.checkpoints.contents import new_state, save_state
from pet_fairseq.checkpoints.dictionaries import first_folder
from pet_fairseq.checkpoints.loading import CHECKPOINT, load_task
from pet_fairseq.checkpoints.safe_loading import load_checkpoint, load_options
from pet_fairseq.checkpoints.text_files import around_data, both_sides, folders_around
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_folder, write_json
from pet_fairseq.multilingual.trimming import (
    check_trimmable,
    choose_words,
    kept_rows,
    needed_words,
    restrict_sentencepiece,
    restricted,
    trimmed_model,
)
from pet_fairseq.predict.corpus.shards import shards as complete_shards
from pet_fairseq.predict.lines import Line, read_lines
from pet_fairseq.predict.sentences import TextError
from pet_fairseq.predict.text import (
    build_text_of,
    find_subword_file,
    languages_of,
    options_of_text,
)
from pet_fairseq.predict.translate import LONGEST_WORD

TEACHER = "TEACHER"
KEEP, TRIM = "keep", "trim"  # values of --vocabulary
SOURCE, TARGET, REFERENCE = "source.txt", "target.txt", "test.reference"
SPLITS = ("train", "valid", "test")
MOST_HELD_OUT = 1000  # sentences, and
SHARE_HELD_OUT = 0.1  # at most this share, for each set that is missing


@dataclass(frozen=True)
class TextPair:
    """Files of source and target sentences, line by line; `repeat`: how often training has them."""

    source: Path
    target: Path
    repeat: int = 1


class Opened(NamedTuple):
    """A checkpoint's options, and its task with its own dictionaries and languages."""

    path: Path
    cfg: DictConfig
    task: TranslationTask

    def divided(self) -> "Divided":
        """What divides text into the words of the model."""
        around = around_data(Path(self.task.cfg.data))
        return Divided(self.task, [*around, *folders_around(str(self.path), self.cfg)])


def open_teacher(path: Path, data: Optional[Path] = None) -> Opened:
    """Read a checkpoint's options, and the dictionaries that it was trained with.

    Args:
        data: a folder with these, None for the one that the checkpoint names, or else its own.
    """
    cfg = load_options(str(path), TEACHER)
    return Opened(path, cfg, load_task(cfg.task, str(data or teacher_dictionaries(cfg.task, path))))


def teacher_dictionaries(task: Namespace, teacher: Path) -> Path:
    """The folder with a checkpoint's dictionaries: that of its data, or else its own."""
    folder = Path(first_folder(task.data))
    return folder if any(folder.glob("dict.*.txt")) else teacher.parent


def write_corpus_text(teacher: Path, shards: Path, folder: Path) -> None:
    """Write the shards of translate-corpus as raw text: source.txt and target.txt.

    Raises:
        UserError: a shard is missing, or the teacher's words cannot be put together.
    """
    divided = open_teacher(teacher).divided()
    with atomic_folder(folder) as new:
        for name, side, text in ((SOURCE, 0, divided.source), (TARGET, 1, divided.target)):
            with (new / name).open("w", encoding="utf-8") as out:
                for files in complete_shards(shards):
                    with files[side].open(encoding="utf-8") as lines:
                        out.writelines(f"{text.decode(line.rstrip())}\n" for line in lines)


def write_pieces(teacher: Path, sets: dict[str, list[TextPair]], folder: Path) -> None:
    """Write raw text in the teacher's pieces: train, valid and test, and its dictionaries.

    Where valid or test is not given, it is held out of the first of the training text. Pairs of
    train and valid with an empty side, or one longer than the teacher reads, are left out;
    about.json counts them. The raw target text of the test set is in test.reference.

    Raises:
        UserError: files whose numbers of lines differ, no pair that can be used, or no file that
            divides text into the teacher's words.
    """
    opened = open_teacher(teacher)
    task, divided = opened.task, opened.divided()
    counts: dict[str, Counter] = {split: Counter() for split in SPLITS}
    missing = [split for split in SPLITS if split not in sets]
    with atomic_folder(folder) as new, Writers(new, task) as writers:
        for split, pairs in sets.items():
            for pair in pairs:
                held_out = missing if split == "train" and pair is pairs[0] else []
                choose = choose_sets(pair.source, split, held_out)
                write_pair(pair, choose, divided, writers, counts)
        for file in divided.files:
            shutil.copyfile(file, new / file.name)
        write_json(new / "about.json", counts)
        check_counts(counts, sets)


def write_pair(
    pair: TextPair,
    choose: Callable[[str], str],
    divided: "Divided",
    writers: "Writers",
    counts: dict[str, Counter],
) -> None:
    """Write the lines of a pair of files into the sets that `choose` names, and count them."""
    for source, target in parallel(pair.source, pair.target):
        place = choose(source.text)
        pieces, reason = divided.pair(source.text, target.text)
        counts[place][reason or "kept"] += 1
        if reason is None or place == "test":
            for _ in range(pair.repeat if place == "train" else 1):
                writers.write(place, pieces, target.text)


def check_counts(counts: dict[str, Counter], sets: dict[str, list[TextPair]]) -> None:
    """Raise UserError for a set without a pair that can be used."""
    for split in SPLITS:
        if not counts[split]["kept"]:
            named = split if split in sets else "train"
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in counts[split].items())
            raise UserError(
                f"--{named}-pair {sets[named][0].source}: has no pair for {split}: "
                f"{reasons or 'none'}"
            )


class Divided:
    """Text as the words of a translation model, and why a pair cannot be used.

    Args:
        folders: where the files are looked for that divide words.
    Attributes:
        files: those files.
    """

    def __init__(self, task: TranslationTask, folders: list[Path]):
        remedy = "put the file that divided the teacher's training text beside TEACHER"
        file = find_subword_file(task.source_dictionary, folders, TEACHER, remedy)
        file, of_target = both_sides(file)
        languages = languages_of(task)
        swapped = dict(zip(languages, reversed(languages.values())))
        sides = (options_of_text(languages, file), options_of_text(swapped, of_target))
        self.source, self.target = (
            build_text_of(*options, max_word_chars=LONGEST_WORD) for options in sides
        )
        self.files = [Path(name) for name in dict.fromkeys((file, of_target)) if name]
        self.longest = tuple(limit - 1 for limit in task.max_positions())

    def pair(self, source: str, target: str) -> tuple[tuple[str, str], Optional[str]]:
        """Both sides in pieces, and why training cannot use them, None if it can."""
        try:
            pieces = self.source.encode(source), self.target.encode(target)
        except TextError:
            return ("", ""), f"with a word of over {LONGEST_WORD:,} characters"
        lengths = [len(side.split()) for side in pieces]
        if not all(lengths):
            return pieces, "empty"
        if any(length > limit for length, limit in zip(lengths, self.longest)):
            return pieces, "too long"
        return pieces, None


def choose_sets(source: Path, split: str, held_out: list[str]) -> Callable[[str], str]:
    """A function from a sentence of a file to the set that it belongs to: `split`, or held out.

    Sentences with the same letters and digits come into the same set, in every run.

    Args:
        held_out: the sets that are taken out of this one.
    """
    lines = sum(1 for _ in source.open("rb"))
    buckets = max(round(1 / SHARE_HELD_OUT), lines // MOST_HELD_OUT)

    def choose(text: str) -> str:
        letters = "".join(filter(str.isalnum, text.lower()))
        number = int.from_bytes(hashlib.sha256(letters.encode()).digest()[:8], "big") % buckets
        return held_out[number] if number < len(held_out) else split

    return choose


def parallel(source: Path, target: Path) -> Iterator[tuple[Line, Line]]:
    """The lines of two files side by side.

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
        yield first, second


class Writers:
    """The files of a folder for fairseq-preprocess: the sets, dictionaries, and test.reference."""

    def __init__(self, folder: Path, task: TranslationTask):
        languages = tuple(languages_of(task).values())
        for language, words in zip(languages, (task.source_dictionary, task.target_dictionary)):
            words.save(str(folder / f"dict.{language}.txt"))
        names = [f"{split}.{language}" for split in SPLITS for language in languages]
        self.files = {
            name: (folder / name).open("w", encoding="utf-8") for name in (*names, REFERENCE)
        }
        self.languages = languages

    def __enter__(self) -> "Writers":
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files.values():
            file.close()

    def write(self, split: str, pieces: tuple[str, str], raw_target: str) -> None:
        for language, side in zip(self.languages, pieces):
            self.files[f"{split}.{language}"].write(f"{side}\n")
        if split == "test":
            self.files[REFERENCE].write(f"{raw_target}\n")


# --- a teacher with fewer words -------------------------------------------------------------------


def trim_teacher(teacher: Path, text: Path, most: Optional[int], folder: Path) -> None:
    """Write a teacher whose dictionaries have the words of its training text only.

    Args:
        text: what `write_pieces` wrote. most: of each side; None: all words of the text.
    Raises:
        UserError: not a Transformer, or text that cannot be divided into fewer pieces.
    """
    state, opened = load_checkpoint(str(teacher), TEACHER), open_teacher(teacher)
    task, cfg = opened.task, opened.cfg
    check_trimmable(cfg.model, str(teacher))
    divided = opened.divided()
    if most is not None and not all(map(is_sentencepiece, divided.files)):
        raise UserError(
            f"--vocabulary {most}: {divided.files[0]} is no SentencePiece model, which alone can "
            f"divide text into fewer pieces; give {TRIM}"
        )
    dictionaries = {
        task.cfg.source_lang: task.source_dictionary,
        task.cfg.target_lang: task.target_dictionary,
    }
    counts = [count_words(text / f"train.{language}") for language in dictionaries]
    if getattr(cfg.model, "share_all_embeddings", False) or len(divided.files) < 2:
        counts = [counts[0] + counts[1]] * 2  # what one side may be divided into, both have
    words = [choose_words(count, d, most) for count, d in zip(counts, dictionaries.values())]
    needed = needed_words(cfg.model)
    rows = [kept_rows(d, chosen | needed) for d, chosen in zip(dictionaries.values(), words)]
    with open_dict(cfg):
        cfg.task.data = str(folder)
        cfg.task.source_lang, cfg.task.target_lang = dictionaries
    plain = OmegaConf.to_container(cfg, enum_to_str=True)
    model = trimmed_model(state["model"], *rows)
    with atomic_folder(folder) as new:
        for (language, dictionary), kept in zip(dictionaries.items(), rows):
            restricted(dictionary, kept).save(str(new / f"dict.{language}.txt"))
        of_files = words if len(divided.files) > 1 else [words[0] | words[1]]
        for file, chosen in zip(divided.files, of_files):
            if is_sentencepiece(file):
                restrict_sentencepiece(file, chosen, new / file.name)
            else:
                shutil.copyfile(file, new / file.name)
        history = state["optimizer_history"][-1:]
        save_state(new_state(plain, model, history, {}), new / CHECKPOINT)


def is_sentencepiece(file: Path) -> bool:
    return file.suffix in (".model", ".spm")


def count_words(path: Path) -> Counter:
    with path.open(encoding="utf-8") as lines:
        return Counter(word for line in lines for word in line.split())
