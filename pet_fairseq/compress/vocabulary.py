"""The words of a student: some of the teacher's, or new ones made of the training text."""

from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Optional

from fairseq.data import Dictionary
from omegaconf import OmegaConf, open_dict
from sentencepiece import SentencePieceProcessor

from pet_fairseq.checkpoints.dictionaries import dictionaries_by_language, dictionary_of
from pet_fairseq.checkpoints.model_files import CHECKPOINT
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.saving import new_state, save_state
from pet_fairseq.checkpoints.text_files import write_languages
from pet_fairseq.compress.engine import TEACHER
from pet_fairseq.compress.raw_text import TextPair, parallel
from pet_fairseq.compress.teacher_text import EngineText, open_teacher
from pet_fairseq.demo.corpus import train_pieces
from pet_fairseq.files import atomic_folder
from pet_fairseq.multilingual.subword_restriction import restrict
from pet_fairseq.multilingual.vocabulary_trimming import (
    check_trimmable,
    choose_words,
    kept_rows,
    needed_words,
    restricted,
    trimmed_model,
)
from pet_fairseq.predict.text import languages_of

MOST_LINES = 2_000_000  # that train a vocabulary
MOST_CHARACTERS = 0.9999  # of a text have pieces of their own, the rarest of a large text have not


def trim_teacher(teacher: Path, text: Path, most: Optional[int], folder: Path) -> None:
    """Write a teacher whose dictionaries have the words of its training text only.

    Of a folder without a checkpoint, as in CTranslate2, only the dictionaries and the subword
    models are written.

    Args:
        text: what `write_pieces` wrote. most: of each side; None: all words of the text.
    Raises:
        UserError: not a Transformer, or text that cannot be segmented into fewer pieces.
    """
    opened = open_teacher(teacher)
    task, cfg, segmenter = opened.task, opened.cfg, opened.segmenter()
    options = cfg and cfg.model
    if options is not None:
        check_trimmable(options, str(teacher))
    dictionaries = dictionaries_by_language(task)
    counts = [count_words(text / f"train.{language}") for language in dictionaries]
    if getattr(options, "share_all_embeddings", False) or len(segmenter.files) < 2:
        counts = [counts[0] + counts[1]] * 2  # what one side may be segmented into, both have
    words, files = restrict_all(segmenter.files, counts, list(dictionaries.values()), most)
    needed = needed_words(options)
    rows = [kept_rows(d, chosen | needed) for d, chosen in zip(dictionaries.values(), words)]
    with atomic_folder(folder) as new:
        for (language, dictionary), kept in zip(dictionaries.items(), rows):
            restricted(dictionary, kept).save(str(new / f"dict.{language}.txt"))
        for name, write in files.items():
            write(new / name)
        if cfg is None:
            write_languages(new, *dictionaries)
        else:
            with open_dict(cfg):
                cfg.task.data = str(folder)
                cfg.task.source_lang, cfg.task.target_lang = dictionaries
            state = load_checkpoint(str(teacher), TEACHER)
            model = trimmed_model(state["model"], *rows)
            plain = OmegaConf.to_container(cfg, enum_to_str=True)
            history = state["optimizer_history"][-1:]
            save_state(new_state(plain, model, history, {}), new / CHECKPOINT)


def train_vocabulary(
    engine: Path, sets: dict[str, list[TextPair]], number: int, folder: Path
) -> None:
    """Write a folder with a SentencePiece model of the training text and the dictionaries of it.

    It is one for both languages, made of the first MOST_LINES lines.

    Args:
        engine: as for `write_pieces`. number: of pieces, three special ones among them.
    Raises:
        UserError: the text has too few different pieces, or more characters than pieces.
    """
    opened, reads = open_teacher(engine), EngineText(engine)
    lines = (
        text
        for pair in sets["train"]
        for source, target in parallel(pair.source, pair.target)
        for text in (reads.raw(source.text), target.text)
    )
    first = islice(lines, MOST_LINES)
    model = train_pieces(first, number, option="--vocabulary", coverage=MOST_CHARACTERS)
    pieces = SentencePieceProcessor(model_proto=model)
    words = dictionary_of(pieces.id_to_piece(i) for i in range(pieces.get_piece_size()))
    languages = languages_of(opened.task)
    with atomic_folder(folder) as new:
        (new / "spm.model").write_bytes(model)
        for language in languages.values():
            words.save(str(new / f"dict.{language}.txt"))
        write_languages(new, **languages)


def restrict_all(
    files: list[Path], counts: list[Counter], dictionaries: list[Dictionary], most: Optional[int]
) -> tuple[list[set[str]], dict[str, Callable[[Path], object]]]:
    """The words to keep of both sides, and what writes subword models of these.

    Args:
        files: one for both sides, one for each, or none where words are whole.
        counts: of the words of each side. most: as for `trim_teacher`.
    """
    if not files:
        return [choose_words(c, words, most) for c, words in zip(counts, dictionaries)], {}
    known = [words.symbols[words.nspecial :] for words in dictionaries]
    if len(files) == 1:
        both = restrict(files[0], counts[0], known, most)
        return both.pieces, {files[0].name: both.write}
    sides = [restrict(*side, most) for side in zip(files, counts, ([words] for words in known))]
    return [side.pieces[0] for side in sides], {
        file.name: side.write for file, side in zip(files, sides)
    }


def count_words(path: Path) -> Counter:
    with path.open(encoding="utf-8") as lines:
        return Counter(word for line in lines for word in line.split())
