"""The commands of `pet-fairseq` that belong to no method."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group


def _model_options_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a file that fairseq-train wrote")


def _model_options(args: Namespace) -> None:
    from pet_fairseq.checkpoints.model_options import model_options

    print(" ".join(model_options(args.checkpoint)))


def _repair_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="the --save-dir of a training with fairseq"
    )


def _repair(args: Namespace) -> None:
    from pet_fairseq.checkpoints.repair import repair_folder

    repair = repair_folder(args.folder)
    if repair.damaged is None or repair.source is None:
        print(f"{args.folder}: nothing to repair")
    else:
        print(f"{repair.damaged}: was damaged or missing, now a copy of {repair.source.name}")


def _no_arguments(parser: ArgumentParser) -> None:
    pass


def _user_dir(args: Namespace) -> None:
    print(Path(__file__).resolve().parent)


COMMANDS = (
    Command(
        name="model-options",
        group=Group.CHECKPOINTS,
        help="print the options for fairseq-train that build a checkpoint's model again",
        add_arguments=_model_options_arguments,
        run=_model_options,
    ),
    Command(
        name="repair",
        group=Group.CHECKPOINTS,
        help="replace a damaged checkpoint_last.pt with the newest readable checkpoint",
        add_arguments=_repair_arguments,
        run=_repair,
    ),
    Command(
        name="user-dir",
        group=Group.SETUP,
        help="print the folder to give to --user-dir",
        add_arguments=_no_arguments,
        run=_user_dir,
        needs_models=False,
    ),
)
