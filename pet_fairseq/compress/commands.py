"""The command `pet-fairseq compress`, and the commands of its stages: parse, call, print."""

import logging
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from pet_fairseq.cli_command import Command, Group, add_comet_option, add_device_option
from pet_fairseq.compress.training import (
    DEFAULT_FORM,
    DEFAULT_METHOD,
    FEWEST_UPDATES,
    METHODS,
    MOST_EPOCHS,
    SMALL_TEXT,
    STUDENT_FORMS,
    updates_for,
)
from pet_fairseq.devices import check_device, choose_device, gpu_count, half_precision
from pet_fairseq.errors import UserError
from pet_fairseq.export.commands import FORMS
from pet_fairseq.predict.shared_options import Search, add_beam_options, add_sampling_options
from pet_fairseq.predict.speed.commands import add_text_options
from pet_fairseq.runner.arguments import add_precision_option, add_run_options, run_options
from pet_fairseq.runner.device import Device, make_device
from pet_fairseq.runner.pipeline import Pipeline
from pet_fairseq.runner.run import dry_run, run_stages
from pet_fairseq.runner.stage import Stage

if TYPE_CHECKING:  # not loaded to print help
    from pet_fairseq.compress.plan import Request
    from pet_fairseq.compress.preparation import Given


PAIRS = {
    "train": "in place of --data: raw text of the train set, a sentence a line",
    "valid": "raw text of the valid set (default: held out of the training text)",
    "test": "raw text of the test set, beside --data, too (default: as --test says, or held out of "
    "the training text)",
}


def _default_rates() -> str:
    """The default method's rate, then the rates of the methods that have another one."""
    usual = METHODS[DEFAULT_METHOD].rate
    others = {name: method.rate for name, method in METHODS.items() if method.rate != usual}
    return ", ".join([f"{usual:g}", *(f"{name}: {rate:g}" for name, rate in others.items())])


def _compress_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "teacher",
        type=Path,
        metavar="TEACHER",
        help="a checkpoint of a translation model, a folder of pet-fairseq import-hf or bilingual, "
        "one of Hugging Face's files, or one of CTranslate2",
    )
    _add_data_options(parser.add_argument_group("what to train on"))
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the folder for everything made",
    )
    _add_engine_options(parser.add_argument_group("of a teacher in CTranslate2"))
    text = parser.add_argument_group(
        "how the teacher translates --text", "in --jobs processes, on GPUs one for each at least"
    )
    add_beam_options(text)
    add_sampling_options(text)
    _add_size_options(parser.add_argument_group("how small"))
    _add_training_options(parser.add_argument_group("how to train"))
    _add_test_options(parser.add_argument_group("what to compare on"))
    _add_form_options(parser.add_argument_group("where it goes"))
    run = parser.add_argument_group("how to run it")
    add_run_options(run)
    add_precision_option(run, "on a GPU bf16, or fp16 where it lacks that")


def _add_data_options(group) -> None:
    group.add_argument(
        "--data",
        type=_data_folders,
        metavar="BIN[:BIN2...]",
        help="the folder from fairseq-preprocess that it was trained on; or several, as for "
        "fairseq-train: each epoch trains on the next one, and the other sets are in the first",
    )
    for split, meaning in PAIRS.items():
        group.add_argument(
            f"--{split}-pair",
            type=Path,
            nargs=2,
            metavar=("SOURCE", "TARGET"),
            help=meaning,
        )
    group.add_argument(
        "--text",
        type=Path,
        nargs="+",
        default=(),
        metavar="FILE",
        help="source sentences, one a line, plain, .gz or .zst, that the teacher translates; alone "
        "or beside --train-pair or --data",
    )
    group.add_argument(
        "--repeat-pairs",
        type=int,
        default=1,
        metavar="N",
        help="how often the pairs of --train-pair or --data are trained on for each time that the "
        "translations of --text are (default: %(default)s)",
    )
    group.add_argument(
        "--vocabulary",
        default="keep",
        metavar="keep|trim|N",
        help="of the teacher's pieces, all; those that the training text has; or N of them for "
        "each side, the single characters and the most frequent ones; with a teacher in "
        "CTranslate2 N new ones, made of the text (default: %(default)s)",
    )
    for side in ("source", "target"):
        group.add_argument(
            f"--{side}-lang",
            metavar="LANG",
            help="of a teacher of several languages: the one to translate "
            + ("from" if side == "source" else "to"),
        )


