"""The recipes of Variator: their options, and from these to stages."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import check_positive
from pet_fairseq.runner.device import make_device
from pet_fairseq.runner.fairseq_commands import BEST
from pet_fairseq.runner.pipeline import Pipeline, Place
from pet_fairseq.runner.stage import Stage

from .rows import BY_NAME, DEFAULT, build_stages
from .scoring import by_generation
from .setup import SETTINGS, Settings, Setup


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


def add_squad_options(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    add_pretrained_option(parser)


def build_squad(args: argparse.Namespace, place: Place) -> Pipeline:
    """The stages for SQuAD as text to text."""
    base = place.base / place.name
    folder, runs = place.data or base / "data", place.runs or base / "text"
    truth = folder / "raw" / "test.answers.json"
    settings = SETTINGS["squad"]
    evaluate = by_generation(("squad",), truth, settings.generate)
    return make_pipeline(args, settings, evaluate, folder, "text", runs, args.pretrained)


MULTI30K_ROWS = ("backbone", "k2", "k4", "k8", "mean_copy", "token_pruning", "narrow_ffn")


def add_multi30k_options(parser: argparse.ArgumentParser) -> None:
    add_options(parser, MULTI30K_ROWS)


def build_multi30k(args: argparse.Namespace, place: Place) -> Pipeline:
    """The stages for plugins of a model of the recipe multi30k, by default its teacher."""
    base = place.base / "multi30k"
    folder, runs = place.data or base / "data", place.runs or base / "variator"
    args.backbone = args.backbone or base / "small" / "teacher" / BEST
    settings = SETTINGS["multi30k"]
    evaluate = by_generation(("bleu",), folder / "raw" / "test.en", settings.generate)
    return make_pipeline(args, settings, evaluate, folder, "bin", runs, None)


def make_pipeline(
    args: argparse.Namespace,
    settings: Settings,
    evaluate: Callable[[Setup, str], list[Stage]],
    folder: Path,
    form: str,
    runs: Path,
    pretrained_path: Optional[Path],
    first_steps: Optional[Path] = None,
) -> Pipeline:
    """The stages for data in a folder; raw text is used if it is there, or no data are yet.

    Raises:
        UserError: `--length` below 1, or as `build_stages`.
    """
    raw = folder / "raw_text"
    has_raw = settings.raw_task and (raw.is_dir() or not folder.exists())
    if has_raw and pretrained_path is None:
        pretrained_path = args.backbone  # plugins of another model would not fit it
    if args.length is not None:
        check_positive(length=args.length)
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
        first_steps,
        args.seed,
    )
    return Pipeline(build_stages(setup, tuple(args.rows)), runs, {"DATA": folder, "RUNS": runs})
