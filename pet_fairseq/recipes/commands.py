"""The commands that run recipes: parse, call, print."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from pet_fairseq.cli_command import Command, Group, OneLineParser, add_new_folder_option
from pet_fairseq.devices import check_device, choose_device
from pet_fairseq.errors import UserError
from pet_fairseq.runner.arguments import add_precision_option, add_run_options, run_options
from pet_fairseq.runner.pipeline import Pipeline, Place
from pet_fairseq.runner.run import dry_run, run_stages
from pet_fairseq.runner.stage import Stage

if TYPE_CHECKING:  # not loaded to print help
    from pet_fairseq.recipes.catalogue import Recipe

# --- recipe ---------------------------------------------------------------------------------------

DEMO = "demo"
ELSEWHERE = (
    "the others are in examples/ of pet_fairseq's repository: clone it and work in the clone, or "
    "give one of its folders, such as CLONE/examples/multi30k"
)


def _recipe(args: Namespace) -> int:
    words = args.rest
    if not words or words[0] in ("-h", "--help"):
        print(_recipes_help(*find_recipes()))
        return 0 if words else 2
    place, recipe = _choose(words[0])
    args = recipe_parser(place.name, recipe).parse_args(words[1:])
    args.device = choose_device(args.device)
    pipeline = pipeline_of(recipe, place, args)
    stages = select(pipeline.stages, args.stages)
    options = run_options(args, pipeline)
    if args.dry_run:
        print(dry_run(stages, pipeline.folder))
        return 0
    check_device(args.device)
    run_stages(stages, pipeline.folder, options)
    return 0


def find_recipes(examples: Optional[Path] = None) -> tuple[dict[str, "Recipe"], bool]:
    """The recipes by name, and whether they are more than the demo.

    Args:
        examples: the folder in which the user said that the recipe is.
    """
    from pet_fairseq.recipes.catalogue import find_folder, load_recipes
    from pet_fairseq.recipes.translation.recipe import make_demo
    from pet_fairseq.recipes.translation.sizes import read_sizes

    demo = {DEMO: make_demo(read_sizes())}
    folder = find_folder(examples)
    return (demo, False) if folder is None else (demo | load_recipes(folder), True)


def _recipes_help(recipes: Mapping[str, "Recipe"], all_are_there: bool) -> str:
    names = [f"  {name:<16} {recipe.about}" for name, recipe in recipes.items()]
    return "\n".join(
        [
            "usage: pet-fairseq recipe NAME [OPTIONS]",
            "",
            "Train and compare models on a data set. NAME is, or is a folder called, one of",
            "",
            *names,
            "",
            *([] if all_are_there else [f"{ELSEWHERE[0].upper()}{ELSEWHERE[1:]}.", ""]),
            "pet-fairseq recipe NAME --help explains the options of one recipe.",
        ]
    )


def _choose(name: str) -> tuple[Place, "Recipe"]:
    """The recipe of a name, or of a folder such as examples/multi30k.

    The former works in the folder `runs` here, the latter in `runs` beside `examples`.

    Raises:
        UserError: there is no such recipe.
    """
    folder = Path(name)
    inside = len(folder.parts) > 1 and folder.parent.is_dir()
    recipes, all_are_there = find_recipes(folder.parent if inside else None)
    if folder.name in recipes:
        place = Place(folder.name, (folder.parent.parent if inside else Path()) / "runs")
        return place, recipes[folder.name]
    if all_are_there:
        raise UserError(f"{name}: there is no such recipe; give one of {', '.join(recipes)}")
    raise UserError(f"{name}: only the recipe {DEMO} is installed; {ELSEWHERE}")


def recipe_parser(name: str, recipe: "Recipe") -> ArgumentParser:
    """A parser of a recipe's options: its own and those of all recipes."""
    parser = OneLineParser(
        prog=f"pet-fairseq recipe {name}", description=recipe.about[0].upper() + recipe.about[1:]
    )
    recipe.add_options(parser)
    common = parser.add_argument_group("how to run it")
    common.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="the folder that prepare.sh wrote (default: the one in runs/NAME)",
    )
    common.add_argument(
        "--runs",
        type=Path,
        metavar="FOLDER",
        help="the folder for everything that the recipe writes (default: one in runs/NAME)",
    )
    common.add_argument(
        "--stages",
        nargs="+",
        metavar="NAME",
        help="run only these stages: the names of rows, or of what follows, such as generate and "
        "report",
    )
    add_run_options(common)
    add_precision_option(common, "what the recipe prefers on a GPU")
    return parser