def _add_engine_options(group) -> None:
    group.add_argument(
        "--sentencepiece",
        type=Path,
        nargs="+",
        default=(),
        metavar="MODEL",
        help="the SentencePiece model of its text, or those of source and target "
        "(default: what lies beside it)",
    )
    group.add_argument(
        "--bpe",
        type=Path,
        metavar="CODES",
        help="in place of that, codes of subword-nmt, before which Moses' tokenizer stands",
    )


def _data_folders(word: str) -> list[Path]:
    """The folders of `a:b`."""
    folders = word.split(os.pathsep)
    if not all(folders):
        raise ArgumentTypeError(
            f"{word}: a folder beside '{os.pathsep}' is missing; give it, or leave the "
            f"'{os.pathsep}' out"
        )
    return [Path(folder) for folder in folders]


def _add_size_options(group) -> None:
    group.add_argument(
        "--rate",
        type=float,
        metavar="PERCENT",
        help="the student's layer parameters in percent of the teacher's (default: "
        f"{_default_rates()})",
    )
    group.add_argument(
        "--megabytes",
        type=float,
        metavar="MB",
        help="the size of the model exported to CTranslate2 in int8, embeddings included",
    )
    group.add_argument(
        "--shortlist",
        type=int,
        metavar="N",
        help="for CTranslate2: for each source piece the N target pieces that go with it most are "
        "translated to, and frequent ones (20 is a good start; worth it from 8,000 pieces on)",
    )


def _add_form_options(group) -> None:
    group.add_argument(
        "--to",
        nargs="+",
        default=(),
        choices=FORMS,
        metavar="FORM",
        help="the student also in these forms, each a folder as pet-fairseq export --to writes it, "
        "in int8 where it has a choice, and measured by pet-fairseq translate; one that cannot "
        f"hold it is refused before the training: {', '.join(FORMS)}",
    )


def _add_training_options(group) -> None:
    group.add_argument(
        "--method",
        choices=METHODS,
        default=DEFAULT_METHOD,
        help="distil: word-level distillation into a plain Transformer; deep-shallow: into one "
        "with many encoder layers and one decoder layer; pet: into one whose layers share "
        "parameters, after the simplified task; pet-patient: as pet, and the student also imitates "
        "the teacher's layers (default: %(default)s)",
    )
    group.add_argument(
        "--student-form",
        choices=STUDENT_FORMS,
        default=DEFAULT_FORM,
        help="pre-norm: fairseq's Transformer with norms before its layers; marian: that of Marian "
        "and Bergamot, the engine of Firefox, for which it is exported; needs SentencePiece and "
        "one dictionary for both languages (default: %(default)s)",
    )
    group.add_argument(
        "--updates",
        type=int,
        metavar="N",
        help=f"how many updates train the student (default: {MOST_EPOCHS} epochs of a text of up "
        f"to {SMALL_TEXT:,} tokens, half as many of one eight times as long, and so on; at least "
        f"{FEWEST_UPDATES:,} updates); fewer if the validation loss stops falling",
    )
    group.add_argument(
        "--hours", type=float, metavar="H", help="train for as many updates as fit into H hours"
    )
    group.add_argument(
        "--seed", type=int, default=1, help="the random seed of the training (default: %(default)s)"
    )


def _add_test_options(group) -> None:
    group.add_argument(
        "--test",
        default="test",
        metavar="NAME",
        help="a subset of the data, or else another folder from fairseq-preprocess with a subset "
        "`test`; or a test set that sacreBLEU knows, such as sacrebleu:wmt19, in the teacher's "
        "languages or in those of sacrebleu:wmt19:de-en (default: %(default)s)",
    )
    group.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="raw target text (default: the target side of the data, detokenised)",
    )
    add_comet_option(group)
    group.add_argument(
        "--rouge", action="store_true", help="also score by ROUGE, for models that summarise"
    )
    add_text_options(group)


