"""The command `pet-fairseq export`."""

from pathlib import Path


def add_commands(commands) -> None:
    command = commands.add_parser(
        "export",
        help="write a translation model for stock fairseq or CTranslate2",
        description="Writes a folder with the model's plain form: pairs unrolled, heads cut.",
    )
    command.add_argument("checkpoint", metavar="CHECKPOINT", help="a Transformer or PET model")
    command.add_argument(
        "--data", required=True, metavar="BIN", help="folder made by fairseq-preprocess"
    )
    command.add_argument("--to", required=True, choices=("fairseq", "ctranslate2"))
    command.add_argument(
        "--quantization",
        metavar="TYPE",
        help="of CTranslate2's weights: float32 (default), float16, bfloat16, int16, int8, "
        "int8_float32, int8_float16, int8_bfloat16",
    )
    command.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new folder")
    command.set_defaults(run=_export)


def _export(args, rest) -> int:
    from pet_fairseq.decoding.export import export

    export(args.checkpoint, args.data, args.to, args.out, args.quantization)
    print(f"wrote {args.out}")
    return 0
