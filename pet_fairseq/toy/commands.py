"""The command `pet-fairseq toy-data`."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group

SIZES = {"train": 16000, "valid": 500, "test": 500}


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "out",
        type=Path,
        metavar="OUT",
        help="the folder for {train,valid,test}.{de,en} and reference.en",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="the random seed (default: %(default)s)"
    )
    for split, size in SIZES.items():
        parser.add_argument(
            f"--{split}-size",
            type=int,
            default=size,
            metavar="N",
            help=f"the number of sentence pairs in {split}.* (default: %(default)s)",
        )


def _run(args: Namespace) -> None:
    from pet_fairseq.toy.corpus import write_corpus

    sizes = {split: getattr(args, f"{split}_size") for split in SIZES}
    write_corpus(args.out, args.seed, sizes)
    print(f"wrote {', '.join(f'{n} {split}' for split, n in sizes.items())} pairs to {args.out}")


COMMANDS = (
    Command(
        name="toy-data",
        group=Group.SETUP,
        help="write a small parallel corpus from a grammar",
        add_arguments=_arguments,
        run=_run,
        needs_models=False,
    ),
)
