"""The recipes of SelfCP: their data sets and options, and from these to stages."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from pet_fairseq.errors import check_positive
from pet_fairseq.recipes.arguments import add_seeds_option
from pet_fairseq.recipes.selfcp.rows import DEFAULT, FULL, ROWS
from pet_fairseq.recipes.selfcp.scoring import by_choice, by_rouge
from pet_fairseq.recipes.selfcp.setup import Setup
from pet_fairseq.recipes.selfcp.stages import build_stages
from pet_fairseq.runner.device import make_device
from pet_fairseq.runner.options import Options, words
from pet_fairseq.runner.pipeline import Pipeline, Place


@dataclass(frozen=True)
class DataSet:
    """A data set of prompts; the sizes are for two CPU cores.

    Attributes:
        window: tokens of a prompt that are read as they are.
        candidates: the possible responses, to be scored `by_choice`; without them, `by_rouge`.
        beam, max_len: of generated responses.
        rows: the default ones.
        lm: options of the language model's training, which override LM.
    """

    window: int
    candidates: Options = ()
    beam: int = 4
    max_len: int = 250
    rows: tuple[str, ...] = DEFAULT
    lm: Options = ()


DATA_SETS = {
    "movie_reviews": DataSet(256, ("positive", "negative")),
    "cicero": DataSet(64, max_len=30, rows=DEFAULT + FULL),
    "xsum": DataSet(512, max_len=60),
    "arxiv": DataSet(512),
    "duc2007": DataSet(512),
    "cola": DataSet(128, ("acceptable", "unacceptable"), rows=DEFAULT + FULL),
    # no two games are the same, so the language model cannot overfit and needs no dropout
    "recall": DataSet(32, beam=1, max_len=6, rows=DEFAULT + FULL, lm=("--dropout", "0")),
}


def add_options(parser: argparse.ArgumentParser, name: str) -> None:
    """Declare the options of a data set's recipe."""
    data_set = DATA_SETS[name]
    parser.add_argument(
        "--rows",
        nargs="+",
        default=list(data_set.rows),
        metavar="ROW",
        help=f"the ways to read a prompt: {', '.join(ROWS)}; a number at the end, as in former4, "
        "is another ratio; full needs a model with positions for the longest prompt "
        f"(default: {' '.join(data_set.rows)})",
    )
    add_seeds_option(parser, "the memory")
    for option, default, about in (
        ("--window", data_set.window, "how many tokens of a prompt are read as they are"),
        ("--ratio", 12, "how many prompt tokens become one memory token"),
        ("--lm-updates", 4000, "how many updates train the language model"),
        ("--memory-updates", 1000, "how many updates train the memory"),
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


def build(args: argparse.Namespace, place: Place) -> Pipeline:
    """The stages that the options ask for.

    Raises:
        UserError: a row that does not exist, or a number below 1.
    """
    numbers = ("window", "ratio", "lm_updates", "memory_updates", "beam")
    check_positive(**{name: getattr(args, name) for name in numbers})
    data_set = DATA_SETS[place.name]
    data = place.data or place.base / place.name / "data" / "bin"
    runs = place.runs or place.base / place.name / "selfcp"
    generation = words(f"--beam {args.beam} --max-len-b {data_set.max_len}")
    evaluate = by_choice(data_set.candidates) if data_set.candidates else by_rouge(generation)
    setup = Setup(
        *(data, runs, evaluate, args.window, args.ratio, data_set.lm),
        *(args.lm_updates, args.memory_updates),
        device=make_device(args.device, args.precision),
        own_backbone=args.backbone,
        lm_from=args.lm_from,
    )
    stages = build_stages(setup, args.rows, args.seeds)
    return Pipeline(stages, runs, {"DATA": data, "RUNS": runs})
