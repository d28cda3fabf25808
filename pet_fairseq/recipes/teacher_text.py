"""Sequence-level distillation (Kim and Rush, 2016): a teacher's translations as training text."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text, whole_folder
from pet_fairseq.recipes.runner import find_program

LINE = re.compile(r"^([SH])-(\d+)\t(.*)$", re.MULTILINE)


def make_teacher_text(
    output: Path, data: Path, source_lang: str, target_lang: str, out: Path
) -> None:
    """Make binary data whose training set is what the teacher read and wrote, BPE and all.

    Args:
        output: what fairseq-generate printed for the training set, without --remove-bpe.
        data: its data; the dictionaries and the other sets are taken from there.
        out: a new folder; it also gets the text, as train.LANG.
    Raises:
        UserError: `out` is there, no training set in `output`, or fairseq-preprocess failed.
    """
    if out.exists():
        raise UserError(f"--out {out}: is there; remove it or give another folder")
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
    """The sources and the best hypotheses that fairseq-generate printed, in the data's order.

    Raises:
        UserError: a sentence without a translation, or none at all.
    """
    lines: dict[str, dict[int, str]] = {"S": {}, "H": {}}
    for kind, number, text in LINE.findall(read_text(output, "OUTPUT")):
        fields = text.split("\t")
        lines[kind].setdefault(int(number), fields[-1])
    if not lines["S"] or lines["S"].keys() != lines["H"].keys():
        raise UserError(
            f"{output}: has {len(lines['S'])} sources and {len(lines['H'])} translations; generate "
            "the training set again"
        )
    order = sorted(lines["S"])
    return [lines["S"][i] for i in order], [lines["H"][i] for i in order]


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
