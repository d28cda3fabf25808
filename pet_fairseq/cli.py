"""The command `pet-fairseq`: parse, call, print."""

import argparse
import logging
import sys
from pathlib import Path
from typing import List, Optional

from pet_fairseq.compress import commands as compress
from pet_fairseq.decoding import commands as decoding
from pet_fairseq.errors import UserError
from pet_fairseq.pet import commands as pet
from pet_fairseq.recipes import commands as recipes
from pet_fairseq.report import commands as report
from pet_fairseq.selfcp import bank_commands as bank
from pet_fairseq.selfcp import commands as selfcp
from pet_fairseq.serve import commands as serve
from pet_fairseq.variator import commands as variator


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

    for room in (compress, recipes, pet, variator, selfcp, bank, decoding, serve, report):
        room.add_commands(commands)

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

    command = commands.add_parser(
        "import-bert", help="a BERT from Hugging Face's transformers as a model of fairseq"
    )
    command.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="with config.json, model.safetensors and tokenizer.json",
    )
    command.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new folder")
    command.set_defaults(run=_import_bert)

    args, rest = parser.parse_known_args(argv)
    if rest and args.command not in ("params", "serve", "recipe"):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args, rest


def _user_dir(args, rest) -> int:
    print(Path(__file__).resolve().parent)
    return 0


def _toy_data(args, rest) -> int:
    from pet_fairseq.toy.corpus import write_corpus

    sizes = {split: getattr(args, f"{split}_size") for split in ("train", "valid", "test")}
    write_corpus(args.out, args.seed, sizes)
    print(f"wrote {', '.join(f'{n} {split}' for split, n in sizes.items())} pairs to {args.out}")
    return 0


def _repair(args, rest) -> int:
    from pet_fairseq.checkpoints.repair import repair_folder

    repair = repair_folder(args.folder)
    if repair.damaged is None:
        print(f"{args.folder}: nothing to repair")
    else:
        print(f"{repair.damaged}: was damaged or missing, now a copy of {repair.source.name}")
    return 0


def _import_bert(args, rest) -> int:
    logging.getLogger("hydra").setLevel(logging.WARNING)  # fairseq turns on everything
    from pet_fairseq.pretrained.bert import import_bert

    print(import_bert(args.folder, args.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
