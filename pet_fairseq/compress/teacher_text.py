"""Text as a teacher reads it: its dictionaries, and what segments text into its pieces."""

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Optional

from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig, OmegaConf

from pet_fairseq.checkpoints.dictionaries import first_folder
from pet_fairseq.checkpoints.loading import load_task
from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.checkpoints.text_files import (
    both_sides,
    find_segmentation,
    find_subword_model,
    folders_around,
    read_languages,
)
from pet_fairseq.compress.engine import TEACHER, measure_engine
from pet_fairseq.errors import UserError
from pet_fairseq.multilingual.language_tokens import LanguageTokens
from pet_fairseq.predict.batches import MAX_LENGTH, MAX_SOURCE, source_room
from pet_fairseq.predict.long_lines import LONGEST_WORD
from pet_fairseq.predict.sentences import TextError
from pet_fairseq.predict.text import (
    Text,
    build_text_of,
    find_subword_file,
    has_no_capitals,
    has_pieces,
    join_pieces,
    languages_of,
    options_of_text,
)

FIRST_LINES = 1000  # of a text, by which it is seen whether a model knows its pieces
MOST_UNKNOWN = 0.1  # of a text's pieces, if its subword model is the model's
MOST_CAPITALS = 0.01  # of a text's pieces, if a model without capital letters is to read it
PUT_IT = "put the subword model of the teacher's training text beside TEACHER"


class Opened(NamedTuple):
    """A checkpoint's options, and its task with its own dictionaries and languages.

    It may be a folder with these, without a checkpoint; then it has no options.
    """

    path: Path
    cfg: Optional[DictConfig]
    task: TranslationTask

    def segmenter(self) -> "Segmenter":
        """What segments text into the words of the model."""
        if self.cfg is None:
            return Segmenter(self.task, [self.path], segments=reads_raw_text(self.path, self.task))
        folders = folders_around(str(self.path), self.cfg, Path(self.task.cfg.data))
        return Segmenter(self.task, folders)


def open_teacher(path: Path, data: Optional[Path] = None) -> Opened:
    """Read a checkpoint's options, and the dictionaries that it was trained with; or a folder's.

    Args:
        data: a folder with these, None for the one that the checkpoint names, or else its own.
    """
    if path.is_dir():
        languages = OmegaConf.create(read_languages(path))
        return Opened(path, None, load_task(languages, str(path)))
    cfg = load_options(str(path), TEACHER)
    return Opened(path, cfg, load_task(cfg.task, str(data or teacher_dictionaries(cfg.task, path))))


def teacher_dictionaries(task: Namespace, teacher: Path) -> Path:
    """The folder with a checkpoint's dictionaries: that of its data, or else its own."""
    folder = Path(first_folder(task.data))
    return folder if any(folder.glob("dict.*.txt")) else teacher.parent


class Segmenter:
    """Text as the words of a translation model, and why a pair cannot be used.

    Args:
        folders: where subword models are looked for.
        segments: whether one is needed; else sources are in pieces, which are only joined.
    Attributes:
        files: those files.
    """

    def __init__(self, task: TranslationTask, folders: list[Path], segments: bool = True):
        words = task.source_dictionary
        file = find_subword_file(words, folders, TEACHER, PUT_IT) if segments else ""
        file, of_target = both_sides(file)
        languages = languages_of(task)
        swapped = dict(zip(languages, reversed(languages.values())))
        sides = (options_of_text(languages, file), options_of_text(swapped, of_target))
        self.source, self.target = (
            build_text_of(*options, max_word_chars=LONGEST_WORD) for options in sides
        )
        self.words = (words, task.target_dictionary)
        if not segments:
            joined = map(Joined, self.words)
            self.source, self.target = (Text(bpe=each) for each in joined)
        self.files = [Path(name) for name in dict.fromkeys((file, of_target)) if name]
        self.longest = tuple(limit - 1 for limit in task.max_positions())

    def check(self, pairs: Iterable[tuple[str, str]], names: tuple[str, str]) -> None:
        """Raise UserError if too many pieces of some text are not the model's.

        Either it has capital letters and the model none, or a file segments it otherwise.

        Args:
            pairs: source and target, either of which may be empty. names: of these texts.
        """
        if not self.files:
            return
        sides = list(zip(*(self.pair(*pair)[0] for pair in pairs)))
        for name, words, lines in zip(names, self.words, sides):
            check_case(lines, words, name)
        for file, words, lines in zip((self.files[0], self.files[-1]), self.words, sides):
            if unknown := describe_unknown(lines, words):
                raise UserError(f"{file}: {unknown}; {PUT_IT}")

    def are_exchanged(self, pairs: Iterable[tuple[str, str]]) -> bool:
        """Whether the sources have the target's words and the targets the source's, by far.

        It cannot be seen where both have one dictionary.
        """
        pairs = list(pairs)
        given = self.unknown_shares(pairs)
        if min(given) <= MOST_UNKNOWN:
            return False
        turned = self.unknown_shares((target, source) for source, target in pairs)
        return all(share > 2 * other for share, other in zip(given, reversed(turned)))

    def unknown_shares(self, pairs: Iterable[tuple[str, str]]) -> list[float]:
        """Which shares of the pieces of sources and of targets are no words of the model."""
        pieces = [self.pair(*pair)[0] for pair in pairs]
        return [
            unknown_share((both[side] for both in pieces), words)
            for side, words in enumerate(self.words)
        ]

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


