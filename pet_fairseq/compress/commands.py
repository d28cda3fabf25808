"""The command `pet-fairseq compress`, and the commands of its stages: parse, call, print."""

import logging
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from pet_fairseq.cli_command import Command, Group
from pet_fairseq.compress.options import PAIRS, compress_options, report_options, updates_options
from pet_fairseq.compress.training import updates_for
from pet_fairseq.devices import check_device, choose_device, gpu_count, half_precision
from pet_fairseq.errors import UserError
from pet_fairseq.predict.shared_options import Search
from pet_fairseq.runner.arguments import run_options
from pet_fairseq.runner.device import Device, make_device
from pet_fairseq.runner.pipeline import Pipeline
from pet_fairseq.runner.run import dry_run, run_stages
from pet_fairseq.runner.stage import Stage

if TYPE_CHECKING:  # not loaded to print help
    from pet_fairseq.compress.given import Given
    from pet_fairseq.compress.plan import Request


def _compress(args: Namespace) -> None:
    logging.getLogger("fairseq").setLevel(logging.WARNING)  # it logs every file that it reads
    from pet_fairseq.compress.plan import check_options, make_plan
    from pet_fairseq.compress.stages import build_pipeline

    args.device = choose_device(args.device)
    if not args.dry_run:
        check_device(args.device)
    out = args.out if args.out.parts else Path.cwd()  # in records, `.` could not be told from OUT
    check_options(args)
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
    print("\n".join(pipeline.about), flush=True)
    run_stages(pipeline.stages, pipeline.folder, options)
    report = plan.layout.report
    print(f"\n{report.read_text(encoding='utf-8').splitlines()[0]}\nread on in {report}")


def _request(args: Namespace, given: "Given", teacher: Path, data: Sequence[Path]) -> "Request":
    """What is asked for, with a checkpoint and data that are there."""
    from pet_fairseq.compress.plan import Request
    from pet_fairseq.compress.raw_text import REFERENCE, TEST_SOURCE
    from pet_fairseq.compress.student import Size

    names = (
        "updates",
        "hours",
        "max_tokens",
        "seed",
        "shortlist",
        "remove_bpe",
        "tokenizer",
        "comet",
        "rouge",
    )
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
    from pet_fairseq.compress.given import Given, check_given
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
    if given.is_raw and args.test != "test" and not test_set:
        raise UserError(f"--test {args.test}: is for --data; give the test set with --test-pair")
    if "test" in given.pairs and (args.test != "test" or args.reference):
        option = "--reference" if args.reference else f"--test {args.test}"
        raise UserError(f"--test-pair and {option}: both name the test set; give one of them")
    check_given(given)
    return given


def _prepare_all(args: Namespace, given: "Given") -> Optional["Request"]:
    """What is asked for, once the teacher's checkpoint and all data are made; None as `_prepare`.

    What is wrong shows itself before text is read or translated, as far as it can.
    """
    from pet_fairseq.compress.data import data_stages, raw_test_stages
    from pet_fairseq.compress.given import KEEP, data_folders, with_named_test
    from pet_fairseq.compress.plan import check_before_data, make_plan
    from pet_fairseq.compress.preparation import corpus_stages, teacher_stages, vocabulary_stages
    from pet_fairseq.compress.teacher_text import open_teacher
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
    elif given.is_raw and not given.layout.data.exists():  # else the plan checks it at once
        opened = open_teacher(teacher)
        request = _request(args, given, teacher, [Path(opened.task.cfg.data)])
        check_before_data(request, given.vocabulary == KEEP, opened.segmenter().files)
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
    from pet_fairseq.compress.preparation import check_links
    from pet_fairseq.compress.stages import name_places

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
        add_arguments=compress_options,
        run=_compress,
    ),
    Command(
        name="compress-report",
        group=None,
        help="write the report in a folder that compress made",
        add_arguments=report_options,
        run=_report,
    ),
    Command(
        name="updates-for",
        group=None,
        help="print how many updates fit into some hours, by the log of a short training",
        add_arguments=updates_options,
        run=_updates,
        needs_models=False,
    ),
)
