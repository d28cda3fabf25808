"""The translation recipes: their options, and from these to stages."""

import argparse
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Optional

from pet_fairseq.demo.commands import PIECES
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.recipes.arguments import add_seeds_option, read_options
from pet_fairseq.recipes.catalogue import Recipe
from pet_fairseq.recipes.translation import rows
from pet_fairseq.recipes.translation.data_sets import DataSet, read_data_sets
from pet_fairseq.recipes.translation.setup import Setup
from pet_fairseq.recipes.translation.sizes import Settings
from pet_fairseq.recipes.translation.stages import build_stages, report_stage
from pet_fairseq.runner.check_options import check_training_options
from pet_fairseq.runner.device import make_device
from pet_fairseq.runner.fairseq_options import Options, updates
from pet_fairseq.runner.pipeline import Pipeline, Place
from pet_fairseq.runner.stage import PRODUCT, Kind, Stage
from pet_fairseq.runs import row_name


def make_recipe(data_set: DataSet) -> Recipe:
    """The recipe of a data set."""
    return Recipe(
        data_set.about, partial(add_options, data_set=data_set), partial(build, data_set=data_set)
    )


def make_demo(sizes: Mapping[str, Settings]) -> Recipe:
    """The recipe of the demo's data set, with these sizes."""
    (data_set,) = read_data_sets(Path(__file__).with_name("demo_data_set.yaml"), sizes).values()
    return make_recipe(data_set)


def add_options(parser: argparse.ArgumentParser, data_set: DataSet) -> None:
    """Declare the options of the translation recipes, beside those of all recipes."""
    _add_model_options(parser, data_set)
    _add_translation_options(parser, data_set)
    _add_data_options(parser, data_set)
    _add_teacher_options(parser)
    _add_report_options(parser, data_set)


def _add_model_options(parser: argparse.ArgumentParser, data_set: DataSet) -> None:
    """Declare which models are trained, and for how long."""
    sizes = ", ".join(f"{name} {settings.about}" for name, settings in data_set.sizes.items())
    parser.add_argument(
        "--size",
        choices=tuple(data_set.sizes),
        default=data_set.size,
        help=f"the size of the models and of their training: {sizes} (default: %(default)s)",
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        default=list(data_set.rows),
        metavar="ROW",
        help=f"the models to train and compare: {', '.join(rows.BY_NAME)}; groups of them: "
        f"{', '.join(rows.GROUPS)}; or finished, for all that are trained already (default: "
        f"{' '.join(data_set.rows)})",
    )
    add_seeds_option(parser, "the students")
    parser.add_argument(
        "--updates",
        type=int,
        metavar="N",
        help="how many updates train a student (default: as the size says); a learning rate that "
        "falls to 0 reaches it after as many",
    )
    parser.add_argument(
        "--student-lr",
        type=float,
        metavar="RATE",
        help="the learning rate of the students (default: as the size says)",
    )
    parser.add_argument(
        "--select",
        choices=("loss", "bleu"),
        default="loss",
        help="what the best checkpoint of a training has the best of: its loss on the validation "
        "set, or the BLEU of its translations there, with a beam of 5 (default: %(default)s)",
    )


def _add_translation_options(parser: argparse.ArgumentParser, data_set: DataSet) -> None:
    """Declare how the test set is translated."""
    parser.add_argument(
        "--beams",
        "--beam",
        nargs="+",
        type=int,
        default=list(data_set.beams),
        metavar="N",
        help=f"the beam sizes to translate with (default: {' '.join(map(str, data_set.beams))})",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=data_set.repeats,
        help="how often each translation is timed (default: %(default)s)",
    )


def _add_data_options(parser: argparse.ArgumentParser, data_set: DataSet) -> None:
    """Declare the languages and the division of the data into words."""
    parser.add_argument(
        "--source-lang",
        "-s",
        default=data_set.source_lang or None,
        metavar="LANG",
        help="the source language (default: %(default)s)",
    )
    parser.add_argument(
        "--target-lang",
        "-t",
        default=data_set.target_lang or None,
        metavar="LANG",
        help="the target language (default: %(default)s)",
    )
    parser.add_argument(
        "--joined-dictionary",
        action="store_true",
        help="one dictionary for both languages, and one embedding matrix in each model, the "
        "teacher's too (--share-all-embeddings); its data and runs are in runs/NAME/joined"
        + ("" if data_set.builtin else "; prepare.sh makes the data with JOINED_DICTIONARY=1"),
    )
    if data_set.builtin:
        parser.add_argument(
            "--pieces",
            type=int,
            metavar="N",
            help=f"the size of the subword vocabulary ({PIECES} if not given); with "
            "this option data and runs are in a folder piecesN",
        )