def describe_unknown(lines: Iterable[str], words: Dictionary) -> Optional[str]:
    """Which share of the pieces of some lines a model lacks; None if it is no more than usual."""
    share = unknown_share(lines, words)
    if share <= MOST_UNKNOWN:
        return None
    return f"{100 * share:.0f}% of its pieces are no words of {TEACHER}"


def check_case(lines: Iterable[str], words: Dictionary, name: str) -> None:
    """Raise UserError for a text with capital letters if a model has none; name: of the text.

    The subword model is the right one then, if the pieces are known in lower case.
    """
    pieces = [piece for line in lines for piece in line.split()]
    lower = (piece.lower() for piece in pieces if piece != piece.lower())
    share = sum(piece in words for piece in lower) / max(1, len(pieces))
    if share > MOST_CAPITALS and has_no_capitals(words):
        raise UserError(
            f"{name}: {100 * share:.0f}% of its pieces have capital letters, and the dictionary of "
            f"{TEACHER} has none; put the text into lower case, as that of {TEACHER} was"
        )


def unknown_share(lines: Iterable[str], words: Dictionary) -> float:
    """Which share of the pieces of some lines a dictionary lacks."""
    pieces = [piece for line in lines for piece in line.split()]
    return sum(piece not in words for piece in pieces) / max(1, len(pieces))


class Joined:
    """In place of fairseq's BPE, for text that is in pieces of a dictionary: they are joined."""

    def __init__(self, dictionary: Dictionary):
        self.kind = find_segmentation(dictionary)

    def encode(self, text: str) -> str:
        return text

    def decode(self, pieces: str) -> str:
        return join_pieces(pieces, self.kind)


class EngineText:
    """Text as a model in CTranslate2 reads it.

    Args:
        folder: of the model, with all that text needs.
    Attributes:
        task: with its dictionaries. reads_raw_text: whether it reads raw text, else pieces.
        room, longest: the most pieces of a source and of a translation, without its end.
    """

    def __init__(self, folder: Path):
        opened = open_teacher(folder)
        self.task = opened.task
        self.reads_raw_text = reads_raw_text(folder, opened.task)
        segmenter = opened.segmenter()
        self.source, self.files = segmenter.source, segmenter.files
        tokens = LanguageTokens.of_folder(folder) or LanguageTokens()
        of_source, of_target = measure_engine(folder).positions
        self.room = source_room(of_source or MAX_SOURCE + 1, tokens.around)
        self.longest = (of_target or MAX_LENGTH + 1) - len(tokens.decoder_start)

    def raw(self, text: str) -> str:
        """Text as people write it."""
        return text if self.reads_raw_text else self.source.decode(text)

    def pieces(self, text: str) -> str:
        """As many pieces as the model reads; none where a word is too long to be segmented."""
        try:
            return " ".join(self.source.encode(text).split()[: self.room])
        except TextError:
            return ""

    def check(self, lines: Iterable[str]) -> None:
        """Raise UserError if too many pieces of some lines are not the model's."""
        share = describe_unknown(map(self.pieces, lines), self.task.source_dictionary)
        if share is None:
            return
        if self.files:
            raise UserError(
                f"{self.files[0]}: {share}; give the subword model of the teacher's training "
                "text, with --sentencepiece or --bpe"
            )
        raise UserError(
            f"--text: {share}, beside which there is no subword model; give one with "
            "--sentencepiece or --bpe, or text in the teacher's pieces"
        )


def reads_raw_text(folder: Path, task: TranslationTask) -> bool:
    """Whether a folder has a subword model for raw text; whole words need none."""
    words = task.source_dictionary
    return not has_pieces(words) or bool(find_subword_model(words, [folder]))
