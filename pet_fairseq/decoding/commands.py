"""The command `pet-fairseq export`."""

from argparse import ArgumentParser, Namespace

from pet_fairseq.cli_command import Command, Group, add_data_option, add_new_folder_option


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a Transformer or a PET student")
    add_data_option(parser)
    parser.add_argument(
        "--to",
        required=True,
        choices=("fairseq", "ctranslate2"),
        help="the software that is to run the model",
    )
    parser.add_argument(
        "--quantization",
        metavar="TYPE",
        help="the type of CTranslate2's weights: float32 (default), float16, bfloat16, int16, "
        "int8, int8_float32, int8_float16 or int8_bfloat16",
    )
    add_new_folder_option(parser)


def _run(args: Namespace) -> None:
    from pet_fairseq.decoding.export import export

    export(args.checkpoint, args.data, args.to, args.out, args.quantization)
    print(f"wrote {args.out}")


COMMANDS = (
    Command(
        name="export",
        group=Group.DEPLOYMENT,
        help="write a translation model for stock fairseq or for CTranslate2",
        description="Write a folder with the model's plain form, in which no parameters are "
        "shared between layers and every attention has only the heads that it uses.",
        add_arguments=_arguments,
        run=_run,
    ),
)
