"""Sequence-level distillation (Kim and Rush, 2016): teachers' translations as training text."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.files import read_text, whole_folder
from pet_fairseq.recipes.runner import find_program
from pet_fairseq.recipes.stage import Kind, Stage
from pet_fairseq.recipes.translation.setup import Setup, generate_command

BEAM = 5  # with which the training set is translated
LINE = re.compile(r"^([SH])-(\d+)\t(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class TeacherText:
    """A training set whose target side the teachers wrote.

    Attributes:
        nbest: how many translations of each source, the best ones of a beam.
        with_gold: whether it has the pairs of the original training set, too.
    """

    nbest: int = 1
    with_gold: bool = False

    @property
    def parts(self) -> int:
        """How many times as many pairs it has as the original training set."""
        return self.nbest + self.with_gold


# by the names of their folders
TEXTS = {
    "teacher_text": TeacherText(),
    "mixed_text": TeacherText(with_gold=True),
    "hypotheses_text": TeacherText(nbest=BEAM, with_gold=True),
}


def text_stages(setup: Setup, row: str, name: str) -> list[Stage]:
    """The stages in which the teachers translate the training set, and binary data is made of it.

    Students train on the sub-words that the teachers wrote, so these are not turned into text.

    Args:
        name: one of TEXTS. Those with one translation of each source share the first stage.
    """
    text = TEXTS[name]
    out = setup.text_folder(name)
    nbest = ("--nbest", str(text.nbest)) if text.nbest > 1 else ()
    translations = setup.runs / (name if nbest else "teacher_text") / "train.txt"
    translate = Stage(
        f"{translations.parent.name}/translate",
        (row,),
        command=generate_command(
            *(setup, setup.teachers, BEAM, ("--gen-subset", "train", *nbest)), text=()
        ),
        product=translations,
        inputs=(setup.bin, *setup.teachers),
        kind=Kind.STDOUT,
    )
    binarise = Stage(
        f"{name}/binarise",
        (row,),
        command=(
            *("pet-fairseq", "teacher-text", str(translations), "--data", str(setup.bin)),
            *(*setup.languages, "--out", str(out), *nbest),
            *(("--keep-gold",) if text.with_gold else ()),
        ),
        product=out,
        inputs=(translations, setup.bin),
    )
    return [translate, binarise]


def make_teacher_text(
    output: Path,
    data: Path,
    source_lang: str,
    target_lang: str,
    out: Path,
    nbest: int = 1,
    keep_gold: bool = False,
) -> None:
    """Make binary data whose training set consists of the teacher's inputs and translations.

    Args:
        output: what fairseq-generate printed for the training set, in sub-words (without
            --remove-bpe).
        data: the folder it was generated from; dictionaries and other sets are taken from there.
        out: a new folder.
        nbest: how many translations of each source to take, the best ones.
        keep_gold: keep the pairs of `data`, too, before those with the teacher's translations.
    Raises:
        UserError: `out` exists; `output` has no training set, or too few translations of it;
            fairseq-preprocess failed; or the pairs to keep are missing or in another format than
            fairseq-preprocess's default.
    """
    check_positive(nbest=nbest)
    if out.exists():
        raise UserError(f"--out {out}: exists; remove it or give another folder")
    sources, hypotheses = read_pairs(output, nbest)
    dictionaries = [data / f"dict.{lang}.txt" for lang in (source_lang, target_lang)]
    for dictionary in dictionaries:
        if not dictionary.is_file():
            raise UserError(f"--data {data}: has no {dictionary.name}; is it the data of {output}?")
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(out) as folder, tempfile.TemporaryDirectory() as text:
        for lang, lines in ((source_lang, sources), (target_lang, hypotheses)):
            Path(text, f"train.{lang}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        _binarise(Path(text, "train"), source_lang, target_lang, dictionaries, folder)
        if keep_gold:
            for lang in (source_lang, target_lang):
                name = f"train.{source_lang}-{target_lang}.{lang}"
                put_in_front(data / name, folder / name, folder / f"dict.{lang}.txt")
        for file in (*data.glob("valid.*"), *data.glob("test*.*")):
            shutil.copy(file, folder)


def put_in_front(gold: Path, own: Path, dictionary: Path) -> None:
    """Insert the sentences of one binary file before those of another.

    They become one file, since fairseq-train loses most of the parts train, train1, ... of a folder
    unless it is given --upsample-primary 1.

    Args:
        gold: the file to insert. own: the file that is extended. Both are given without .bin and
            .idx, and have words of `dictionary`.
    Raises:
        UserError: `gold` is missing, or in another format than fairseq-preprocess's default.
    """
    from fairseq.data import Dictionary, indexed_dataset

    if indexed_dataset.infer_dataset_impl(str(gold)) != "mmap":
        raise UserError(
            f"--keep-gold: {gold}.idx is missing or in another format than mmap; preprocess the "
            "data with --dataset-impl mmap"
        )
    words = len(Dictionary.load(str(dictionary)))
    both = own.with_name(f"both.{own.name}")
    builder = indexed_dataset.make_builder(f"{both}.bin", "mmap", words)
    for part in (gold, own):
        builder.merge_file_(str(part))
    builder.finalize(f"{both}.idx")
    for kind in ("bin", "idx"):
        Path(f"{both}.{kind}").replace(f"{own}.{kind}")


def read_pairs(output: Path, nbest: int = 1) -> tuple[list[str], list[str]]:
    """Sources and their best translations that fairseq-generate printed, in the data's order.

    A source is repeated for each of its translations, of which the best comes first.

    Raises:
        UserError: no sentences, a sentence without a translation, or no sentence with `nbest`.
    """
    sources: dict[int, str] = {}
    translations: dict[int, list[str]] = {}
    for kind, number, text in LINE.findall(read_text(output, "OUTPUT")):
        if kind == "S":
            sources.setdefault(int(number), text)
        else:
            translations.setdefault(int(number), []).append(text.split("\t")[-1])
    if not sources or sources.keys() != translations.keys():
        raise UserError(
            f"{output}: has {len(sources)} sources and translations of {len(translations)}; "
            "generate the training set again"
        )
    most = max(map(len, translations.values()))
    if most < nbest:
        raise UserError(
            f"--nbest {nbest}: {output} has {most} translations of each source at most; generate "
            "it with the same --nbest"
        )
    pairs = [(sources[i], text) for i in sorted(sources) for text in translations[i][:nbest]]
    return [source for source, _ in pairs], [text for _, text in pairs]


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
