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
from pet_fairseq.recipes.setup import Setup, generate_command
from pet_fairseq.recipes.stage import Kind, Stage

BEAM = 5  # in which the training set is translated
LINE = re.compile(r"^([SH])-(\d+)\t(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class TeacherText:
    """A training set that the teachers wrote.

    Attributes:
        nbest: how many translations of each source, the best ones of a beam.
        with_gold: whether the training set's own pairs are in it, too.
    """

    nbest: int = 1
    with_gold: bool = False

    @property
    def parts(self) -> int:
        """How many times as many pairs it has as the training set."""
        return self.nbest + self.with_gold


# by the name of the folder
TEXTS = {
    "teacher_text": TeacherText(),
    "mixed_text": TeacherText(with_gold=True),
    "hypotheses_text": TeacherText(nbest=BEAM, with_gold=True),
}


def text_stages(setup: Setup, row: str, name: str) -> list[Stage]:
    """The teachers translate the training set, which becomes data to train on.

    The students train on the teachers' own pieces, so these are not made into text.

    Args:
        name: one of TEXTS. Those of one translation of each source have the translating in common.
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
    """Make binary data whose training set is what the teacher read and wrote, BPE and all.

    Args:
        output: what fairseq-generate printed for the training set, without --remove-bpe.
        data: its data; the dictionaries and the other sets are taken from there.
        out: a new folder.
        nbest: how many translations of each source to take, the best ones.
        keep_gold: keep the data's own pairs, too, in front of the teacher's.
    Raises:
        UserError: `out` is there, no training set in `output` or too few translations of it, or
            fairseq-preprocess failed; gold pairs that are not there, or not in its own format.
    """
    check_positive(nbest=nbest)
    if out.exists():
        raise UserError(f"--out {out}: is there; remove it or give another folder")
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
    """Put the sentences of a binary file in front of another one's.

    They become one file, since fairseq-train loses most of the parts train, train1, ... of a folder
    unless it is given --upsample-primary 1.

    Args:
        gold, own: names without .bin and .idx. dictionary: of both.
    Raises:
        UserError: `gold` is not there, or in another format than fairseq-preprocess's default.
    """
    from fairseq.data import Dictionary, indexed_dataset

    if indexed_dataset.infer_dataset_impl(str(gold)) != "mmap":
        raise UserError(
            f"--keep-gold: {gold}.idx is not there, or not as fairseq-preprocess writes it with "
            "--dataset-impl mmap; preprocess the data so"
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

    A source stands once for each of its translations, of which the best comes first.

    Raises:
        UserError: a sentence without a translation, none at all, or never `nbest` of them.
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
            f"--nbest {nbest}: {output} has {most} of each source; give fairseq-generate the same "
            "--nbest"
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
