"""The commands that run recipes: parse, call, print."""

import argparse
import os
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.catalogue import RECIPES
from pet_fairseq.recipes.device import DEVICES, choose_device
from pet_fairseq.recipes.job import Job, Place
from pet_fairseq.recipes.runner import RunOptions, dry_run, run_stages
from pet_fairseq.recipes.stage import Stage


def add_commands(commands) -> None:
    """Add them to argparse's sub-parsers."""
    names = "\n".join(f"  {name:<16} {recipe.about}" for name, recipe in RECIPES.items())
    command = commands.add_parser(
        "recipe",
        help="train and compare models on a data set, from prepared data to a table",
        usage="pet-fairseq recipe NAME [OPTIONS]",
        description="Trains and compares models on a data set.",
        epilog=f"recipes:\n{names}\n\noptions: pet-fairseq recipe NAME --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="or a folder of that name")
    command.add_argument("-h", "--help", action="store_true", dest="recipe_help")
    command.set_defaults(run=_recipe, parser=command)

    command = commands.add_parser(
        "teacher-text",
        help="training data with a teacher's translations as its target side",
        description="Sequence-level distillation: takes what fairseq-generate printed for the "
        "training set, and makes binary data of it; the other sets stay as they are.",
    )
    command.add_argument("output", type=Path, metavar="OUTPUT", help="of fairseq-generate")
    command.add_argument(
        "--data", type=Path, required=True, metavar="BIN", help="the data it was generated from"
    )
    command.add_argument("--source-lang", required=True, metavar="LANG")
    command.add_argument("--target-lang", required=True, metavar="LANG")
    command.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new folder")
    command.set_defaults(run=_teacher_text)

    command = commands.add_parser(
        "train-bf16",
        help="fairseq-train in bfloat16 on a GPU; takes its options",
        add_help=False,
        prefix_chars="\0",
    )
    command.add_argument("options", nargs=argparse.REMAINDER)
    command.set_defaults(run=_train_bf16)


def _recipe(args: argparse.Namespace, rest: list[str]) -> int:
    if args.name is None:
        args.parser.print_help()
        return 0 if args.recipe_help else 2
    place = _place(args.name)
    parser = recipe_parser(place.name)
    args = parser.parse_args([*rest, "--help"] if args.recipe_help else rest)
    args.device = choose_device(args.device)
    job = job_of(place, args)
    stages = select(job.stages, args.stages)
    if args.dry_run:
        print(dry_run(stages))
        return 0
    run_stages(stages, job.folder, run_options(args, job))
    if job.last_words:
        print(job.last_words)
    return 0


def _place(name: str) -> Place:
    """The recipe of a name, or of a folder such as examples/multi30k.

    Raises:
        UserError: there is no such recipe.
    """
    folder = Path(name)
    if folder.name not in RECIPES:
        raise UserError(f"{name}: there is no such recipe; give one of {', '.join(RECIPES)}")
    inside = len(folder.parts) > 1 and folder.parent.is_dir()
    return Place(folder.name, (folder.parent.parent if inside else Path()) / "runs")


def recipe_parser(name: str) -> argparse.ArgumentParser:
    """The options of a recipe: its own and those of all recipes."""
    recipe = RECIPES[name]
    parser = argparse.ArgumentParser(
        prog=f"pet-fairseq recipe {name}", description=recipe.about[0].upper() + recipe.about[1:]
    )
    recipe.add_options(parser)
    common = parser.add_argument_group("how to run it")
    common.add_argument(
        "--data", type=Path, metavar="FOLDER", help="made by prepare.sh (default: runs/NAME/data)"
    )
    common.add_argument("--runs", type=Path, metavar="FOLDER", help="for all that is made")
    common.add_argument(
        "--stages",
        nargs="+",
        metavar="NAME",
        help="only these: names of rows, or of what follows, such as generate and report",
    )
    add_run_options(common)
    return parser


def add_run_options(group) -> None:
    """Options of all commands that run stages."""
    group.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="stages that may run side by side; what is timed runs alone (default: 1)",
    )
    group.add_argument(
        "--device",
        choices=DEVICES,
        default="auto",
        help="auto: CUDA where it is, else the CPU (default: auto)",
    )
    group.add_argument(
        "--again",
        action="store_true",
        help="make anew what another command or other inputs made; without it that is an error",
    )
    group.add_argument(
        "--adopt",
        action="store_true",
        help="take as finished what is there without a record of how it was made",
    )
    group.add_argument("--dry-run", action="store_true", help="print the commands")


def job_of(place: Place, args: argparse.Namespace) -> Job:
    """What the options ask for, with the folders that they name."""
    place = Place(place.name, place.base, args.data, args.runs)
    return RECIPES[place.name].build(args, place)


def select(stages: list[Stage], groups: list[str] | None) -> list[Stage]:
    """The stages of some groups, all of them without any.

    Raises:
        UserError: a group that no stage is of.
    """
    if groups is None:
        return stages
    known = list(dict.fromkeys(group for stage in stages for group in stage.groups))
    for group in groups:
        if group not in known:
            raise UserError(f"--stages {group}: there are {', '.join(known)}")
    return [stage for stage in stages if set(stage.groups) & set(groups)]


def run_options(args: argparse.Namespace, job: Job) -> RunOptions:
    """Options for the runner; jobs on a CPU share its cores.

    Raises:
        UserError: no number of jobs.
    """
    if args.jobs < 1:
        raise UserError(f"--jobs {args.jobs}: give 1 or more")
    environment = {}
    if args.jobs > 1 and args.device == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        environment["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // args.jobs))
    return RunOptions(args.jobs, args.again, args.adopt, job.places, environment)


def _teacher_text(args: argparse.Namespace, rest: list[str]) -> int:
    from pet_fairseq.recipes.teacher_text import make_teacher_text

    make_teacher_text(args.output, args.data, args.source_lang, args.target_lang, args.out)
    print(f"wrote {args.out}")
    return 0


def _train_bf16(args: argparse.Namespace, rest: list[str]) -> int:
    from pet_fairseq.recipes.train_bf16 import train

    train(args.options)
    return 0
