"""What users give, and the stages that make a checkpoint of one pair and binary data of it."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Optional

from pet_fairseq.checkpoints.dictionaries import first_folder, trained_languages
from pet_fairseq.checkpoints.loading import CHECKPOINT, find_checkpoint
from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.checkpoints.text_files import read_languages
from pet_fairseq.checkpoints.translation_checks import is_multilingual
from pet_fairseq.compress.engine import check_translates, dictionary_of, subword_files, take
from pet_fairseq.compress.layout import PRECISION, TRIMMED, Layout
from pet_fairseq.compress.mixture import mixture_folders, write_mixture
from pet_fairseq.compress.raw_text import (
    FIRST_LINES,
    KEEP,
    SOURCE,
    SPLITS,
    TARGET,
    TEACHER,
    TRIM,
    EngineText,
    TextPair,
    open_teacher,
    write_corpus_text,
    write_pieces,
)
from pet_fairseq.compress.teacher import why_not_exported
from pet_fairseq.compress.vocabulary import train_vocabulary, trim_teacher
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.huggingface.source import CONFIG
from pet_fairseq.multilingual.bilingual import check_languages, check_trained, write_bilingual
from pet_fairseq.predict.corpus.shards import SUMMARY, option_words
from pet_fairseq.predict.corpus.text import UNPACKERS, TextReader, check_encoding, check_text
from pet_fairseq.predict.exported import MISSING, MODEL, has_ctranslate2, read_vocabularies
from pet_fairseq.predict.shared_options import BEAM_SEARCH, Search
from pet_fairseq.predict.text import has_pieces
from pet_fairseq.results.sacrebleu_sets import NamedSet, set_files
from pet_fairseq.runner.call import Call
from pet_fairseq.runner.stage import PRODUCT, CommandLine, Stage

BILINGUAL, SHARDS, BIN = "bilingual", "corpus", "bin"
TEXT, TEST_TEXT, TEST_BIN = "text", "test_text", "test_bin"
Pair = tuple[Path, Path]


@dataclass(frozen=True)
class Given:
    """What the user names.

    Attributes:
        teacher: a checkpoint, or a folder with one, with Hugging Face's files or of CTranslate2.
        data: binary data; None with pairs. more_data: folders with more of its training set.
        languages: the pair of a multilingual teacher.
        pairs: raw text of the sets, source and target, a sentence a line.
        vocabulary: "keep", "trim", or how many words of a side to keep.
        text: files of source sentences that the teacher translates.
        repeat: how often training has the given pairs, those of the data too, for each time that
            it has the translations.
        device: that translates them. search: how it does. jobs: in how many processes.
        subwords: subword models for a model in CTranslate2, by the names that they get;
            empty for those beside it.
    """

    teacher: Path
    out: Path
    data: Optional[Path] = None
    languages: Optional[tuple[str, str]] = None
    pairs: dict[str, Pair] = field(default_factory=dict)
    vocabulary: str = KEEP
    text: tuple[Path, ...] = ()
    repeat: int = 1
    device: str = "cpu"
    subwords: dict[str, Path] = field(default_factory=dict)
    more_data: tuple[Path, ...] = ()
    search: Search = BEAM_SEARCH
    jobs: int = 1

    @property
    def is_raw(self) -> bool:
        """Whether text alone is given, no binary data."""
        return self.data is None

    @property
    def is_mixed(self) -> bool:
        """Whether text is given beside binary data."""
        return self.data is not None and bool(self.text)

    @property
    def engine(self) -> Optional[Path]:
        """The folder for a teacher that is in CTranslate2; None for any other."""
        if not (self.teacher / MODEL).is_file() or find_checkpoint(self.teacher):
            return None
        return Layout(self.out).exported("teacher", "ctranslate2")

    @property
    def tests_on_text(self) -> bool:
        """Whether the test set is raw text beside binary data."""
        return self.data is not None and "test" in self.pairs

    @property
    def raw_test(self) -> Optional[Path]:
        """The folder for the test set in pieces and as raw text; None where that is binary data."""
        if self.is_raw:
            return self.out / TEXT
        return self.out / TEST_TEXT if self.tests_on_text else None

    def test_name(self, test: str) -> str:
        """The test set of a plan, a subset or a folder, where the user asks for `test`."""
        if self.tests_on_text:
            return str(self.out / TEST_BIN)
        return "test" if "test" in self.pairs else test

    @property
    def measures_agreement(self) -> bool:
        """Whether the test set's references are the teacher's own translations."""
        return self.data is None and not {"train", "test"} & self.pairs.keys()

    @property
    def corpus(self) -> Path:
        """The folder for the teacher's translations as text."""
        return self.out / "corpus_text"

    def sets(self) -> dict[str, list[TextPair]]:
        """The text of each set; what is held out comes out of the first of the training text."""
        sets = {
            split: [TextPair(*files, self.repeat if split == "train" else 1)]
            for split, files in self.pairs.items()
        }
        if self.text:
            made = TextPair(self.corpus / SOURCE, self.corpus / TARGET)
            sets.setdefault("train", []).append(made)
        return sets


