"""Sequence-level distillation (Kim and Rush, 2016): teachers' translations as training text."""

import re
import shutil
import subprocess
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_folder
from pet_fairseq.predict.bad_lines import Bad, BadLines
from pet_fairseq.recipes.translation.setup import Setup, generate_command
from pet_fairseq.runner.processes import last_line
from pet_fairseq.runner.run import find_program
from pet_fairseq.runner.stage import PRODUCT, Kind, Stage

if TYPE_CHECKING:  # not loaded to print help
    import numpy as np

BEAM = 5  # with which the training set is translated
LINE = re.compile(rb"([SH])-(\d{1,18})\t")
# a pair that the teacher cannot read is left out, as it is in every training
SKIPS = "--skip-invalid-size-inputs-valid-test"


class Pair(NamedTuple):
    """A sentence's number in the data, its source, and its best translation."""

    number: int
    source: str
    translation: str


def text_stages(setup: Setup, row: str) -> list[Stage]:
    """The stages in which the teachers translate the training set, and binary data is made of it.

    Students train on the subwords that the teachers wrote, so these are not turned into text.
    """
    folder = setup.teacher_text_bin.parent
    translations = folder / "train.txt"
    translate = Stage(
        f"{folder.name}/translate",
        (row,),
        command=generate_command(
            setup, setup.teachers, BEAM, ("--gen-subset", "train", SKIPS), text=()
        ),
        product=translations,
        inputs=(setup.bin, *setup.teachers),
        kind=Kind.STDOUT,
    )
    binarise = Stage(
        f"{folder.name}/binarise",
        (row,),
        command=(
            *("pet-fairseq", "teacher-text", str(translations), "--data", str(setup.bin)),
            *setup.languages,
            *("--out", PRODUCT),
        ),
        product=setup.teacher_text_bin,
        inputs=(translations, setup.bin),
    )
    return [translate, binarise]


def make_teacher_text(
    output: Path, data: Path, source_lang: str, target_lang: str, out: Path
) -> BadLines:
    """Make binary data whose training set consists of the teacher's inputs and translations.

    Returns how many pairs of the training set are empty, or left out.

    Args:
        output: what fairseq-generate printed for the training set, in subwords (without
            --remove-bpe).
        data: the folder it was generated from; dictionaries and other sets are taken from there.
        out: a new folder.
    Raises:
        UserError: `out` exists, `output` or `data` has no training set, or fairseq-preprocess
            failed.
    """
    if out.exists():
        raise UserError(f"--out {out}: exists; remove it or give another folder")
    dictionaries = [data / f"dict.{lang}.txt" for lang in (source_lang, target_lang)]
    for dictionary in dictionaries:
        if not dictionary.is_file():
            raise UserError(f"--data {data}: has no {dictionary.name}; is it the data of {output}?")
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(out) as folder, tempfile.TemporaryDirectory() as text:
        sides = [Path(text, f"train.{lang}") for lang in (source_lang, target_lang)]
        bad = write_pairs(
            read_pairs(output), sides, _training_pairs(data, source_lang, target_lang)
        )
        _binarise(Path(text, "train"), source_lang, target_lang, dictionaries, folder)
        for file in (*data.glob("valid.*"), *data.glob("test*.*")):
            shutil.copy(file, folder)
    return bad


def _training_pairs(data: Path, source_lang: str, target_lang: str) -> int:
    """How many pairs the training set of a data folder has."""
    from fairseq.data.data_utils import load_indexed_dataset  # not to show a command's help

    name = data / f"train.{source_lang}-{target_lang}.{source_lang}"
    dataset = load_indexed_dataset(str(name), None)
    if dataset is None:
        raise UserError(f"--data {data}: has no {name.name}; give the folder of the training set")
    return len(dataset)


def write_pairs(pairs: Iterable[Pair], sides: Sequence[Path], total: int) -> BadLines:
    """Write sources and translations to the files `sides`, a line each.

    Args:
        total: the number of pairs in the data, of which some may be missing.
    """
    bad = BadLines()
    with (
        sides[0].open("w", encoding="utf-8") as left,
        sides[1].open("w", encoding="utf-8") as right,
    ):
        for pair in pairs:
            _skip_to(bad, pair.number)
            bad.add(() if pair.source.strip() else (Bad.EMPTY,))
            left.write(f"{pair.source}\n")
            right.write(f"{pair.translation}\n")
    _skip_to(bad, total)
    return bad


def _skip_to(bad: BadLines, number: int) -> None:
    """Count the pairs before this one that are missing."""
    while bad.lines < number:
        bad.add((Bad.SKIPPED,))


def read_pairs(output: Path) -> Iterator[Pair]:
    """Sources and their best translations that fairseq-generate printed, in the data's order.

    An empty source has an empty translation, whatever the teacher says. Only the places of the
    lines are in memory, not the text.

    Raises:
        UserError: no sentences, a sentence without a translation, or one that is not UTF-8.
    """
    import numpy as np

    places = find_lines(output)
    (numbers, sources), (translated, translations) = places["S"], places["H"]
    if not len(numbers) or not np.array_equal(numbers, translated):
        raise UserError(
            f"{output}: has {len(numbers)} sources and translations of {len(translated)}; "
            "generate the training set again"
        )
    with output.open("rb") as file:
        for number, *starts in zip(numbers.tolist(), sources.tolist(), translations.tolist()):
            source, translation = (_read_text_at(file, start, output) for start in starts)
            yield Pair(number, source, translation if source.strip() else "")


def find_lines(output: Path) -> dict[str, tuple["np.ndarray", "np.ndarray"]]:
    """The numbers of the sentences in S and H lines, sorted, and where their first line starts."""
    import numpy as np

    numbers, starts = ({kind: array("q") for kind in "SH"} for _ in range(2))
    start = 0
    with output.open("rb") as file:
        for line in file:
            found = LINE.match(line)
            if found:
                kind = found[1].decode()
                numbers[kind].append(int(found[2]))
                starts[kind].append(start)
            start += len(line)
    places = {}
    for kind in "SH":
        known, first = np.unique(np.array(numbers[kind], dtype=np.int64), return_index=True)
        places[kind] = known, np.array(starts[kind], dtype=np.int64)[first]
    return places


def _read_text_at(file: BinaryIO, start: int, output: Path) -> str:
    """The last field of the line that starts there."""
    file.seek(start)
    line = file.readline().rstrip(b"\r\n")
    try:
        return line.decode("utf-8").split("\t")[-1]
    except UnicodeDecodeError as error:
        raise UserError(
            f"OUTPUT {output}: not UTF-8 at byte {start + error.start}, cut short or in another "
            "encoding; make it again"
        ) from error


def _binarise(
    prefix: Path, source_lang: str, target_lang: str, dictionaries: list[Path], folder: Path
) -> None:
    command = [
        *(find_program("fairseq-preprocess"), "--trainpref", str(prefix)),
        *("--source-lang", source_lang, "--target-lang", target_lang),
        *("--srcdict", str(dictionaries[0]), "--tgtdict", str(dictionaries[1])),
        *("--destdir", str(folder), "--workers", "2"),
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        last = last_line(result.stderr)
        raise UserError(f"fairseq-preprocess failed on the teacher's text: {last}")
