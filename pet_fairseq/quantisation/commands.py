"""The commands `pet-fairseq pack` and `pet-fairseq unpack`."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group, add_data_option, add_new_folder_option


def _pack_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a Transformer or a PET student")
    add_data_option(parser)
    parser.add_argument(
        "--bits",
        type=int,
        required=True,
        metavar="N",
        help="bits of every weight in a matrix: 8 or 4",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")


def _pack(args: Namespace) -> None:
    from pet_fairseq.quantisation.packing import pack_model

    sizes = pack_model(args.checkpoint, args.data, args.bits, args.out)
    codes, scales, floats, about = (
        sizes.parts[name] / 1000 for name in ("codes", "scales", "floats", "about")
    )
    print(
        f"wrote {args.out}: {sizes.file / 1000:.1f} kB; weights {codes:.1f}, scales {scales:.1f}, "
        f"biases and norms {floats:.1f}, words and options {about:.1f}"
    )
    if sizes.change:
        print(
            f"rounded: values changed by up to {sizes.change:.2%} of the largest in their row; to "
            f"train a model for it: --optimizer quantised_adam --quantised-bits {args.bits}"
        )
    else:
        print("every value is that of the checkpoint")


def _unpack_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file that pet-fairseq pack wrote")
    add_new_folder_option(parser)


def _unpack(args: Namespace) -> None:
    from pet_fairseq.quantisation.packing import unpack_model

    unpack_model(args.file, args.out)
    print(f"wrote {args.out}")


COMMANDS = (
    Command(
        name="pack",
        group=Group.DEPLOYMENT,
        help="write a translation model into a small file, 8 or 4 bits a weight",
        description="Write one file with a model's parameters, shared ones once, its dictionaries "
        "and options. It is for storing and sending: nothing computes in 4 bits; "
        "`pet-fairseq unpack` widens the weights again.",
        add_arguments=_pack_arguments,
        run=_pack,
    ),
    Command(
        name="unpack",
        group=Group.DEPLOYMENT,
        help="widen a packed file into a model that fairseq loads",
        description="Write a folder with model.pt, in float32, and the dictionaries, for fairseq "
        "with --user-dir and for pet-fairseq export.",
        add_arguments=_unpack_arguments,
        run=_unpack,
    ),
)