def _updates_options(parser: ArgumentParser) -> None:
    parser.add_argument("log", type=Path, metavar="LOG", help="what fairseq-train printed")
    parser.add_argument(
        "--hours", type=float, required=True, help="the hours that all trainings together may take"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=1,
        help="the share of that time for this training (default: %(default)s)",
    )
    parser.add_argument(
        "--at-least",
        type=int,
        default=1,
        metavar="N",
        help="the smallest number to print (default: %(default)s)",
    )


def _report_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "out", type=Path, metavar="FOLDER", help="the --out of pet-fairseq compress"
    )
    parser.add_argument(
        "--teacher", type=Path, required=True, metavar="CHECKPOINT", help="the model to compress"
    )
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="raw target text (default: the target side of the data)",
    )
    parser.add_argument(
        "--without-ctranslate2",
        metavar="REASON",
        help="why the models were compared in fairseq, not in CTranslate2",
    )
    add_device_option(parser)


def _compress(args: Namespace) -> None:
    logging.getLogger("fairseq").setLevel(logging.WARNING)  # it logs every file that it reads
    from pet_fairseq.compress.plan import make_plan
    from pet_fairseq.compress.stages import build_pipeline

    args.device = choose_device(args.device)
    out = args.out if args.out.parts else Path.cwd()  # in records, `.` could not be told from OUT
    request = _prepare_all(args, _given(args, out))
    if request is None:
        print("# the other stages depend on what these make")
        return
    plan = make_plan(request)
    pipeline = build_pipeline(plan)
    options = run_options(args, pipeline)
    if args.dry_run:
        commands = dry_run(pipeline.stages, pipeline.folder)
        print("\n".join([*(f"# {line}" for line in pipeline.about), commands]))
        return
    check_device(args.device)
    print("\n".join(pipeline.about), flush=True)
    run_stages(pipeline.stages, pipeline.folder, options)
    report = plan.layout.report
    print(f"\n{report.read_text(encoding='utf-8').splitlines()[0]}\nread on in {report}")


def _request(args: Namespace, given: "Given", teacher: Path, data: Sequence[Path]) -> "Request":
    """What is asked for, with a checkpoint and data that are there."""
    from pet_fairseq.compress.plan import Request
    from pet_fairseq.compress.raw_text import REFERENCE, TEST_SOURCE
    from pet_fairseq.compress.student import Size

    names = ("updates", "hours", "seed", "shortlist", "remove_bpe", "tokenizer", "comet", "rouge")
    raw = given.raw_test
    source = None if raw is None else raw / TEST_SOURCE
    return Request(
        *(teacher, data[0], given.out, args.method),
        test=given.test_name(args.test),
        reference=args.reference if raw is None else raw / REFERENCE,
        source=source if source and source.is_file() else None,  # old folders have none
        agreement=given.measures_agreement,
        size=Size(args.rate, args.megabytes),
        device=choose_precision(args.device, args.precision),
        more_data=tuple(data[1:]),
        student_form=args.student_form,
        forms=tuple(dict.fromkeys(args.to)),
        **{name: getattr(args, name) for name in names},
    )