def pipeline_of(recipe: "Recipe", place: Place, args: Namespace) -> Pipeline:
    """The stages that the options of a recipe ask for, in the folders that they name."""
    return recipe.build(args, replace(place, data=args.data, runs=args.runs))


def select(stages: list[Stage], groups: Optional[list[str]]) -> list[Stage]:
    """The stages of some groups; all stages if `groups` is None.

    Raises:
        UserError: a group that no stage belongs to.
    """
    if groups is None:
        return stages
    known = list(dict.fromkeys(group for stage in stages for group in stage.groups))
    for group in groups:
        if group not in known:
            raise UserError(
                f"--stages {group}: there is no such stage; give some of {', '.join(known)}"
            )
    return [stage for stage in stages if set(stage.groups) & set(groups)]


# --- what recipes run -----------------------------------------------------------------------------


def _teacher_text_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "output",
        type=Path,
        metavar="OUTPUT",
        help="what fairseq-generate printed for the training set",
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="BIN",
        help="the folder that the output was generated from",
    )
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}-lang", required=True, metavar="LANG", help=f"the {side} language"
        )
    add_new_folder_option(parser)


def _teacher_text(args: Namespace) -> None:
    from pet_fairseq.predict.bad_lines import report
    from pet_fairseq.recipes.translation.sequence_level import make_teacher_text

    bad = make_teacher_text(args.output, args.data, args.source_lang, args.target_lang, args.out)
    report(bad, "teacher-text")
    print(f"wrote {args.out}")


def _statistics_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "data",
        type=Path,
        nargs="+",
        metavar="BIN",
        help="folders of parallel data from fairseq-preprocess",
    )


def _statistics(args: Namespace) -> None:
    from pet_fairseq.recipes.data_statistics import format_statistics, read_statistics

    print(format_statistics([side for folder in args.data for side in read_statistics(folder)]))


def _train_bf16(args: Namespace) -> None:
    from pet_fairseq.runner.train_bf16 import train

    train(args.rest)


def _call_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "function", metavar="MODULE:NAME", help="the function, and its arguments as --NAME JSON"
    )


def _call(args: Namespace) -> None:
    from pet_fairseq.runner.call import run_call

    result = run_call(args.function, args.rest)
    if result is not None:
        print(result)


COMMANDS = (
    Command(
        name="recipe",
        group=Group.RECIPES,
        help="train and compare models on a data set, from prepared data to a table",
        add_arguments=None,
        run=_recipe,
        needs_models=False,
    ),
    Command(
        name="teacher-text",
        group=Group.RECIPES,
        help="make training data with a teacher's translations as its target side",
        description="Make training data for sequence-level distillation: take what "
        "fairseq-generate printed for the training set as its target side; the other sets stay as "
        "they are.",
        add_arguments=_teacher_text_arguments,
        run=_teacher_text,
        needs_models=False,
    ),
    Command(
        name="statistics",
        group=Group.RECIPES,
        help="count the words, sentences and tokens of binary data",
        description="Print a table of data sets: the words of each language's dictionary (the four "
        "special ones, and those that pad it to a multiple of 8, included), and the sentences and "
        "tokens of its training set (the end of a sentence is a token).",
        add_arguments=_statistics_arguments,
        run=_statistics,
        needs_models=False,
    ),
    Command(
        name="train-bf16",
        group=Group.RECIPES,
        help="train as fairseq-train does with the same options, but in bfloat16",
        add_arguments=None,
        run=_train_bf16,
    ),
    Command(
        name="call",
        group=None,
        help="call a function in place of a command",
        add_arguments=_call_arguments,
        run=_call,
        keeps_rest=True,
    ),
)
