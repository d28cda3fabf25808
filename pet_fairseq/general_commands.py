"""The commands of `pet-fairseq` that belong to no method."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group
from pet_fairseq.files import check_new_folder


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


def _demo_teacher_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "out",
        type=Path,
        metavar="OUT",
        help="the new folder for model.pt, the dictionaries and spm.model",
    )


def _demo_teacher(args: Namespace) -> None:
    from pet_fairseq.demo.corpus import TEACHER, TEACHER_PIECES
    from pet_fairseq.quantisation.packing import unpack_model

    check_new_folder(args.out, "OUT")
    unpack_model(str(TEACHER), args.out, {"spm.model": TEACHER_PIECES})
    print(f"wrote {args.out}: a teacher, Finnish to English, for short sentences")


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
        name="demo-teacher",
        group=Group.SETUP,
        help="write a trained teacher for the sentences of demo-data, Finnish to English",
        add_arguments=_demo_teacher_arguments,
        run=_demo_teacher,
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
