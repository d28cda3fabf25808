"""What lies beside a model and tells its text: the subword models, and its languages."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Optional

from fairseq.data import Dictionary
from omegaconf import DictConfig

from pet_fairseq.byte_pieces import SPACE
from pet_fairseq.checkpoints.dictionaries import first_folder
from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text, write_json

SIDES = ("source_lang", "target_lang")
LANGUAGES = "languages.json"  # in folders for engines that know no languages
TOKENIZER = "tokenizer.json"
SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"  # of a model that has one for each side
# the names, in the order in which they are looked for: SentencePiece's own model before a
# tokenizer.json that was made of it, to which `</s>` in a text is the end of the sentence
CODES = ("bpe.codes", "codes", "code", "bpecodes")  # of subword-nmt
SUBWORD_FILES = (*CODES, "spm.model", "sentencepiece.bpe.model", SOURCE_MODEL, TOKENIZER)

# the value that fairseq-generate's --remove-bpe needs, by a mark that pieces of words carry
SEGMENTATIONS = {
    "subword_nmt": lambda word: word.endswith("@@"),
    "sentencepiece": lambda word: word.startswith(SPACE),
}


def folders_around(path: str, cfg: DictConfig, data: Optional[Path] = None) -> list[Path]:
    """The folders in which a tokenizer's files may be.

    These are the data folder with those around it, and those of the checkpoint, of its backbone, of
    the model that it was fine-tuned from and of its teacher.

    Args:
        data: a folder that is looked into first, as are those around it.
    """
    origins = (
        path,
        getattr(cfg.model, "backbone_path", None),
        getattr(cfg.get("checkpoint"), "finetune_from_model", None),
        (getattr(cfg.get("criterion"), "teacher_path", None) or "").split(os.pathsep)[0],
    )
    trained = Path(first_folder(cfg.task.data))
    first = [] if data is None else around_data(data)
    return [*first, *around_data(trained), *(Path(file).parent for file in origins if file)]


def around_data(folder: Path) -> list[Path]:
    """A folder, the one above it, and its neighbour `text`, where recipes put a tokenizer."""
    folder, above = around_engine(folder)
    return [folder, above, above / "text"]


def around_engine(folder: Path) -> list[Path]:
    """A folder of another engine, and the one above it; a `text` beside it may be any model's."""
    return [folder, folder.resolve().parent]


def find_file(names: Iterable[str], folders: Iterable[Path]) -> str:
    """The first of these names in the first folder that has one, "" if none has."""
    names = list(names)
    files = [folder / name for folder in folders for name in names]
    return next((str(file) for file in files if file.is_file()), "")


def both_sides(file: str) -> tuple[str, str]:
    """The subword models of the source and the target, of which the first is known; "" for none."""
    target = Path(file).parent / TARGET_MODEL
    is_pair = Path(file).name == SOURCE_MODEL and target.is_file()
    return file, str(target) if is_pair else file


def copy_subword_files(words: Dictionary, folders: Iterable[Path], out: Path) -> None:
    """Copy the subword models of a source dictionary's words, if some folders have any."""
    file = find_subword_model(words, folders)
    copy_files({Path(name).name: Path(name) for name in both_sides(file) if name}, out)


def copy_files(files: Mapping[str, Path], out: Path) -> None:
    """Copy files into a folder, under the names that are given."""
    for name, file in files.items():
        shutil.copyfile(file, out / name)


def write_languages(folder: Path, source_lang: str, target_lang: str) -> None:
    """Write down the languages of a model."""
    write_json(folder / LANGUAGES, {"source_lang": source_lang, "target_lang": target_lang})


def read_languages(folder: Path) -> dict[str, str]:
    """What `write_languages` wrote; empty if there is no such file.

    Raises:
        UserError: it cannot be read.
    """
    file = folder / LANGUAGES
    if not file.is_file():
        return {}
    try:
        content = json.loads(read_text(file, "languages"))
        languages = {side: str(content[side]) for side in SIDES}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: names no languages; export the model again") from error
    check_languages(languages.values(), str(file))
    return languages


def check_languages(languages: Iterable[str], file: str) -> None:
    """Raise UserError if a language that a model's file names would lead out of a folder.

    Files such as dict.LANG.txt are called after it, and the model may be a stranger's.
    """
    for language in languages:
        if not re.fullmatch(r"[^/\\\x00]+", language):
            raise UserError(f"{file}: {language!r} cannot be the name of a language")


# --- which of them a dictionary goes with ---------------------------------------------------------


def is_byte_level(words: Dictionary) -> bool:
    """Whether a dictionary's words are byte-level pieces, GPT-2's or BART's: `Ġ` is a space."""
    return 20 * sum(word.startswith("\u0120") for word in words.symbols) > len(words)


def find_segmentation(words: Dictionary) -> Optional[str]:
    """The value that --remove-bpe needs for a dictionary's words.

    None if these are whole, or byte-level pieces, which --remove-bpe cannot join.
    """
    if is_byte_level(words):  # among which may be `@@`
        return None
    counts = {name: sum(map(is_piece, words.symbols)) for name, is_piece in SEGMENTATIONS.items()}
    most = max(counts, key=counts.__getitem__)  # a word or two may look like other pieces
    return most if counts[most] else None


def find_subword_model(words: Dictionary, folders: Iterable[Path]) -> str:
    """The first file of SUBWORD_FILES from which the words can come, "" if no folder has one."""
    return find_file(subword_names(words), folders)


def subword_names(words: Dictionary) -> list[str]:
    """The names of SUBWORD_FILES that models have which give such words."""
    segmentation = find_segmentation(words)
    others: dict[Optional[str], set[str]] = {
        "subword_nmt": {*SUBWORD_FILES} - {*CODES, TOKENIZER},
        "sentencepiece": {*CODES},
    }
    return [name for name in SUBWORD_FILES if name not in others.get(segmentation, ())]
