"""The recipes of Variator: their options, and from these to stages."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.recipes.variator.data_sets import (
    CLASSES,
    GLUE_TEXT,
    OWN_TASK,
    SQUAD,
    count_classes,
    glue_classes,
    glue_from_bert,
    multi30k,
)
from pet_fairseq.recipes.variator.rows import BY_NAME, DEFAULT
from pet_fairseq.recipes.variator.scoring import by_classes, by_generation
from pet_fairseq.recipes.variator.setup import Settings, Setup
from pet_fairseq.recipes.variator.stages import build_stages
from pet_fairseq.runner.device import make_device
from pet_fairseq.runner.options import Options, words
from pet_fairseq.runner.pipeline import Pipeline, Place
from pet_fairseq.runner.stage import Stage
from pet_fairseq.runner.training import BEST


def add_options(parser: argparse.ArgumentParser, default_rows: tuple[str, ...] = DEFAULT) -> None:
    """Declare the options of all recipes of Variator."""
    parser.add_argument(
        "--rows",
        nargs="+",
        default=list(default_rows),
        metavar="ROW",
        help=f"the rows of the table: {', '.join(BY_NAME)} (default: {' '.join(default_rows)})",
    )
    parser.add_argument(
        "--backbone",
        type=Path,
        metavar="CHECKPOINT",
        help="the model to compress, in place of training one; raw text then trains only its "
        "plugins and their competitors",
    )
    parser.add_argument(
        "--length",
        type=int,
        metavar="N",
        help="the length of a sentence, in tokens, that the table's costs are for",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="the seed of every training; the runs are in a folder of their own, named after it "
        "(default: fairseq's seed)",
    )


def add_pretrained_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pretrained",
        type=Path,
        metavar="CHECKPOINT",
        help="the model before fine-tuning, in place of pre-training one (default with --backbone: "
        "that one)",
    )


def add_glue_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--task",
        required=True,
        choices=(*CLASSES, OWN_TASK),
        help=f"the task of GLUE, or {OWN_TASK} for data of your own",
    )
    parser.add_argument(
        "--form",
        choices=("classes", "text"),
        default="classes",
        help="classes for an encoder with a classification head, text for an encoder-decoder that "
        "answers a question (default: %(default)s)",
    )
    parser.add_argument(
        "--bert",
        type=Path,
        metavar="FOLDER",
        help="start from the model in this folder, which pet-fairseq import-hf wrote and which "
        "prepare.sh was given as BERT; only with --form classes",
    )
    parser.add_argument(
        "--updates",
        type=int,
        default=300,
        metavar="N",
        help="with --bert, how many updates train the plugins and their competitors on the task "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--raw-updates",
        type=int,
        default=200,
        metavar="N",
        help="with --bert, how many updates train them on raw text before (default: %(default)s)",
    )
    parser.add_argument(
        "--model-updates",
        type=int,
        default=500,
        metavar="N",
        help="with --bert, how many updates fine-tune the model (default: %(default)s)",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=1024,
        metavar="N",
        help="with --bert, the largest number of tokens in a training batch of the task "
        "(default: %(default)s)",
    )
    add_options(parser)
    add_pretrained_option(parser)


def build_glue(args: argparse.Namespace, place: Place) -> Pipeline:
    """The stages for a task of GLUE, as classes or as text.

    Raises:
        UserError: a row that does not exist, a number of updates or tokens below 1, a --bert that
            cannot be used, or a task of one's own whose data are not there.
    """
    names = ("updates", "raw_updates", "model_updates", "max_tokens")
    budget = {name: getattr(args, name) for name in names}
    check_positive(**budget)
    base = place.base / place.name / args.task
    folder = place.data or base / "data"
    runs = place.runs or base / args.form
    pretrained_path = args.pretrained
    num_classes = count_classes(args.task, folder)
    settings = glue_classes(num_classes)
    evaluate: Callable[[Setup, str], list[Stage]] = by_classes
    if args.form == "text":
        options = words("--beam 1 --num-workers 0 --max-tokens 2048")
        evaluate = by_generation(("accuracy",), folder / "raw" / "test.answer", options)
        settings = GLUE_TEXT
    if args.bert is not None:
        settings = glue_from_bert(num_classes, read_bert_options(args), **budget)
        pretrained_path = pretrained_path or args.bert / "checkpoint.pt"
    return make_pipeline(args, settings, evaluate, folder, args.form, runs, pretrained_path)


def read_bert_options(args: argparse.Namespace) -> Options:
    """The model options of an imported BERT.

    Raises:
        UserError: not a folder from import-hf, or --form text, which needs a decoder.
    """
    if args.form != "classes":
        raise UserError("--bert: is an encoder; give --form classes")
    path = args.bert / "model_options"
    if not path.is_file():
        raise UserError(f"--bert {path}: no such file; make it by pet-fairseq import-hf")
    return words(path.read_text(encoding="utf-8"))


def add_squad_options(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    add_pretrained_option(parser)


def build_squad(args: argparse.Namespace, place: Place) -> Pipeline:
    """The stages for SQuAD as text to text."""
    base = place.base / place.name
    folder, runs = place.data or base / "data", place.runs or base / "text"
    truth = folder / "raw" / "test.answers.json"
    options = words("--beam 1 --num-workers 0 --max-tokens 16384")
    evaluate = by_generation(("squad",), truth, options)
    return make_pipeline(args, SQUAD, evaluate, folder, "text", runs, args.pretrained)


MULTI30K_ROWS = ("backbone", "k2", "k4", "k8", "mean_copy", "token_pruning", "narrow_ffn")


def add_multi30k_options(parser: argparse.ArgumentParser) -> None:
    add_options(parser, MULTI30K_ROWS)


def build_multi30k(args: argparse.Namespace, place: Place) -> Pipeline:
    """The stages for plugins of a model of the recipe multi30k, by default its teacher."""
    base = place.base / "multi30k"
    folder, runs = place.data or base / "data", place.runs or base / "variator"
    args.backbone = args.backbone or base / "small" / "teacher" / BEST
    options = words(
        "--source-lang de --target-lang en --num-workers 0 --max-tokens 3000 --beam 5 --remove-bpe "
        "--tokenizer moses"
    )
    evaluate = by_generation(("bleu",), folder / "raw" / "test.en", options)
    return make_pipeline(args, multi30k("de", "en"), evaluate, folder, "bin", runs, None)


def make_pipeline(
    args: argparse.Namespace,
    settings: Settings,
    evaluate: Callable[[Setup, str], list[Stage]],
    folder: Path,
    form: str,
    runs: Path,
    pretrained_path: Optional[Path],
) -> Pipeline:
    """The stages for data in a folder; raw text is used if it is there, or no data are yet."""
    raw = folder / "raw_text"
    has_raw = settings.raw_task and (raw.is_dir() or not folder.exists())
    if has_raw and pretrained_path is None:
        pretrained_path = args.backbone  # plugins of another model would not fit it
    if args.length is not None:
        settings = replace(settings, length=args.length)
    if args.seed is not None and args.runs is None:
        runs = runs.with_name(f"{runs.name}.seed{args.seed}")
    setup = Setup(
        folder / form,
        raw if has_raw else None,
        runs,
        settings,
        evaluate,
        make_device(args.device, args.precision, settings.precision),
        args.backbone,
        pretrained_path,
        args.seed,
    )
    return Pipeline(build_stages(setup, tuple(args.rows)), runs, {"DATA": folder, "RUNS": runs})