def _add_teacher_options(parser: argparse.ArgumentParser) -> None:
    """Declare what the students learn from, and more options of the trainings."""
    parser.add_argument(
        "--student-options",
        default="",
        metavar="OPTIONS",
        help="more of fairseq-train's options for the students, quoted as one word, such as "
        "'--encoder-embed-dim 64 --decoder-embed-dim 64'; they override those of size and row",
    )
    parser.add_argument(
        "--teacher",
        type=Path,
        metavar="CHECKPOINT",
        help="a teacher that you have trained on this data, to use instead of training one",
    )
    parser.add_argument(
        "--teachers",
        type=int,
        default=1,
        metavar="N",
        help="let the students learn from an ensemble of N teachers, with the seeds 1 to N, and "
        "compare them with it, too; the runs are in a folder teachersN (default: %(default)s)",
    )
    parser.add_argument(
        "--teacher-options",
        default="",
        metavar="OPTIONS",
        help="more of fairseq-train's options for the teacher's training, quoted as one word, such "
        "as '--dropout 0.4 --label-smoothing 0.2'; they override those of the size",
    )


def _add_report_options(parser: argparse.ArgumentParser, data_set: DataSet) -> None:
    """Declare what the report compares."""
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="the raw target text of the test set "
        f"(default: {data_set.reference} in the data folder)",
    )
    parser.add_argument(
        "--baseline",
        metavar="ROW",
        help="the row that the report compares scores to (default: the teacher)",
    )
    parser.add_argument(
        "--significance", action="store_true", help="add paired bootstrap tests to the report"
    )
    parser.add_argument(
        "--tokenised-bleu",
        action="store_true",
        help="add the BLEU of tokenised text to the report, as older papers give it",
    )


def build(args: argparse.Namespace, place: Place, data_set: DataSet) -> Pipeline:
    """The stages that the options ask for.

    Raises:
        UserError: a row that does not exist, a baseline that will not be there, languages that are
            not given, a number below 1, tests of BLEU or a selection by it where the score is
            another, data that do not have the joined dictionary which the options ask for, a row
            that cannot have one embedding, or an option that fairseq-train does not know.
    """
    if args.significance and data_set.score != "bleu":
        raise UserError(f"--significance: tests BLEU only, but {place.name} has another score")
    if not args.source_lang or not args.target_lang:
        raise UserError("--source-lang, --target-lang: give the languages of your data")
    if args.tokenised_bleu and data_set.score != "bleu":
        raise UserError(f"--tokenised-bleu: {place.name} has another score; leave it out")
    if args.select == "bleu" and data_set.score != "bleu":
        raise UserError(f"--select bleu: {place.name} is scored by {data_set.score}; leave it out")
    check_positive(teachers=args.teachers, repeats=args.repeats)
    for beam in args.beams:
        check_positive(beams=beam)
    pieces = args.pieces if data_set.builtin else None
    if pieces is not None:
        check_positive(pieces=pieces)
    data, runs = choose_folders(args, place, data_set, pieces)
    settings = choose_settings(args, data_set)
    if args.joined_dictionary:
        check_joined(data / "bin", (args.source_lang, args.target_lang))
    setup = Setup(
        data,
        runs,
        args.source_lang,
        args.target_lang,
        reference=args.reference or data / data_set.reference.format(lang=args.target_lang),
        settings=settings,
        device=make_device(args.device, args.precision, settings.precision),
        text=data_set.text,
        own_teacher=args.teacher,
        ensemble=args.teachers,
        student_options=read_options("--student-options", args.student_options),
        select=args.select,
    )
    ensemble = ["ensemble"] if args.teachers > 1 else []
    chosen = rows.choose_rows([*args.rows, *ensemble], runs)
    compared = _rows_compared(chosen, runs)
    if args.baseline and args.baseline not in compared:
        raise UserError(
            f"--baseline {args.baseline}: neither one of --rows nor a finished run in {runs}; give "
            f"one of {', '.join(compared)}"
        )
    stages = build_stages(setup, chosen, args.seeds, args.beams, args.repeats)
    if args.joined_dictionary:
        check_widths(stages)
    if args.teacher_options or args.student_options:
        check_training_options("--teacher-options, --student-options", stages)
    options: Options = ("--score", data_set.score) if data_set.score != "bleu" else ()
    if compared and "teacher" not in compared:
        options += ("--teacher", compared[0])  # what is 100% in the report
    options += ("--baseline", args.baseline) if args.baseline else ()
    options += ("--significance",) if args.significance else ()
    options += ("--tokenised-bleu",) if args.tokenised_bleu else ()
    stages.append(report_stage(setup, chosen, args.seeds, options))
    if data_set.builtin:
        joined = ("--joined-dictionary",) if args.joined_dictionary else ()
        stages = [*demo_corpus(setup, pieces, joined), *stages]
    return Pipeline(stages, runs, {"DATA": data, "RUNS": runs})


