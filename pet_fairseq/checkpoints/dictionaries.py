"""The dictionaries that a checkpoint was trained with, compared with those of a task."""

import hashlib
import logging
import os
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Optional, Union

import omegaconf
from fairseq.data import Dictionary, data_utils
from fairseq.tasks import FairseqTask
from torch import Tensor

from pet_fairseq.errors import UserError

logger = logging.getLogger(__name__)

SPECIAL = {"<s>", "</s>", "<unk>", "<pad>", "<blank>"}  # words that fairseq has of its own


def own_data(data: str, path: str) -> str:
    """The data folder that a checkpoint names: "." is where it lies itself, with its dictionaries.

    `pet-fairseq export` and `unpack` write that, as the folder may be moved.
    """
    beside = Path(path).parent
    return str(beside) if data == "." and any(beside.glob("dict.*txt")) else data


def check_dictionaries(
    state: dict,
    path: str,
    option: str,
    task: FairseqTask,
    remedy: str,
    trained: Optional[str] = None,
) -> None:
    """Compare the dictionaries that a checkpoint was trained with with the task's.

    A checkpoint names its data folder but holds no dictionary. If the folder is gone, the
    dictionary is looked for beside the checkpoint; failing that, only the sizes are compared.

    Args:
        option: names the path in errors. remedy: what the user is to do if they differ.
        trained: the folder that the checkpoint was trained on, if its options name another by now.
    Raises:
        UserError: names both files and the first difference, or the model has words that its
            dictionary lacks.
    """
    cfg = state["cfg"].task
    if trained is None and getattr(cfg, "data", None) is not None:
        trained = own_data(cfg.data, path)
    folder = first_folder(trained)
    if getattr(task.cfg, "source_lang", None) is None:
        check_single_dictionary(state, path, option, task, remedy, folder)
        return
    ours = {"source_lang": task.source_dictionary, "target_lang": task.target_dictionary}
    our_folder = first_folder(task.cfg.data)
    sizes = vocabulary_sizes(state["model"])
    languages = trained_languages(cfg, folder)
    for side, dictionary in ours.items():
        name = f"dict.{languages[side] or getattr(task.cfg, side)}.txt"
        files = [Path(folder, name), Path(path).with_name(name)]
        file = next((f for f in files if f.is_file()), None)
        if file is not None:
            difference = first_difference(load_dictionary(file, option), dictionary)
        elif sizes[side] is None or sizes[side] == len(dictionary):
            warn_of_missing(option, path, files[0])
            continue
        else:
            file, difference = Path(path), f"{sizes[side]} words against {len(dictionary)}"
        if difference:
            our_file = Path(our_folder, f"dict.{getattr(task.cfg, side)}.txt")
            raise UserError(
                f"{option} {path}: made with another dictionary: {file} and {our_file} differ: "
                f"{difference}; {remedy}"
            )
        if sizes[side] not in (None, len(dictionary)):
            raise UserError(
                f"{option} {path}: its model has {sizes[side]} words and its dictionary, {file}, "
                f"{len(dictionary)}, so that fairseq cannot translate with it; train it with a "
                "dictionary of all words, RoBERTa's <mask> among them"
            )


def warn_of_missing(option: str, path: str, file: Path) -> None:
    """Warn that a checkpoint's dictionary cannot be found."""
    logger.warning(
        f"{option} {path}: {file}, named in it, is not there; cannot compare dictionaries"
    )


def dictionary_of(words: Iterable[str]) -> Dictionary:
    """fairseq's dictionary of some words, which begins with its own special ones."""
    made = Dictionary()
    for word in words:
        if word not in SPECIAL:
            made.add_symbol(word)
    return made


def first_folder(data: Optional[str]) -> str:
    """The first of the folders in a task's option `data`, "" if there is none."""
    return str(data or "").split(os.pathsep)[0]


def check_single_dictionary(
    state: dict, path: str, option: str, task: FairseqTask, remedy: str, folder: str
) -> None:
    """Compare the one dictionary of language models and classifiers with the task's.

    Args:
        folder: that the checkpoint was trained on.
    Raises:
        UserError: names both files and the first difference.
    """
    ours, our_folder = task.source_dictionary, getattr(task, "args", task.cfg).data
    size = vocabulary_size(state["model"])
    files = [
        *(Path(folder, name) for name in ("dict.txt", "input0/dict.txt")),
        Path(path).with_name("dict.txt"),
    ]
    file = next((f for f in files if f.is_file()), None)
    difference = ""
    if file is not None:
        difference = difference_from(file, ours, option)
    elif size is None or size == len(ours):
        warn_of_missing(option, path, files[0])
    else:
        file, difference = Path(path), f"{size} words against {len(ours)}"
    if difference:
        raise UserError(
            f"{option} {path}: made with another dictionary: {file} and that of {our_folder} "
            f"differ: {difference}; {remedy}"
        )