def with_named_test(given: Given, test_set: NamedSet, teacher: Path) -> Given:
    """The same with a test set that sacreBLEU knows, of the teacher's languages.

    Args:
        teacher: its checkpoint or folder, which is there.
    Raises:
        UserError: the set has no such pair or cannot be had, or the teacher reads pieces only.
    """
    if given.engine is not None and not EngineText(given.engine).reads_raw_text:
        raise UserError(
            f"--test {test_set}: is raw text, and {TEACHER} {given.teacher} has no subword model "
            "beside it; give that file with --sentencepiece or --bpe"
        )
    data = None if given.data is None else data_folders(given, teacher)[0]
    task = open_teacher(teacher, data).task.cfg
    files = set_files(test_set, "--test", (task.source_lang, task.target_lang))
    return replace(given, pairs={**given.pairs, "test": files})


def check_given(given: Given) -> None:
    """Raise UserError unless there is one thing to train on."""
    beside_data = [split for split in given.pairs if split != "test"]
    if given.data is not None and beside_data:
        split = beside_data[0]
        raise UserError(
            f"--data and --{split}-pair: both say what to train on; give one of them, or --text "
            "beside one"
        )
    if given.data is None and not ("train" in given.pairs or given.text):
        raise UserError("--data, --train-pair or --text: says what to train on; give one of them")
    check_positive(repeat_pairs=given.repeat)
    given.search.check()
    if given.text:
        check_text([str(file) for file in given.text])
    elif search := search_words(given.search):
        raise UserError(f"{search[0]}: is for --text; give that too, or leave it out")
    if given.vocabulary != KEEP and not given.is_raw:
        raise UserError(
            f"--vocabulary {given.vocabulary}: is for raw text; give --train-pair or --text "
            "without --data"
        )
    if given.vocabulary not in (KEEP, TRIM) and not given.vocabulary.isdecimal():
        raise UserError(
            f"--vocabulary {given.vocabulary}: give {KEEP}, {TRIM}, or a number of pieces"
        )
    if given.subwords and given.engine is None:
        raise UserError(
            f"--sentencepiece and --bpe: are for a {TEACHER} in CTranslate2; put the subword "
            f"model of the training text beside {given.teacher}"
        )
    for split, pair in given.pairs.items():
        for file in pair:
            check_plain_text(file, f"--{split}-pair")


def check_plain_text(file: Path, option: str) -> None:
    """Raise UserError for a file that is missing, compressed or not UTF-8; option: names it."""
    if not file.is_file():
        raise UserError(f"{option} {file}: no such file")
    if file.suffix in UNPACKERS:
        raise UserError(f"{option} {file}: is compressed; unpack it, and give the plain text")
    check_encoding(str(file), option)


# The checkpoints below name their folders, so these are written by their names, not as PRODUCT.
# --- the teacher ----------------------------------------------------------------------------------