def _rows_compared(chosen: list[str], runs: Path) -> list[str]:
    """The rows that the report will find: those that are trained, and those that are there."""
    from pet_fairseq.results.report.measure import is_run

    there = [row_name(folder.name) for folder in sorted(runs.glob("*")) if is_run(folder)]
    return list(dict.fromkeys([*chosen, *there]))


def check_widths(stages: list[Stage]) -> None:
    """Refuse rows whose encoder and decoder cannot have one embedding, before any is trained.

    Raises:
        UserError: names them.
    """
    rows_of_two_widths = dict.fromkeys(
        stage.groups[0]
        for stage in stages
        if stage.kind is Kind.TRAINING
        and stage.option("--encoder-embed-dim") != stage.option("--decoder-embed-dim")
    )
    if rows_of_two_widths:
        raise UserError(
            f"--joined-dictionary: {', '.join(rows_of_two_widths)}: encoder and decoder of "
            "different widths cannot share an embedding; leave them out of --rows, or give widths "
            "such as --student-options '--encoder-embed-dim 160 --decoder-embed-dim 160'"
        )


def choose_folders(
    args: argparse.Namespace, place: Place, data_set: DataSet, pieces: Optional[int]
) -> tuple[Path, Path]:
    """The folders of the data and of the runs: the user's, or those that go with the options."""
    base = place.base / place.name / ("joined" if args.joined_dictionary else "")
    if pieces is not None:
        base = base / f"pieces{pieces}"
    if data_set.builtin:
        runs = base
        data = place.data or (place.runs or base) / "data"
    else:
        runs = base / args.size
        data = place.data or base / "data"
    if args.teachers > 1:
        runs = runs / f"teachers{args.teachers}"
    return data, place.runs or runs


def choose_settings(args: argparse.Namespace, data_set: DataSet) -> Settings:
    """The settings of the size, with what the options change.

    Raises:
        UserError: an option whose value trains nothing or cannot be read.
    """
    settings = data_set.sizes[args.size]
    settings = with_student_training(settings, args.updates, args.student_lr)
    teacher_options = read_options("--teacher-options", args.teacher_options)
    settings = replace(settings, teacher=(*settings.teacher, *teacher_options))
    if args.joined_dictionary:
        settings = replace(settings, more=(*settings.more, "--share-all-embeddings"))
    return settings


def with_student_training(
    settings: Settings, max_update: Optional[int], learning_rate: Optional[float]
) -> Settings:
    """The settings with another number of updates for the students, or another learning rate.

    Raises:
        UserError: fewer than 1 update, or a learning rate that is not positive.
    """
    if max_update is not None:
        check_positive(updates=max_update)
        falls_to_0 = "polynomial_decay" in settings.common
        length = updates(max_update) if falls_to_0 else ("--max-update", str(max_update))
        settings = replace(settings, updates=length)
    if learning_rate is not None:
        if not 0 < learning_rate < math.inf:
            raise UserError(f"--student-lr {learning_rate:g}: give a number above 0")
        student = (*settings.student, "--lr", f"{learning_rate:g}")
        settings = replace(settings, student=student)
    return settings


def check_joined(data: Path, languages: tuple[str, str]) -> None:
    """Check that prepared data, if there are any, have one dictionary for both languages.

    Raises:
        UserError: they have two different ones.
    """
    dictionaries = [data / f"dict.{language}.txt" for language in languages]
    if not all(path.is_file() for path in dictionaries):
        return
    first, second = (path.read_bytes() for path in dictionaries)
    if first != second:
        raise UserError(
            f"--joined-dictionary: {data} has a dictionary for each language; prepare other data "
            "by prepare.sh with JOINED_DICTIONARY=1 and OUT=FOLDER, and give --data FOLDER"
        )


def demo_corpus(setup: Setup, pieces: Optional[int], options: Options = ()) -> list[Stage]:
    """The stages that make the demo's data: short sentences in pieces, in fairseq's binary format.

    Args:
        pieces: how many different ones, None for the default.
        options: more options for fairseq-preprocess.
    """
    text = setup.data / "text"
    splits = [
        word
        for split in ("train", "valid", "test")
        for word in (f"--{split}pref", str(text / "pieces" / split))
    ]
    binarise = ("fairseq-preprocess", *setup.languages, *splits)
    number = () if pieces is None else ("--pieces", str(pieces))
    return [
        Stage("demo-data", ("data",), ("pet-fairseq", "demo-data", PRODUCT, *number), text),
        Stage(
            "preprocess",
            ("data",),
            command=(*binarise, "--destdir", PRODUCT, "--workers", "2", *options),
            product=setup.bin,
            inputs=(text,),
        ),
    ]
