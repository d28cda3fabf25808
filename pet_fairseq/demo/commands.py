"""The command `pet-fairseq demo-data`."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group
from pet_fairseq.errors import UserError, check_positive

SIZES = {"train": 25000, "valid": 500, "test": 500}
PIECES = 4000


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "out",
        type=Path,
        metavar="OUT",
        help="the folder for raw/ and pieces/, each with {train,valid,test}.{fi,en}, and spm.model",
    )
    for split, size in SIZES.items():
        parser.add_argument(
            f"--{split}-size",
            type=int,
            default=size,
            metavar="N",
            help=f"the largest number of sentence pairs in {split}.* (default: %(default)s)",
        )
    parser.add_argument(
        "--pieces",
        type=int,
        default=PIECES,
        metavar="N",
        help="the size of the subword vocabulary (default: %(default)s)",
    )


def _run(args: Namespace) -> None:
    from pet_fairseq.demo.corpus import write_corpus

    sizes = {split: getattr(args, f"{split}_size") for split in SIZES}
    check_positive(**{f"{split}_size": size for split, size in sizes.items()}, pieces=args.pieces)
    if args.out.is_file() or (args.out.is_dir() and any(args.out.iterdir())):
        raise UserError(f"OUT {args.out}: exists already; give a new folder")
    written = write_corpus(args.out, sizes, args.pieces)
    print(
        f"wrote {', '.join(f'{n} {split}' for split, n in written.items())} pairs to {args.out} "
        "(Tatoeba, CC BY 2.0 FR)"
    )


COMMANDS = (
    Command(
        name="demo-data",
        group=Group.SETUP,
        help="write a small parallel corpus of short sentences, Finnish to English",
        add_arguments=_arguments,
        run=_run,
        needs_models=False,
    ),
)
