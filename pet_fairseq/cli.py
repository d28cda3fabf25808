"""The command `pet-fairseq`: parse, call, print."""

import argparse
import sys
from pathlib import Path
from typing import List, Optional

from pet_fairseq.errors import UserError


def main(argv: Optional[List[str]] = None) -> int:
    args, rest = _parse(argv)
    try:
        return args.run(args, rest)
    except (UserError, OSError) as error:
        print(f"pet-fairseq {args.command}: error: {error}", file=sys.stderr)
        return 1


def _parse(argv: Optional[List[str]]):
    parser = argparse.ArgumentParser(
        prog="pet-fairseq", description="Small and fast sequence-to-sequence models with fairseq."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    command = commands.add_parser("user-dir", help="print the folder to give to --user-dir")
    command.set_defaults(run=_user_dir)

    command = commands.add_parser(
        "params",
        help="parameters and compression rate of a checkpoint or of model options",
        usage="pet-fairseq params [--reference R] (CHECKPOINT | --arch NAME [MODEL OPTIONS])",
        description="Counts the parameters of a checkpoint, or of the model of some options.",
        epilog="all other options go to the model, see fairseq-train --arch NAME --help",
        allow_abbrev=False,
    )
    command.add_argument(
        "--reference",
        default="transformer_iwslt_de_en",
        metavar="ARCH_OR_CHECKPOINT",
        help="what 100%% is: an architecture or the teacher's checkpoint (default: %(default)s)",
    )
    command.add_argument(
        "--target-rate",
        type=float,
        metavar="R",
        help="list widths for these options whose compression rate is nearest to R percent",
    )
    command.set_defaults(run=_params)

    command = commands.add_parser("toy-data", help="write a small parallel corpus from a grammar")
    command.add_argument(
        "out", type=Path, metavar="OUT", help="folder for {train,valid,test}.{de,en}"
    )
    command.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    for split, size in (("train", 16000), ("valid", 500), ("test", 500)):
        command.add_argument(f"--{split}-size", type=int, default=size, help="default: %(default)s")
    command.set_defaults(run=_toy_data)

    command = commands.add_parser(
        "repair", help="replace a damaged checkpoint_last.pt by the newest readable checkpoint"
    )
    command.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a --save-dir of fairseq-train"
    )
    command.set_defaults(run=_repair)

    command = commands.add_parser("report", help="compare the finished runs in a folder")
    command.add_argument("runs", type=Path, metavar="RUNS", help="folder with one folder per run")
    command.add_argument(
        "--reference", type=Path, required=True, help="raw target text of the test set"
    )
    command.add_argument(
        "--teacher", default="teacher", metavar="RUN", help="the 100%% run (default: %(default)s)"
    )
    command.add_argument(
        "--significance", action="store_true", help="paired bootstrap test against the teacher"
    )
    command.set_defaults(run=_report)

    args, rest = parser.parse_known_args(argv)
    if rest and args.command != "params":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args, rest


def _user_dir(args, rest) -> int:
    print(Path(__file__).resolve().parent)
    return 0


def _params(args, rest) -> int:
    from pet_fairseq.pet import sizes

    checkpoint = rest[0] if rest and not rest[0].startswith("-") else None
    if checkpoint is not None and len(rest) > 1:
        raise UserError(f"{rest[1]}: give a checkpoint or model options, not both")
    if checkpoint is not None and args.target_rate is not None:
        raise UserError("--target-rate: give model options instead of a checkpoint")
    reference = sizes.reference_counts(args.reference)
    if args.target_rate is not None:
        print(sizes.format_widths(sizes.find_widths(rest, args.target_rate, reference)))
        return 0
    counts = (
        sizes.checkpoint_counts(checkpoint, "CHECKPOINT")
        if checkpoint is not None
        else sizes.option_counts(rest)
    )
    print(sizes.format_counts(counts, args.reference, reference))
    return 0


def _toy_data(args, rest) -> int:
    from pet_fairseq.toy.corpus import write_corpus

    sizes = {split: getattr(args, f"{split}_size") for split in ("train", "valid", "test")}
    write_corpus(args.out, args.seed, sizes)
    print(f"wrote {', '.join(f'{n} {split}' for split, n in sizes.items())} pairs to {args.out}")
    return 0


def _report(args, rest) -> int:
    from pet_fairseq.report import write_report

    print(write_report(args.runs, args.reference, args.teacher, args.significance))
    return 0


def _repair(args, rest) -> int:
    from pet_fairseq.checkpoints import repair_folder

    repair = repair_folder(args.folder)
    if repair.damaged is None:
        print(f"{args.folder}: nothing to repair")
    else:
        print(f"{repair.damaged}: was damaged or missing, now a copy of {repair.source.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