def teacher_stages(given: Given) -> tuple[tuple[Stage, ...], Path]:
    """What makes a checkpoint of one language pair of the teacher, and that checkpoint."""
    path = given.teacher
    if path.is_dir():
        file = find_checkpoint(path)
        if given.engine is not None:
            return engine_stage(given, given.engine)
        if file is None and (path / CONFIG).is_file():
            return import_stage(given)
        if file is None:
            raise UserError(
                f"{TEACHER} {path}: has neither a checkpoint nor {CONFIG}; give a checkpoint, a "
                "folder of pet-fairseq import-hf or bilingual, one of Hugging Face's files, or one "
                "of CTranslate2"
            )
        path = file
    if given.languages is None:
        return (), path
    cfg = load_options(str(path), TEACHER)
    if not is_multilingual(cfg.task):
        check_pair(cfg.task, path, given.languages)
        return (), path
    check_trained(cfg, str(path))
    check_languages(cfg.task, str(path), *given.languages)
    folder = given.out / BILINGUAL
    arguments = {"path": str(path), "source_lang": given.languages[0], "out": folder}
    arguments |= {"target_lang": given.languages[1], "data": given.data and str(given.data)}
    inputs = (path, *([given.data] if given.data else []))
    call = Call(write_bilingual, arguments)
    return (Stage("bilingual", ("teacher",), call, folder, inputs),), folder / CHECKPOINT


def check_pair(task: Namespace, path: Path, languages: tuple[str, str]) -> None:
    """Raise UserError for languages that are not those of a bilingual teacher."""
    trained = tuple(trained_languages(task, first_folder(task.data)).values())
    if trained != languages:
        raise UserError(
            f"--source-lang {languages[0]} --target-lang {languages[1]}: {TEACHER} {path} "
            f"translates from {trained[0]} to {trained[1]}; leave the options out"
        )


def import_stage(given: Given) -> tuple[tuple[Stage, ...], Path]:
    folder = given.out / "imported"
    arguments: dict[str, object] = {"path": given.teacher, "out": folder}
    if given.languages is not None:
        arguments |= zip(("source_lang", "target_lang"), given.languages)
    call = Call(import_model, arguments)
    stage = Stage("import", ("teacher",), call, folder, (given.teacher,))
    return (stage,), folder / CHECKPOINT


def engine_stage(given: Given, folder: Path) -> tuple[tuple[Stage, ...], Path]:
    """What makes a folder with all that the text of a model in CTranslate2 needs."""
    files = check_engine(given)
    languages = engine_languages(given)
    arguments = {"folder": given.teacher, "languages": languages, "files": files, "out": folder}
    inputs = (given.teacher, *files.values())
    return (Stage("teacher", ("teacher",), Call(take, arguments), folder, inputs),), folder


def check_engine(given: Given) -> dict[str, Path]:
    """The subword models for a model in CTranslate2, by name.

    Raises:
        UserError: CTranslate2 is missing, the model does not translate, nothing or binary data is
            given for it to translate, or its pieces are to stay without a subword model.
    """
    if not has_ctranslate2():
        raise UserError(f"{TEACHER} {given.teacher}: {MISSING}")
    check_translates(given.teacher)
    if not given.text:
        raise UserError(
            f"--text: missing; {TEACHER} {given.teacher} is in CTranslate2 and teaches by its "
            "translations alone; give it source sentences, such as those of --train-pair"
        )
    files = given.subwords or subword_files(given.teacher)
    if not files and not given.vocabulary.isdecimal():
        words = dictionary_of(read_vocabularies(given.teacher)[0])
        if has_pieces(words):
            raise UserError(
                f"{TEACHER} {given.teacher}: its words are pieces, and it has no subword model "
                "beside it; give that file with --sentencepiece or --bpe, or text in its pieces "
                "and a --vocabulary of N pieces for the student"
            )
    return files


