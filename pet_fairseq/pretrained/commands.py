"""The commands that bring in other libraries' models."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="a folder with config.json, model.safetensors or pytorch_model.bin, and the "
        "tokenizer's files; or a GGUF file",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="the new folder to write"
    )


def _run(args: Namespace) -> None:
    from pet_fairseq.pretrained.importer import import_model

    print(import_model(args.folder, args.out))


COMMANDS = (
    Command(
        name="import-hf",
        group=Group.CHECKPOINTS,
        help="turn a model from Hugging Face's files or GGUF into one of fairseq",
        add_arguments=_arguments,
        run=_run,
    ),
    Command(
        name="import-bert",
        group=Group.CHECKPOINTS,
        help="the same as import-hf, under its old name",
        add_arguments=_arguments,
        run=_run,
    ),
)
