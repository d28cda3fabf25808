"""What users name for `compress` to train on, and what is refused of it."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Optional

from pet_fairseq.checkpoints.model_files import find_checkpoint
from pet_fairseq.compress.engine import TEACHER, named_files
from pet_fairseq.compress.layout import Layout
from pet_fairseq.compress.options import PAIRS
from pet_fairseq.compress.raw_text import SOURCE, TARGET, TextPair, parallel
from pet_fairseq.compress.teacher_text import EngineText, open_teacher
from pet_fairseq.devices import gpu_count
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.predict.corpus.shards import option_words
from pet_fairseq.predict.corpus.text import UNPACKERS, check_encoding, check_text
from pet_fairseq.predict.ctranslate2 import MODEL
from pet_fairseq.predict.shared_options import BEAM_SEARCH, Search
from pet_fairseq.results.sacrebleu_sets import NamedSet, named_set, set_files

KEEP, TRIM = "keep", "trim"  # values of --vocabulary
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
    def layout(self) -> Layout:
        return Layout(self.out)

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
        return self.layout.exported("teacher", "ctranslate2")

    @property
    def tests_on_text(self) -> bool:
        """Whether the test set is raw text beside binary data."""
        return self.data is not None and "test" in self.pairs

    @property
    def raw_test(self) -> Optional[Path]:
        """The folder for the test set in pieces and as raw text; None where that is binary data."""
        if self.is_raw:
            return self.layout.text
        return self.layout.test_text if self.tests_on_text else None

    def test_name(self, test: str) -> str:
        """The test set of a plan, a subset or a folder, where the user asks for `test`."""
        if self.tests_on_text:
            return str(self.layout.test_data)
        return "test" if "test" in self.pairs else test

    @property
    def measures_agreement(self) -> bool:
        """Whether the test set's references are the teacher's own translations."""
        return self.data is None and not {"train", "test"} & self.pairs.keys()

    def sets(self) -> dict[str, list[TextPair]]:
        """The text of each set; what is held out comes out of the first of the training text."""
        sets = {
            split: [TextPair(*files, self.repeat if split == "train" else 1)]
            for split, files in self.pairs.items()
        }
        if self.text:
            made = self.layout.corpus_text
            sets.setdefault("train", []).append(TextPair(made / SOURCE, made / TARGET))
        return sets


def read_given(args: Namespace, out: Path) -> Given:
    """What the options of `pet-fairseq compress` name, checked.

    Args:
        out: the folder of --out.
    Raises:
        UserError: only one of --source-lang and --target-lang, as `check_test_options`, or as
            `check_given`.
    """
    languages = (args.source_lang, args.target_lang)
    if (languages[0] is None) != (languages[1] is None):
        raise UserError("--source-lang and --target-lang: give both, or none")
    check_test_options(args)
    pairs = {split: getattr(args, f"{split}_pair") for split in PAIRS}
    data, *more_data = args.data or [None]
    given = Given(
        args.teacher,
        out,
        data,
        languages=languages if all(languages) else None,
        pairs={split: tuple(files) for split, files in pairs.items() if files},
        vocabulary=args.vocabulary,
        text=tuple(args.text),
        repeat=args.repeat_pairs,
        device=args.device,
        subwords=named_files(args.bpe, args.sentencepiece),
        more_data=tuple(more_data),
        search=Search.of(args),
        jobs=max(args.jobs, gpu_count() if args.device == "cuda" else 1),
    )
    check_given(given)
    return given


def check_test_options(args: Namespace) -> None:
    """Check --test, --test-pair and --reference.

    Raises:
        UserError: two of them name the test set or its references, or one of them is for --data.
    """
    test = f"--test {args.test}"
    if args.data is None and args.reference:
        raise UserError("--reference: is for --data; the target side of --test-pair stands for it")
    is_named = named_set(args.test, "--test") is not None
    if is_named and (args.reference or args.test_pair):
        option = "--reference" if args.reference else "--test-pair"
        raise UserError(f"{test} and {option}: both name references; give one of them")
    if args.data is None and args.test != "test" and not is_named:
        raise UserError(f"{test}: is for --data; give the test set with --test-pair")
    if args.test_pair and (args.reference or args.test != "test"):
        option = "--reference" if args.reference else test
        raise UserError(f"--test-pair and {option}: both name the test set; give one of them")


def with_named_test(given: Given, test_set: NamedSet, teacher: Path) -> Given:
    """What is given, with a test set that sacreBLEU knows, of the teacher's languages.

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
    """Raise UserError for what cannot be trained on, as far as no teacher is needed to see it."""
    check_sources(given)
    given.search.check()
    if given.text:
        check_text([str(file) for file in given.text])
    elif search := search_words(given.search):
        raise UserError(f"{search[0]}: is for --text; give that too, or leave it out")
    check_words(given)
    for split, pair in given.pairs.items():
        for file in pair:
            check_plain_text(file, f"--{split}-pair")
        if given.text:  # which is translated before the pairs are read
            for _ in parallel(*pair):
                pass


def check_sources(given: Given) -> None:
    """Raise UserError unless there is one thing to train on, or text to translate beside one."""
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
    has_pairs = given.data is not None or "train" in given.pairs
    if given.repeat > 1 and not (has_pairs and given.text):
        raise UserError(
            f"--repeat-pairs {given.repeat}: says how often the pairs of --data or --train-pair "
            "are read beside the translations of --text; give both, or leave it out"
        )


def check_words(given: Given) -> None:
    """Raise UserError for a --vocabulary or subword models that do not go with what is given."""
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


def check_plain_text(file: Path, option: str) -> None:
    """Raise UserError for a file that is missing, compressed or not UTF-8; option: names it."""
    if not file.is_file():
        raise UserError(f"{option} {file}: no such file")
    if file.suffix in UNPACKERS:
        raise UserError(f"{option} {file}: is compressed; unpack it, and give the plain text")
    check_encoding(str(file), option)


def data_folders(given: Given, teacher: Path) -> tuple[Path, ...]:
    """The folders with binary data that are given; the first one has the teacher's dictionaries."""
    assert given.data is not None, "check_given"
    made_here = given.languages is not None and teacher.parent == given.layout.bilingual
    return (teacher.parent if made_here else given.data, *given.more_data)


def search_words(search: Search) -> Sequence[str]:
    """What a search has other than beam search, as options of translate-corpus."""
    values, defaults = search._asdict(), BEAM_SEARCH._asdict()
    return option_words({name: x for name, x in values.items() if x != defaults[name]})
