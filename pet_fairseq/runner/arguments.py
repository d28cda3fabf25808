"""Options of all commands that run stages, and what they ask of the runner."""

from argparse import Namespace

from pet_fairseq.cli_command import add_device_option
from pet_fairseq.errors import check_positive
from pet_fairseq.runner.device import PRECISIONS, command_environment
from pet_fairseq.runner.pipeline import Pipeline
from pet_fairseq.runner.skipping import RunOptions


def add_precision_option(group, on_gpu: str) -> None:
    """The precision of trainings; `on_gpu`: what auto means there, in words."""
    group.add_argument(
        "--precision",
        choices=("auto", *PRECISIONS),
        default="auto",
        help=f"the precision of the trainings; auto: fp32 on a CPU, {on_gpu}; bf16 is "
        "faster on a CPU that has instructions for it (default: auto)",
    )


def add_run_options(group) -> None:
    """Options of all commands that run stages."""
    group.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="how many stages may run side by side; one that is timed runs alone (default: 1)",
    )
    add_device_option(group, "the models run")
    group.add_argument(
        "--again",
        action="store_true",
        help="replace products that another command or other inputs made, which are an error "
        "otherwise",
    )
    group.add_argument(
        "--adopt",
        action="store_true",
        help="accept products that have no record of how they were made as finished",
    )
    group.add_argument(
        "--dry-run", action="store_true", help="print the commands instead of running them"
    )


def run_options(args: Namespace, pipeline: Pipeline) -> RunOptions:
    """Options for the runner; jobs on a CPU share its cores.

    Raises:
        UserError: `--jobs` below 1.
    """
    check_positive(jobs=args.jobs)
    environment = command_environment(args.device, args.jobs)
    return RunOptions(args.jobs, args.again, args.adopt, pipeline.places, environment)
