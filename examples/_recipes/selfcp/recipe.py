"""The recipes of SelfCP: their data sets and options, and from these to stages."""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from pet_fairseq.errors import check_positive
from pet_fairseq.recipes.arguments import add_seeds_option, read_options
from pet_fairseq.recipes.catalogue import Recipe
from pet_fairseq.runner.device import make_device
from pet_fairseq.runner.fairseq_options import words
from pet_fairseq.runner.pipeline import Pipeline, Place

from .rows import DEFAULT, FULL, ROWS
from .scoring import by_choice, by_loss, by_rouge
from .setup import Evaluate, Settings, Setup
from .stages import build_stages


def make_recipe(data_set: Settings) -> Recipe:
    """The recipe of a data set."""
    return Recipe(
        data_set.about, partial(add_options, data_set=data_set), partial(build, data_set=data_set)
    )


def add_options(parser: argparse.ArgumentParser, data_set: Settings) -> None:
    """Declare the options of a data set's recipe."""
    rows = DEFAULT + (FULL if data_set.full else ())
    parser.add_argument(
        "--rows",
        nargs="+",
        default=list(rows),
        metavar="ROW",
        help=f"the ways to read a prompt: {', '.join(ROWS)}; a number at the end, as in former4, "
        "is another ratio; full needs a model with positions for the longest prompt "
        f"(default: {' '.join(rows)})",
    )
    add_seeds_option(parser, "the memory")
    for option, default, about in (
        ("--window", data_set.window, "how many tokens of a prompt are read as they are"),
        ("--ratio", data_set.ratio, "how many prompt tokens become one memory token"),
        ("--lm-updates", data_set.lm_updates, "how many updates train the language model"),
        ("--memory-updates", data_set.memory_updates, "how many updates train the memory"),
        ("--beam", data_set.beam, "the beam size for generated responses"),
    ):
        parser.add_argument(
            option, type=int, default=default, metavar="N", help=f"{about} (default: %(default)s)"
        )
    parser.add_argument(
        "--backbone",
        type=Path,
        metavar="CHECKPOINT",
        help="a language model to use in place of training one",
    )
    parser.add_argument(
        "--lm-from",
        type=Path,
        metavar="CHECKPOINT",
        help="a language model to start training from",
    )
    parser.add_argument(
        "--memory-options",
        default="",
        metavar="OPTIONS",
        help="more of fairseq-train's options for the memory, quoted as one word, such as "
        "'--prompt-strategy former --lr 1e-3'; they override those of data set and row",
    )


def build(args: argparse.Namespace, place: Place, data_set: Settings) -> Pipeline:
    """The stages that the options ask for.

    Raises:
        UserError: a row that does not exist, or a number below 1.
    """
    numbers = ("window", "ratio", "lm_updates", "memory_updates", "beam")
    given = {name: getattr(args, name) for name in numbers}
    check_positive(**given)
    settings = replace(data_set, **given)
    data = place.data or place.base / place.name / "data" / "bin"
    runs = place.runs or place.base / place.name / "selfcp"
    setup = Setup(
        data,
        runs,
        settings,
        choose_score(settings),
        make_device(args.device, args.precision),
        own_backbone=args.backbone,
        lm_from=args.lm_from,
        memory_options=read_options("--memory-options", args.memory_options),
    )
    stages = build_stages(setup, args.rows, args.seeds)
    return Pipeline(stages, runs, {"DATA": data, "RUNS": runs})


def choose_score(settings: Settings) -> Evaluate:
    """How the rows of a data set are scored."""
    if settings.by_loss:
        return by_loss
    if settings.candidates:
        return by_choice(settings.candidates)
    return by_rouge(words(f"--beam {settings.beam} --max-len-b {settings.max_len}"))