def engine_languages(given: Given) -> tuple[str, str]:
    """The languages that the user names for a model in CTranslate2, or that its folder names.

    Raises:
        UserError: neither.
    """
    languages = given.languages or tuple(read_languages(given.teacher).values())
    if not languages:
        raise UserError(
            f"--source-lang and --target-lang: missing; {TEACHER} {given.teacher} is in "
            "CTranslate2, which knows no languages"
        )
    source, target = languages
    return source, target


def first_lines(text: tuple[Path, ...]) -> list[str]:
    """The beginning of a text."""
    lines = TextReader([str(file) for file in text])
    first = [line.text for line in islice(lines, FIRST_LINES)]
    lines.close()
    return first


def corpus_stages(given: Given, teacher: Path) -> tuple[tuple[Stage, ...], Path]:
    """What lets the teacher translate text, if that is given, and the folder of its translations.

    It does so in CTranslate2 if it can be held there. The translation goes on where it was, so it
    is finished when its summary is there.

    Args:
        teacher: its checkpoint, which is there.
    """
    if not given.text:
        return (), given.out
    if given.engine is not None:
        reads = EngineText(given.engine)
        reads.check(first_lines(given.text))
        in_pieces = () if reads.reads_raw_text else ("--tokenizer", "space")
        return translation_stages(given, teacher, given.engine, in_pieces), given.corpus
    opened = open_teacher(teacher, data_folders(given, teacher)[0] if given.is_mixed else None)
    # a file that is missing or not the teacher's is told now, not after the text is translated
    opened.segmenter().check((line, "") for line in first_lines(given.text))
    assert opened.cfg is not None, "a model in CTranslate2 was dealt with"
    words = opened.task.cfg.data
    _, not_held = why_not_exported(opened.cfg.model, str(teacher))
    engine = teacher if not_held is not None else given.out / "corpus_teacher"
    export = (
        *("pet-fairseq", "export", str(teacher), "--data", words),
        *("--to", "ctranslate2", "--precision", PRECISION, "--out", PRODUCT),
    )
    made = [Stage("export-for-text", ("corpus",), export, engine, (teacher,))]
    stages = (
        *(made if not_held is None else ()),
        *translation_stages(given, teacher, engine, ("--data", words)),
    )
    return stages, stages[-1].product


def translation_stages(
    given: Given, teacher: Path, engine: Path, options: tuple[str, ...]
) -> tuple[Stage, ...]:
    """What translates text into shards and, if there is no other data, writes them as raw text.

    Args:
        engine: the teacher's form that translates. options: of translate-corpus.
    """
    shards = given.out / SHARDS
    command = (
        *("pet-fairseq", "translate-corpus", str(engine), *options),
        *("--text", *map(str, given.text), "--out", str(shards), "--device", given.device),
        *(*search_words(given.search), "--jobs", str(given.jobs)),
    )
    summary, inputs = shards / SUMMARY, (engine, *given.text)
    made = Stage("translate-text", ("corpus",), command, summary, inputs, free=("--jobs",))
    if given.is_mixed:
        return (made,)
    decode = Call(write_corpus_text, {"teacher": teacher, "shards": shards, "folder": PRODUCT})
    return made, Stage("corpus-text", ("corpus",), decode, given.corpus, (summary,))


def search_words(search: Search) -> Sequence[str]:
    """What a search has other than beam search, as options of translate-corpus."""
    values, defaults = search._asdict(), BEAM_SEARCH._asdict()
    return option_words({name: x for name, x in values.items() if x != defaults[name]})


def vocabulary_stages(given: Given, teacher: Path) -> tuple[tuple[Stage, ...], Path]:
    """What makes the words of the student, and where they are.

    They are the words of a checkpoint: the teacher's own, or those of one with fewer words. A
    teacher in CTranslate2 has folders in place of checkpoints; what a student learns of it is text,
    so a number of pieces is a vocabulary of its own.

    Args:
        teacher: its checkpoint or folder, which is there.
    """
    if given.vocabulary == KEEP:
        return (), teacher
    if given.engine is not None and given.vocabulary != TRIM:
        return own_vocabulary_stage(given, given.engine)
    pieces, folder = given.out / "pieces", given.out / TRIMMED
    most = None if given.vocabulary == TRIM else int(given.vocabulary)
    arguments = {"teacher": teacher, "text": pieces, "most": most, "folder": folder}
    call = Call(trim_teacher, arguments)
    trimming = Stage("vocabulary", ("teacher",), call, folder, (teacher, pieces))
    stages = (text_stage(given, teacher, pieces), trimming)
    return stages, folder if given.engine else folder / CHECKPOINT


