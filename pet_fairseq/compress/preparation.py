"""From what is given to a request: what is made before a plan can be.

That is a checkpoint of one language pair, its translations of text, the student's words, and binary
data. The checkpoints name their folders, so these are written by their names, not as PRODUCT.
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Optional

from pet_fairseq.checkpoints.dictionaries import dictionary_of, first_folder, trained_languages
from pet_fairseq.checkpoints.model_files import (
    CHECKPOINT,
    find_checkpoint,
    find_trained,
    why_no_checkpoint,
)
from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.checkpoints.text_files import read_languages
from pet_fairseq.checkpoints.translation_checks import is_multilingual
from pet_fairseq.compress.data import data_stages, raw_test_stages, text_stage
from pet_fairseq.compress.engine import TEACHER, check_translates, subword_files, take
from pet_fairseq.compress.given import (
    KEEP,
    TRIM,
    Given,
    data_folders,
    search_words,
    with_named_test,
)
from pet_fairseq.compress.layout import PRECISION
from pet_fairseq.compress.plan import Request, check_before_data, make_plan
from pet_fairseq.compress.raw_text import REFERENCE, TEST_SOURCE, parallel, write_corpus_text
from pet_fairseq.compress.stages import name_places
from pet_fairseq.compress.teacher import why_not_exported
from pet_fairseq.compress.teacher_text import FIRST_LINES, EngineText, Segmenter, open_teacher
from pet_fairseq.compress.vocabulary import train_vocabulary, trim_teacher
from pet_fairseq.devices import gpu_count, half_precision
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.huggingface.source import CONFIG
from pet_fairseq.multilingual.bilingual import (
    check_languages,
    check_trained,
    known_languages,
    write_bilingual,
)
from pet_fairseq.predict.corpus.shards import SUMMARY
from pet_fairseq.predict.corpus.text import TextReader
from pet_fairseq.predict.ctranslate2 import MISSING, has_ctranslate2, read_vocabularies
from pet_fairseq.predict.text import has_pieces
from pet_fairseq.results.sacrebleu_sets import named_set
from pet_fairseq.runner.arguments import run_options
from pet_fairseq.runner.call import Call
from pet_fairseq.runner.device import Device, make_device
from pet_fairseq.runner.pipeline import Pipeline
from pet_fairseq.runner.run import dry_run, run_stages
from pet_fairseq.runner.stage import PRODUCT, Stage

OPTIONS = (  # that a Request has under the same names
    *("updates", "hours", "lr", "max_tokens", "seed", "student_form"),
    *("shortlist", "remove_bpe", "tokenizer", "comet", "rouge"),
)


def prepare(args: Namespace, given: Given) -> Optional[Request]:
    """Make the teacher's checkpoint and all data; returns what is asked for of them.

    What is wrong shows itself before text is read or translated, as far as it can. With --dry-run
    None is returned as soon as something is not there.

    Args:
        args: the options of `pet-fairseq compress`, of which `given` was read.
    """
    teacher = finish(args, given, teacher_stages(given))
    if teacher is None:
        return None
    if test_set := named_set(args.test, "--test"):
        given = with_named_test(given, test_set, teacher)
    forms_tried = False
    binary = given.layout.data if given.is_raw else given.layout.test_data
    if given.raw_test and not binary.exists():  # else the plan checks it at once
        opened = open_teacher(teacher, given.data and data_folders(given, teacher)[0])
        request = make_request(args, given, teacher, [Path(opened.task.cfg.data)])
        forms_tried = given.vocabulary == KEEP
        segmenter = opened.segmenter()
        check_sides(given, segmenter, (opened.task.cfg.source_lang, opened.task.cfg.target_lang))
        files = segmenter.files if given.vocabulary in (KEEP, TRIM) else None
        check_before_data(request, forms_tried, files)
    if given.tests_on_text and finish(args, given, raw_test_stages(given, teacher)) is None:
        return None
    if given.is_mixed:
        make_plan(make_request(args, given, teacher, data_folders(given, teacher), forms_tried))
        forms_tried = True
    if finish(args, given, corpus_stages(given, teacher)) is None:
        return None
    words = finish(args, given, vocabulary_stages(given, teacher))
    if words is None:
        return None
    stages, data = data_stages(given, words)
    made = finish(args, given, (stages, data[0]))
    if made is None:
        return None
    return make_request(args, given, given.engine or words, data, forms_tried)


def check_sides(given: Given, segmenter: Segmenter, languages: tuple[str, str]) -> None:
    """Check that source and target of pairs are not exchanged, as far as names or words show it.

    Args:
        languages: source and target of the teacher.
    Raises:
        UserError: they are.
    """
    source, target = languages
    for split, pair in given.pairs.items():
        suffixes = [file.suffix for file in pair]
        named = source != target and suffixes == [f".{target}", f".{source}"]
        lines = islice(parallel(*pair), FIRST_LINES)
        if named or segmenter.are_exchanged((line.text, other.text) for line, other in lines):
            raise UserError(
                f"--{split}-pair {pair[0]} {pair[1]}: source and target are exchanged, as the "
                f"teacher translates from {source} to {target}; give the source's file first"
            )


def finish(args: Namespace, given: Given, todo: tuple[Sequence[Stage], Path]) -> Optional[Path]:
    """Run stages that have to be finished before a plan can be made; returns what they make.

    With --dry-run they are printed, and None is returned if their product is not there.
    """
    stages, product = todo
    places = name_places(given.teacher, given.out, (given.data or given.out, *given.more_data))
    pipeline = Pipeline(list(stages), given.out, places)
    options = run_options(args, pipeline)
    if not args.dry_run:
        if stages:
            run_stages(pipeline.stages, pipeline.folder, options)
        for stage in stages:
            check_links(stage.product)
        return product
    if stages:
        print(dry_run(stages, pipeline.folder))
    return product if product.exists() or not stages else None


def check_links(product: Path) -> None:
    """Raise UserError for a link to a file that is gone.

    Records survive a move of the data or the teacher; links to their files do not.
    """
    for file in sorted(product.rglob("*")):
        if file.is_symlink() and not file.exists():
            raise UserError(
                f"{product}: has links to {file.readlink().parent}, which was moved or removed; "
                f"put it back, or remove {product}, which is then made again"
            )


def make_request(
    args: Namespace,
    given: Given,
    teacher: Path,
    data: Sequence[Path],
    forms_tried: bool = False,
) -> Request:
    """What is asked for, with a checkpoint and data that are there."""
    raw = given.raw_test
    source = None if raw is None else raw / TEST_SOURCE
    return Request(
        teacher,
        data[0],
        given.out,
        args.method,
        test=given.test_name(args.test),
        reference=args.reference if raw is None else raw / REFERENCE,
        source=source if source and source.is_file() else None,  # old folders have none
        agreement=given.measures_agreement,
        size=args.size,
        device=choose_training_device(args.device, args.precision),
        more_data=tuple(data[1:]),
        forms=tuple(dict.fromkeys(args.to)),
        forms_tried=forms_tried,
        **{name: getattr(args, name) for name in OPTIONS},
    )


def choose_training_device(name: str, precision: str) -> Device:
    """The device that --device and --precision ask for, with all of its GPUs.

    Raises:
        UserError: float16 on a CPU.
    """
    if name == "cpu":
        return make_device(name, precision)
    device = make_device(name, precision, preferred=half_precision())
    return replace(device, count=max(1, gpu_count()))


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
        if file is None and find_trained(path):
            raise UserError(f"{TEACHER} {path}: {why_no_checkpoint(path)}")
        if file is None:
            raise UserError(
                f"{TEACHER} {path}: has neither a checkpoint nor {CONFIG}; give a checkpoint, a "
                "folder of pet-fairseq import-hf or bilingual, one of Hugging Face's files, or one "
                "of CTranslate2"
            )
        path = file
    cfg = load_options(str(path), TEACHER)
    if not is_multilingual(cfg.task):
        if given.languages is not None:
            check_pair(cfg.task, path, given.languages)
        return (), path
    check_trained(cfg, str(path), TEACHER)
    if given.languages is None:
        known = ", ".join(known_languages(cfg.task, str(path)))
        raise UserError(
            f"{TEACHER} {path}: a multilingual model, of {known}; give --source-lang and "
            "--target-lang"
        )
    check_languages(cfg.task, str(path), *given.languages)
    folder = given.layout.bilingual
    arguments = {"path": str(path), "source_lang": given.languages[0], "out": folder}
    arguments |= {"target_lang": given.languages[1], "data": given.data and str(given.data)}
    inputs = (path, *([given.data] if given.data else []))
    call = Call(write_bilingual, arguments)
    free = ("--path", "--data")  # may be moved
    return (Stage("bilingual", ("teacher",), call, folder, inputs, free=free),), folder / CHECKPOINT


def check_pair(task: Namespace, path: Path, languages: tuple[str, str]) -> None:
    """Raise UserError for languages that are not those of a bilingual teacher."""
    trained = tuple(trained_languages(task, first_folder(task.data)).values())
    if trained != languages:
        raise UserError(
            f"--source-lang {languages[0]} --target-lang {languages[1]}: {TEACHER} {path} "
            f"translates from {trained[0]} to {trained[1]}; leave the options out"
        )


def import_stage(given: Given) -> tuple[tuple[Stage, ...], Path]:
    folder = given.layout.imported
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
    if given.data is not None:
        raise UserError(
            f"--data: is for a {TEACHER} in fairseq; {given.teacher} is in CTranslate2: give text, "
            "with --train-pair and --text"
        )
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


# --- its translations, and the student's words ----------------------------------------------------


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
        return translation_stages(given, teacher, given.engine, in_pieces), given.layout.corpus_text
    opened = open_teacher(teacher, data_folders(given, teacher)[0] if given.is_mixed else None)
    # a file that is missing or not the teacher's is told now, not after the text is translated
    pairs = ((line, "") for line in first_lines(given.text))
    opened.segmenter().check(pairs, ("--text", "--text"))
    assert opened.cfg is not None, "a model in CTranslate2 was dealt with"
    words = opened.task.cfg.data
    _, not_held = why_not_exported(opened.cfg.model, str(teacher))
    engine = teacher if not_held is not None else given.layout.corpus_teacher
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
    shards = given.layout.shards
    command = (
        *("pet-fairseq", "translate-corpus", str(engine), *options),
        *("--text", *map(str, given.text), "--out", str(shards), "--device", given.device),
        *(*search_words(given.search), "--jobs", str(given.jobs)),
    )
    summary, inputs = shards / SUMMARY, (engine, *given.text)
    free = ("--device", "--jobs")  # another machine may go on
    made = Stage("translate-text", ("corpus",), command, summary, inputs, free=free)
    if given.is_mixed:
        return (made,)
    decode = Call(write_corpus_text, {"teacher": teacher, "shards": shards, "folder": PRODUCT})
    return made, Stage("corpus-text", ("corpus",), decode, given.layout.corpus_text, (summary,))


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
    pieces, folder = given.layout.pieces, given.layout.trimmed
    most = None if given.vocabulary == TRIM else int(given.vocabulary)
    arguments = {"teacher": teacher, "text": pieces, "most": most, "folder": folder}
    call = Call(trim_teacher, arguments)
    trimming = Stage("vocabulary", ("teacher",), call, folder, (teacher, pieces))
    stages = (text_stage(given, open_teacher(teacher), pieces), trimming)
    return stages, folder if given.engine else folder / CHECKPOINT


def own_vocabulary_stage(given: Given, engine: Path) -> tuple[tuple[Stage, ...], Path]:
    """What makes a vocabulary of the training text, and its folder."""
    sets, folder = given.sets(), given.layout.vocabulary
    arguments = {"engine": engine, "sets": sets, "number": int(given.vocabulary), "folder": folder}
    inputs = tuple(file for pair in sets["train"] for file in (pair.source, pair.target))
    call = Call(train_vocabulary, arguments)
    return (Stage("vocabulary", ("teacher",), call, folder, (engine, *inputs)),), folder
