"""The command `pet-fairseq keep-layers`."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a Transformer encoder-decoder")
    for stack in ("encoder", "decoder"):
        parser.add_argument(
            f"--{stack}-layers",
            required=True,
            metavar="LIST",
            help=f"the {stack}'s layers to keep, counted from 1, such as 1,2 or 1,3,5",
        )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the checkpoint to write"
    )


def _run(args: Namespace) -> None:
    from pet_fairseq.baselines.keep_layers import keep_layers

    layers = {"encoder": args.encoder_layers, "decoder": args.decoder_layers}
    keep_layers(args.checkpoint, layers, args.out)
    print(f"wrote {args.out}; start a student from it with --finetune-from-model {args.out}")


COMMANDS = (
    Command(
        name="keep-layers",
        group=Group.CHECKPOINTS,
        help="write some layers of a Transformer as a model for a student to start from",
        add_arguments=_arguments,
        run=_run,
    ),
)
