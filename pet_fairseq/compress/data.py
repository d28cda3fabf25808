"""The stages that make binary data of the text that users give."""

from collections.abc import Sequence
from pathlib import Path

from pet_fairseq.compress.given import Given, data_folders
from pet_fairseq.compress.mixture import mixture_folders, write_mixture
from pet_fairseq.compress.raw_text import SPLITS, write_pieces
from pet_fairseq.compress.teacher_text import Opened, open_teacher
from pet_fairseq.predict.corpus.shards import SUMMARY
from pet_fairseq.runner.call import Call
from pet_fairseq.runner.stage import PRODUCT, CommandLine, Stage


def data_stages(given: Given, teacher: Path) -> tuple[tuple[Stage, ...], tuple[Path, ...]]:
    """What makes binary data with all of the text, if any is given, and the folders of the data.

    Args:
        teacher: its checkpoint, which is there.
    """
    if given.is_mixed:
        return mixture_stages(given, teacher)
    if not given.is_raw:
        return (), data_folders(given, teacher)
    opened = open_teacher(teacher)
    cfg = opened.task.cfg
    text, data = given.layout.text, given.layout.data
    binarise = preprocess_words(text, (cfg.source_lang, cfg.target_lang), SPLITS)
    stages = (
        text_stage(given, opened, text),
        Stage("data", ("data",), binarise, data, (text,)),
    )
    return stages, (data,)


def raw_test_stages(given: Given, teacher: Path) -> tuple[tuple[Stage, ...], Path]:
    """What makes binary data of a test set that is raw text beside binary data, and their folder.

    Args:
        teacher: its checkpoint, which is there.
    """
    words = data_folders(given, teacher)[0]
    opened = open_teacher(teacher, words)
    task = opened.task.cfg
    text, data = given.layout.test_text, given.layout.test_data
    sets = {"test": given.sets()["test"]}
    arguments = {"teacher": teacher, "sets": sets, "folder": PRODUCT, "data": words}
    pieces = Stage(
        text.name,
        ("data",),
        Call(write_pieces, arguments),
        text,
        inputs=(teacher, *given.pairs["test"], *opened.segmenter().files),
    )
    binarise = preprocess_words(text, (task.source_lang, task.target_lang), ("test",))
    return (pieces, Stage("test-data", ("data",), binarise, data, (text,))), data


def preprocess_words(text: Path, languages: tuple[str, str], splits: Sequence[str]) -> CommandLine:
    """The command that makes binary data of a folder of `write_pieces`."""
    source, target = languages
    prefixes = [word for split in splits for word in (f"--{split}pref", str(text / split))]
    words = [str(text / f"dict.{language}.txt") for language in languages]
    dictionaries = ("--srcdict", words[0], "--tgtdict", words[1])
    command = ("fairseq-preprocess", "-s", source, "-t", target, *prefixes, *dictionaries)
    return (*command, "--destdir", PRODUCT)


def mixture_stages(given: Given, teacher: Path) -> tuple[tuple[Stage, ...], tuple[Path, ...]]:
    """What puts the translated text into the binary data that are given, and their folders."""
    data = data_folders(given, teacher)
    folder, shards = given.layout.data, given.layout.shards
    arguments = {"teacher": teacher, "data": data, "shards": shards, "repeat": given.repeat}
    call = Call(write_mixture, {**arguments, "folder": PRODUCT})
    stage = Stage("data", ("data",), call, folder, (teacher, *data, shards / SUMMARY))
    return (stage,), mixture_folders(folder, len(data))


def text_stage(given: Given, teacher: Opened, folder: Path) -> Stage:
    """Raw text in a teacher's pieces."""
    sets = given.sets()
    engine = {} if given.engine is None else {"engine": given.engine}
    call = Call(write_pieces, {"teacher": teacher.path, "sets": sets, "folder": PRODUCT, **engine})
    files = tuple(
        file for pairs in sets.values() for pair in pairs for file in (pair.source, pair.target)
    )
    inputs = (teacher.path, *files, *teacher.segmenter().files)
    return Stage(folder.name, ("data",), call, folder, inputs)
