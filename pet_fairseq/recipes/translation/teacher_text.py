"""Sequence-level distillation (Kim and Rush, 2016): teachers' translations as training text."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text, whole_folder
from pet_fairseq.recipes.runner import find_program
from pet_fairseq.recipes.stage import Kind, Stage
from pet_fairseq.recipes.translation.setup import Setup, generate_command

BEAM = 5  # with which the training set is translated
LINE = re.compile(r"^([SH])-(\d+)\t(.*)$", re.MULTILINE)


def text_stages(setup: Setup, row: str) -> list[Stage]:
    """The stages in which the teachers translate the training set, and binary data is made of it.

    Students train on the sub-words that the teachers wrote, so these are not turned into text.
    """
    folder = setup.teacher_text_bin.parent
    translations = folder / "train.txt"
    translate = Stage(
        f"{folder.name}/translate",
        (row,),
        command=generate_command(setup, setup.teachers, BEAM, ("--gen-subset", "train"), text=()),
        product=translations,
        inputs=(setup.bin, *setup.teachers),
        kind=Kind.STDOUT,
    )
    binarise = Stage(
        f"{folder.name}/binarise",
        (row,),
        command=(
            *("pet-fairseq", "teacher-text", str(translations), "--data", str(setup.bin)),
            *(*setup.languages, "--out", str(setup.teacher_text_bin)),
        ),
        product=setup.teacher_text_bin,
        inputs=(translations, setup.bin),
    )
    return [translate, binarise]


def make_teacher_text(
    output: Path, data: Path, source_lang: str, target_lang: str, out: Path
) -> None:
    """Make binary data whose training set consists of the teacher's inputs and translations.

    Args:
        output: what fairseq-generate printed for the training set, in sub-words (without
            --remove-bpe).
        data: the folder it was generated from; dictionaries and other sets are taken from there.
        out: a new folder.
    Raises:
        UserError: `out` exists, `output` has no training set, or fairseq-preprocess failed.
    """
    if out.exists():
        raise UserError(f"--out {out}: exists; remove it or give another folder")
    sources, hypotheses = read_pairs(output)
    dictionaries = [data / f"dict.{lang}.txt" for lang in (source_lang, target_lang)]
    for dictionary in dictionaries:
        if not dictionary.is_file():
            raise UserError(f"--data {data}: has no {dictionary.name}; is it the data of {output}?")
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(out) as folder, tempfile.TemporaryDirectory() as text:
        for lang, lines in ((source_lang, sources), (target_lang, hypotheses)):
            Path(text, f"train.{lang}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        _binarise(Path(text, "train"), source_lang, target_lang, dictionaries, folder)
        for file in (*data.glob("valid.*"), *data.glob("test*.*")):
            shutil.copy(file, folder)


def read_pairs(output: Path) -> tuple[list[str], list[str]]:
    """Sources and their best translations that fairseq-generate printed, in the data's order.

    Raises:
        UserError: no sentences, or a sentence without a translation.
    """
    sources: dict[int, str] = {}
    translations: dict[int, str] = {}
    for kind, number, text in LINE.findall(read_text(output, "OUTPUT")):
        found = sources if kind == "S" else translations
        found.setdefault(int(number), text.split("\t")[-1])  # the best one comes first
    if not sources or sources.keys() != translations.keys():
        raise UserError(
            f"{output}: has {len(sources)} sources and translations of {len(translations)}; "
            "generate the training set again"
        )
    numbers = sorted(sources)
    return [sources[i] for i in numbers], [translations[i] for i in numbers]


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
        last = (result.stderr.strip().splitlines() or ["no output"])[-1]
        raise UserError(f"fairseq-preprocess failed on the teacher's text: {last}")
