"""The sizes of data sets: words of the dictionaries, sentences and tokens (PET, Table 3)."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from fairseq.data import Dictionary, data_utils, indexed_dataset

from pet_fairseq.errors import UserError
from pet_fairseq.markdown import aligned_table

SUBSETS = ("train", "valid", "test")


class Statistics(NamedTuple):
    """One side of a data set.

    Attributes:
        classes: words of the dictionary, including fairseq's four special ones and those that pad
            it to a multiple of 8.
        sentences, tokens: of each subset; the end of a sentence is a token, as in the log of
            fairseq-preprocess.
    """

    folder: Path
    language: str
    classes: int
    sentences: dict[str, int]
    tokens: dict[str, int]


def read_statistics(folder: Path) -> list[Statistics]:
    """Count both sides of the parallel data in a folder from fairseq-preprocess, source first.

    Raises:
        UserError: no such folder, or no parallel training data in it.
    """
    if not folder.is_dir():
        raise UserError(f"BIN {folder}: no such folder")
    languages = data_utils.infer_language_pair(str(folder))
    missing = [f"dict.{lang}.txt" for lang in languages if not _dictionary(folder, lang).is_file()]
    if None in languages or missing or not _sizes(folder, languages, languages[0], "train").size:
        raise UserError(
            f"BIN {folder}: has no training data of two languages; give a folder that "
            "fairseq-preprocess made"
        )
    return [_one_side(folder, languages, language) for language in languages]


def _one_side(folder: Path, languages: tuple[str, str], language: str) -> Statistics:
    sizes = {subset: _sizes(folder, languages, language, subset) for subset in SUBSETS}
    return Statistics(
        folder,
        language,
        classes=len(Dictionary.load(str(_dictionary(folder, language)))),
        sentences={subset: len(lengths) for subset, lengths in sizes.items()},
        tokens={subset: int(lengths.sum()) for subset, lengths in sizes.items()},
    )


def _dictionary(folder: Path, language: str) -> Path:
    return folder / f"dict.{language}.txt"


def _sizes(folder: Path, languages: tuple[str, str], language: str, subset: str) -> np.ndarray:
    """The length of each sentence of a subset in tokens; train1, train2, ... belong to train."""
    name = f"{'-'.join(languages)}.{language}"
    paths = [str(folder / f"{subset}.{name}")]
    if subset == "train":
        paths += map(str, sorted(p.with_suffix("") for p in folder.glob(f"train[0-9]*.{name}.idx")))
    parts = [indexed_dataset.MMapIndexedDataset(path) for path in paths if _has_sentences(path)]
    # copied by concatenate, because a data set that is freed closes the file with its sizes
    return np.concatenate([np.array([], dtype=np.int64), *(part.sizes for part in parts)])


def _has_sentences(path: str) -> bool:
    """Whether a set is there and not empty; numpy cannot map an empty file into memory."""
    exists = indexed_dataset.MMapIndexedDataset.exists(path)
    return exists and Path(indexed_dataset.data_file_path(path)).stat().st_size > 0


def format_statistics(sides: list[Statistics]) -> str:
    """A table with the columns of the thesis's for the training set, and the other sets' sizes."""
    header = ["data set", "language", "classes", "sentences", "tokens", "tokens a sentence"]
    header += ["valid", "test"]
    rows = [
        [
            str(side.folder),
            side.language,
            f"{side.classes:,}",
            f"{side.sentences['train']:,}",
            f"{side.tokens['train']:,}",
            f"{side.tokens['train'] / side.sentences['train']:.1f}",
            f"{side.sentences['valid']:,}",
            f"{side.sentences['test']:,}",
        ]
        for side in sides
    ]
    return aligned_table(header, rows, text=(0, 1)).rstrip()