def _given(args: Namespace, out: Path) -> "Given":
    """What the user has to train on.

    Raises:
        UserError: only one of --source-lang and --target-lang.
    """
    from pet_fairseq.compress.engine import named_files
    from pet_fairseq.compress.preparation import Given, check_given
    from pet_fairseq.results.sacrebleu_sets import named_set

    languages = (args.source_lang, args.target_lang)
    if (languages[0] is None) != (languages[1] is None):
        raise UserError("--source-lang and --target-lang: give both, or none")
    pairs = {split: getattr(args, f"{split}_pair") for split in PAIRS}
    if args.data is None and args.reference:
        raise UserError("--reference: is for --data; the target side of --test-pair stands for it")
    test_set = named_set(args.test, "--test")
    if test_set and (args.reference or args.test_pair):
        option = "--reference" if args.reference else "--test-pair"
        raise UserError(f"--test {args.test} and {option}: both name references; give one of them")
    data, *more_data = args.data or [None]
    given = Given(
        *(args.teacher, out, data),
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
    if given.engine is not None and args.test != "test" and not test_set:
        raise UserError(f"--test {args.test}: is for --data; give the test set with --test-pair")
    if "test" in given.pairs and (args.test != "test" or args.reference):
        option = "--reference" if args.reference else f"--test {args.test}"
        raise UserError(f"--test-pair and {option}: both name the test set; give one of them")
    check_given(given)
    return given


def _prepare_all(args: Namespace, given: "Given") -> Optional["Request"]:
    """What is asked for, once the teacher's checkpoint and all data are made; None as `_prepare`.

    What is wrong shows itself before text is translated, as far as it can.
    """
    from pet_fairseq.compress.plan import make_plan
    from pet_fairseq.compress.preparation import (
        corpus_stages,
        data_folders,
        data_stages,
        raw_test_stages,
        teacher_stages,
        vocabulary_stages,
        with_named_test,
    )
    from pet_fairseq.results.sacrebleu_sets import named_set

    teacher = _prepare(args, given, teacher_stages(given))
    if teacher is None:
        return None
    if test_set := named_set(args.test, "--test"):
        given = with_named_test(given, test_set, teacher)
    if given.tests_on_text and _prepare(args, given, raw_test_stages(given, teacher)) is None:
        return None
    if given.is_mixed:
        make_plan(_request(args, given, teacher, data_folders(given, teacher)))
    if _prepare(args, given, corpus_stages(given, teacher)) is None:
        return None
    words = _prepare(args, given, vocabulary_stages(given, teacher))
    if words is None:
        return None
    stages, data = data_stages(given, words)
    made = _prepare(args, given, (stages, data[0]))
    return None if made is None else _request(args, given, given.engine or words, data)


def _prepare(args: Namespace, given: "Given", todo: tuple[Sequence[Stage], Path]) -> Optional[Path]:
    """Run stages that have to be finished before a plan can be made; returns what they make.

    With --dry-run they are printed, and None is returned if their product is not there.
    """
    from pet_fairseq.compress.stages import name_places

    stages, product = todo
    places = name_places(given.teacher, given.out, (given.data or given.out, *given.more_data))
    pipeline = Pipeline(list(stages), given.out, places)
    options = run_options(args, pipeline)
    if not args.dry_run:
        if stages:
            run_stages(pipeline.stages, pipeline.folder, options)
        return product
    if stages:
        print(dry_run(stages, pipeline.folder))
    return product if product.exists() or not stages else None


def choose_precision(name: str, precision: str) -> Device:
    """The device that --device and --precision ask for, with all of its GPUs.

    Raises:
        UserError: float16 on a CPU.
    """
    if name == "cpu":
        return make_device(name, precision)
    device = make_device(name, precision, preferred=half_precision())
    return replace(device, count=max(1, gpu_count()))


def _updates(args: Namespace) -> None:
    print(updates_for(args.log, args.hours, args.share, args.at_least))


def _report(args: Namespace) -> None:
    from pet_fairseq.compress.report import write_report

    why_not = args.without_ctranslate2
    device = choose_device(args.device)
    print(write_report(args.out, args.teacher, args.reference, why_not, device))


COMMANDS = (
    Command(
        name="compress",
        group=Group.MAIN,
        help="make a small model from a trained one: train, export and compare it",
        add_arguments=_compress_options,
        run=_compress,
    ),
    Command(
        name="compress-report",
        group=None,
        help="write the report in a folder that compress made",
        add_arguments=_report_options,
        run=_report,
    ),
    Command(
        name="updates-for",
        group=None,
        help="print how many updates fit into some hours, by the log of a short training",
        add_arguments=_updates_options,
        run=_updates,
        needs_models=False,
    ),
)
