"""The recipe for plugins that shorten the prompts of an imported language model (Variator, 4.8)."""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.runner.device import make_device
from pet_fairseq.runner.fairseq_commands import use_checkpoint
from pet_fairseq.runner.pipeline import Pipeline, Place
from pet_fairseq.runner.stage import PRODUCT, Stage

from .rows import BY_NAME, Row, build_stages
from .setup import SETTINGS, Settings, Setup, read_model_options

RATIOS = (2, 4, 8, 16, 32)
CUTS = {f"cut{ratio}": ratio for ratio in RATIOS}  # the backbone reads 1/k of each prompt
SHARED = ("mean_copy", "mean", "copy", "attention", "attention_kv", "narrow_ffn")
DEFAULT = ("backbone", "k2", "k4", "k8", "mean_copy", "narrow_ffn", "cut2", "cut4", "cut8")


def cut_prompts(setup: Setup, row: str) -> list[Stage]:
    """The backbone itself, of whose prompts `evaluate` cuts a part off."""
    return [use_checkpoint(row, row, setup.best("backbone"), setup.best(row), setup.runs)]


ROWS = (
    *(BY_NAME[name] for name in ("backbone", *(f"k{ratio}" for ratio in RATIOS), *SHARED)),
    *(Row(name, cut_prompts) for name in CUTS),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this recipe."""
    usual = SETTINGS["language_model"]
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the language model: the folder from pet-fairseq import-hf that prepare.sh was given",
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        default=list(DEFAULT),
        metavar="ROW",
        help=f"the rows of the table: {', '.join(row.name for row in ROWS)} "
        f"(default: {' '.join(DEFAULT)})",
    )
    parser.add_argument(
        "--prompt-end",
        default="\u010a",
        metavar="WORD",
        help="the word of the model's dictionary that ends the prompts in the data (default: "
        "%(default)s, a line break)",
    )
    parser.add_argument(
        "--model-updates",
        type=int,
        default=usual.schedules["model_task"].updates,
        metavar="N",
        help="how many updates fine-tune the model on the data, before it gets plugins; 0 leaves "
        "it as it is (default: %(default)s)",
    )
    parser.add_argument(
        "--updates",
        type=int,
        default=usual.schedules["plugins_task"].updates,
        metavar="N",
        help="how many updates train plugins and narrow networks (default: %(default)s)",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=usual.schedules["plugins_task"].max_tokens,
        metavar="N",
        help="the largest number of tokens in a training batch (default: %(default)s)",
    )
    parser.add_argument(
        "--texts",
        type=int,
        default=100,
        metavar="N",
        help="how many texts of the test set are read at most (default: %(default)s)",
    )
    parser.add_argument(
        "--closed-answers",
        action="store_true",
        help="the responses are a closed set of answers: the table has the accuracy of choosing "
        "among them",
    )
    parser.add_argument(
        "--length",
        type=int,
        default=usual.length,
        metavar="N",
        help="the length of a prompt, in tokens, that the table's costs are for "
        "(default: %(default)s)",
    )


def settings(args: argparse.Namespace) -> Settings:
    """How the model, plugins and their competitors are trained.

    Raises:
        UserError: `--updates`, `--max-tokens` or `--length` below 1, `--model-updates` below 0, or
            a folder of the model without its options.
    """
    check_positive(updates=args.updates, max_tokens=args.max_tokens, length=args.length)
    if args.model_updates < 0:
        raise UserError(f"--model-updates {args.model_updates}: give 0 or more")
    budget = {"max_tokens": args.max_tokens, "updates": args.updates}
    changed = SETTINGS["language_model"].changed(
        model_task={"max_tokens": args.max_tokens, "updates": args.model_updates},
        plugins_task=budget,
        whole_task=budget,
    )
    return replace(
        changed,
        arch=read_model_options(args.model, "--model") if args.model_updates else (),
        length=args.length,
        plugin_options=("--prompt-end", args.prompt_end),
    )


def evaluate(
    setup: Setup, row: str, prompt_end: str, texts: int, closed_answers: bool
) -> list[Stage]:
    """The stage that measures the responses' perplexity and how long the prompts take."""
    best, out = setup.best(row), setup.runs / row / "result.json"
    command = (
        *("pet-fairseq", "score", "prompts", str(best), str(setup.data)),
        *("--prompt-end", prompt_end, "--texts", str(texts), "--device", setup.device.name),
        *(("--cut", str(CUTS[row])) if row in CUTS else ()),
        *(("--closed-answers",) if closed_answers else ()),
        *("--out", PRODUCT),
    )
    inputs = (best, setup.data, setup.best("backbone"))
    return [Stage(f"{row}/result", ("evaluate",), command, out, inputs, alone=True)]


def build(args: argparse.Namespace, place: Place) -> Pipeline:
    """The stages for one model, in a folder of the model's name.

    Raises:
        UserError: a row that does not exist, or a number below 1.
    """
    check_positive(texts=args.texts)
    base = place.base / place.name / args.model.resolve().name
    folder, runs = place.data or base / "data", place.runs or base / "prompts"
    model = args.model / "checkpoint.pt"
    setup = Setup(
        folder / "bin",
        None,
        runs,
        settings(args),
        partial(
            evaluate,
            prompt_end=args.prompt_end,
            texts=args.texts,
            closed_answers=args.closed_answers,
        ),
        make_device(args.device, args.precision),
        own_backbone=None if args.model_updates else model,
        own_pretrained=model if args.model_updates else None,
    )
    stages = build_stages(setup, tuple(args.rows), ROWS)
    return Pipeline(stages, runs, {"DATA": folder, "RUNS": runs})
