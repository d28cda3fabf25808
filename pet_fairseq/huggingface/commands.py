"""The commands that import other libraries' models."""

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Optional

from pet_fairseq.cli_command import Command, Group, add_new_folder_option


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="a folder with config.json, model.safetensors or pytorch_model.bin, and the "
        "tokenizer's files; or a GGUF file",
    )
    for side, what in (("source", "from"), ("target", "to")):
        parser.add_argument(
            f"--{side}-lang",
            metavar="LANG",
            help=f"to translate {what}, of those that a multilingual model knows",
        )
    add_new_folder_option(parser)


def _run(args: Namespace) -> None:
    from pet_fairseq.huggingface.importer import import_model

    start = time.perf_counter()
    line = import_model(args.folder, args.out, args.source_lang, args.target_lang)
    line += f"; {time.perf_counter() - start:,.0f} s"
    peak = peak_memory()
    print(line if peak is None else f"{line}, at most {peak / 1e6:,.0f} MB of memory")


def peak_memory() -> Optional[int]:
    """The most bytes that this process has had in memory; None where the system does not say so."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return 1024 * kilobytes[0] if kilobytes else None


COMMANDS = (
    Command(
        name="import-hf",
        group=Group.CHECKPOINTS,
        help="turn a model from Hugging Face's files or GGUF into a fairseq model",
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