def own_vocabulary_stage(given: Given, engine: Path) -> tuple[tuple[Stage, ...], Path]:
    """What makes a vocabulary of the training text, and its folder."""
    sets, folder = given.sets(), given.out / "vocabulary"
    arguments = {"engine": engine, "sets": sets, "number": int(given.vocabulary), "folder": folder}
    inputs = tuple(file for pair in sets["train"] for file in (pair.source, pair.target))
    call = Call(train_vocabulary, arguments)
    return (Stage("vocabulary", ("teacher",), call, folder, (engine, *inputs)),), folder


# --- text -----------------------------------------------------------------------------------------


def data_stages(given: Given, teacher: Path) -> tuple[tuple[Stage, ...], tuple[Path, ...]]:
    """What makes binary data with all of the text, if any is given, and the folders of the data.

    Args:
        teacher: its checkpoint, which is there.
    """
    if given.is_mixed:
        return mixture_stages(given, teacher)
    if not given.is_raw:
        return (), data_folders(given, teacher)
    cfg = open_teacher(teacher).task.cfg
    text, data = given.out / TEXT, given.out / BIN
    binarise = preprocess_words(text, (cfg.source_lang, cfg.target_lang), SPLITS)
    stages = (
        text_stage(given, teacher, text),
        Stage("data", ("data",), binarise, data, (text,)),
    )
    return stages, (data,)


def raw_test_stages(given: Given, teacher: Path) -> tuple[tuple[Stage, ...], Path]:
    """What makes binary data of a test set that is raw text beside binary data, and their folder.

    Args:
        teacher: its checkpoint, which is there.
    """
    words = data_folders(given, teacher)[0]
    task = open_teacher(teacher, words).task.cfg
    text, data = given.out / TEST_TEXT, given.out / TEST_BIN
    sets = {"test": given.sets()["test"]}
    arguments = {"teacher": teacher, "sets": sets, "folder": PRODUCT, "data": words}
    pieces = Stage(
        *(TEST_TEXT, ("data",), Call(write_pieces, arguments), text),
        inputs=(teacher, *given.pairs["test"]),
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


def data_folders(given: Given, teacher: Path) -> tuple[Path, ...]:
    """The folders with binary data that are given; the first one has the teacher's dictionaries."""
    assert given.data is not None, "check_given"
    made_here = given.languages is not None and teacher.parent == given.out / BILINGUAL
    return (teacher.parent if made_here else given.data, *given.more_data)


def mixture_stages(given: Given, teacher: Path) -> tuple[tuple[Stage, ...], tuple[Path, ...]]:
    """What puts the translated text into the binary data that are given, and their folders."""
    data, folder, shards = data_folders(given, teacher), given.out / BIN, given.out / SHARDS
    arguments = {"teacher": teacher, "data": data, "shards": shards, "repeat": given.repeat}
    call = Call(write_mixture, {**arguments, "folder": PRODUCT})
    stage = Stage("data", ("data",), call, folder, (teacher, *data, shards / SUMMARY))
    return (stage,), mixture_folders(folder, len(data))


def text_stage(given: Given, teacher: Path, folder: Path) -> Stage:
    """Raw text in a teacher's pieces."""
    sets = given.sets()
    engine = {} if given.engine is None else {"engine": given.engine}
    call = Call(write_pieces, {"teacher": teacher, "sets": sets, "folder": PRODUCT, **engine})
    files = tuple(
        file for pairs in sets.values() for pair in pairs for file in (pair.source, pair.target)
    )
    return Stage(folder.name, ("data",), call, folder, (teacher, *files))