def check_labels(
    path: str,
    option: str,
    task: FairseqTask,
    remedy: str,
    trained: str,
    may_be_renamed: bool = False,
) -> None:
    """Compare the classes that a checkpoint was trained with with the task's, if it has any.

    They are looked for in the folder that it was trained on and beside the checkpoint.

    Args:
        may_be_renamed: whether the task may have other names, such as `negative` for the `LABEL_0`
            of a file that names none; but no name may stand for another class.
    Raises:
        UserError: names both files and the first difference.
    """
    ours = getattr(task, "label_dictionary", None)
    if ours is None or ours is task.source_dictionary:  # as for regression
        return
    name = "label/dict.txt"
    files = [Path(first_folder(trained), name), Path(path).with_name("label") / "dict.txt"]
    file = next((f for f in files if f.is_file()), None)
    difference = difference_from(file, ours, option) if file is not None else ""
    if difference and may_be_renamed and file is not None:
        theirs = load_dictionary(file, option)
        known = [name for name in ours.symbols[ours.nspecial :] if name in theirs]
        if all(theirs.index(name) == ours.index(name) for name in known if name[0] != "<"):
            return
    if difference:
        raise UserError(
            f"{option} {path}: made with other classes: {file} and {Path(task.cfg.data, name)} "
            f"differ: {difference}; {remedy}"
        )


def difference_from(file: Path, ours: Dictionary, option: str) -> str:
    """The first difference of a dictionary's file and a task's own, "" if there is none."""
    theirs = load_dictionary(file, option)
    for symbol in ours.symbols[len(theirs) :]:
        if symbol.startswith("<"):  # <mask>, which some tasks add
            theirs.add_symbol(symbol)
    return first_difference(theirs, ours)


def dictionaries_by_language(task: FairseqTask) -> dict[str, Dictionary]:
    """The dictionaries of a translation task by language, that of the source first."""
    return {
        task.cfg.source_lang: task.source_dictionary,
        task.cfg.target_lang: task.target_dictionary,
    }


def load_dictionary(path: Path, option: str) -> Dictionary:
    """Read a dictionary of fairseq.

    Args:
        option: the option that names the file, for the error message.
    Raises:
        UserError: no such file, or not a dictionary.
    """
    try:
        return Dictionary.load(str(path))
    except FileNotFoundError as error:
        raise UserError(f"{option} {path}: no such file") from error
    except Exception as error:  # fairseq raises many kinds, RuntimeError among them
        reason = " ".join(str(error).split())
        raise UserError(f"{option} {path}: not a dictionary of fairseq ({reason})") from error


def vocabulary_size(state_dict: dict[str, Tensor]) -> Optional[int]:
    """Rows of the embedding matrix of a model with one dictionary, None without such a matrix."""
    names = [name for name in state_dict if name.endswith("embed_tokens.weight")]
    return state_dict[names[0]].size(0) if names else None


def trained_languages(
    cfg: Union[omegaconf.DictConfig, Namespace], folder: str
) -> dict[str, Optional[str]]:
    """The language pair of a checkpoint's task; fairseq infers it from the folder if not given."""
    pair = [getattr(cfg, side, None) for side in ("source_lang", "target_lang")]
    if None in pair and os.path.isdir(folder):
        pair = data_utils.infer_language_pair(folder)
    return dict(zip(("source_lang", "target_lang"), pair))


def vocabulary_sizes(state_dict: dict[str, Tensor]) -> dict[str, Optional[int]]:
    """Rows of the embedding matrices in a state, None where there is no such matrix.

    A shared matrix is stored under the encoder's name only; that of an encoder in another one
    (`fconv_self_att`) has a longer name.
    """
    source = state_dict.get("encoder.embed_tokens.weight")
    source = state_dict.get("encoder.encoder.embed_tokens.weight") if source is None else source
    target = state_dict.get("decoder.embed_tokens.weight")
    if target is None and any(name.startswith("decoder.layers.") for name in state_dict):
        target = source
    return {
        "source_lang": None if source is None else source.size(0),
        "target_lang": None if target is None else target.size(0),
    }


def first_difference(theirs: Dictionary, ours: Dictionary) -> str:
    """The first difference of two dictionaries, "" if they hold the same words in one order."""
    for i, (a, b) in enumerate(zip(theirs.symbols, ours.symbols)):
        if a != b:
            return f"entry {i} is {a!r} against {b!r}"
    if len(theirs) != len(ours):
        return f"{len(theirs)} words against {len(ours)}"
    return ""


def dictionary_hash(dictionary: Dictionary) -> bytes:
    """SHA-256 of a dictionary's words in their order."""
    return hashlib.sha256("\n".join(dictionary.symbols).encode()).digest()


def check_class_numbers(numbers: Iterable[int], classes: int, where: str) -> None:
    """Check that sentences have classes that a head of so many classes knows.

    A name that label/dict.txt lacks is its <unk>, which fairseq numbers below 0.

    Args:
        numbers: of the sentences' classes. where: names the data in the error.
    Raises:
        UserError: a sentence has none of them.
    """
    wrong = [number for number in numbers if not 0 <= number < classes]
    if not wrong:
        return
    what = f"class number {wrong[0]}" if wrong[0] >= 0 else "a class that label/dict.txt lacks"
    raise UserError(
        f"{where}: a sentence has {what}, and the model has {classes} classes; give its labels the "
        "names in the model's label/dict.txt, and fairseq-preprocess that file as --srcdict"
    )


def class_names(task) -> list[str]:
    """The classes of a task of fairseq's sentence_prediction, in the order of their numbers.

    fairseq adds <mask> to the dictionary of classes, too, which is none of them.
    """
    labels = task.label_dictionary
    return [labels[labels.nspecial + i] for i in range(task.cfg.num_classes)]
