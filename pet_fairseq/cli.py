"""The command `pet-fairseq`: parse, call, print."""

import argparse
import logging
import sys
from pathlib import Path
from typing import List, Optional

from pet_fairseq.command_options import add_sample_options
from pet_fairseq.decoding import commands as decoding_commands
from pet_fairseq.errors import UserError
from pet_fairseq.selfcp import bank_commands
from pet_fairseq.selfcp import commands as selfcp_commands
from pet_fairseq.serve import options as serve_options
from pet_fairseq.variator import commands as variator_commands


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

    command = commands.add_parser(
        "model-options",
        help="the options for fairseq-train that build a checkpoint's model again",
    )
    command.add_argument("checkpoint", metavar="CHECKPOINT", help="a file that fairseq wrote")
    command.set_defaults(run=_model_options)

    command = commands.add_parser(
        "sample-heads",
        help="keep the best attention heads of each layer of a wide PET student",
        description="Keeps the best heads of every attention and writes a smaller checkpoint.",
    )
    add_sample_options(command, "the wide student", subset="train", sentences=1000)
    command.add_argument("--heads", type=int, required=True, help="heads to keep per attention")
    command.add_argument("--out", type=Path, required=True, help="checkpoint to write")
    command.add_argument(
        "--score",
        choices=("contribution", "weight"),
        default="contribution",
        help="contribution: mean norm of what a head adds to its layer's output; weight: sum of "
        "its absolute weights, equal in layers that share them (default: %(default)s)",
    )
    command.set_defaults(run=_sample_heads)

    variator_commands.add_commands(commands)
    selfcp_commands.add_commands(commands)
    bank_commands.add_commands(commands)
    decoding_commands.add_commands(commands)

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
        "suggest-pairs", help="which slots of a trained model could share parameters"
    )
    add_sample_options(command, "the trained teacher", subset="valid", sentences=200)
    command.add_argument(
        "--stacks", default="encoder,decoder", help="encoder, decoder or both (default: both)"
    )
    command.add_argument(
        "--candidates",
        default="thesis",
        choices=("thesis", "all"),
        help="the pairs that PET's thesis considered, or every two projections",
    )
    command.add_argument(
        "--out", type=Path, metavar="FOLDER", help="for pairs.md, pairs.json and pairs.png"
    )
    command.set_defaults(run=_suggest_pairs)

    command = commands.add_parser("report", help="compare the finished runs in a folder")
    command.add_argument("runs", type=Path, metavar="RUNS", help="folder with one folder per run")
    command.add_argument(
        "--reference", type=Path, required=True, help="raw target text of the test set"
    )
    command.add_argument(
        "--teacher", default="teacher", metavar="RUN", help="the 100%% run (default: %(default)s)"
    )
    command.add_argument(
        "--baseline",
        metavar="RUN",
        help="the run to compare BLEU to (default: the teacher)",
    )
    command.add_argument(
        "--significance", action="store_true", help="paired bootstrap test against the baseline"
    )
    command.set_defaults(run=_report)

    command = commands.add_parser(
        "serve",
        help="answer HTTP requests with a model, its compression ratio chosen by the load",
        epilog="also --tokenizer and --bpe with their options, as for fairseq-interactive",
        allow_abbrev=False,
    )
    serve_options.add_options(command)
    command.set_defaults(run=_serve)

    args, rest = parser.parse_known_args(argv)
    if rest and args.command not in ("params", "serve"):
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


def _model_options(args, rest) -> int:
    from pet_fairseq.model_options import model_options

    print(" ".join(model_options(args.checkpoint)))
    return 0


def _sample_heads(args, rest) -> int:
    from pet_fairseq.pet.head_sampling import format_sampled, sample_heads

    options = {k: v for k, v in vars(args).items() if k not in ("command", "run")}
    print(format_sampled(sample_heads(**options)))
    print(
        f"wrote {args.out}; fine-tune it with --finetune-from-model {args.out} "
        f"$(pet-fairseq model-options {args.out})"
    )
    return 0


def _toy_data(args, rest) -> int:
    from pet_fairseq.toy.corpus import write_corpus

    sizes = {split: getattr(args, f"{split}_size") for split in ("train", "valid", "test")}
    write_corpus(args.out, args.seed, sizes)
    print(f"wrote {', '.join(f'{n} {split}' for split, n in sizes.items())} pairs to {args.out}")
    return 0


def _suggest_pairs(args, rest) -> int:
    from pet_fairseq.pet.pair_report import suggest_pairs

    options = {k: v for k, v in vars(args).items() if k not in ("command", "run")}
    print(suggest_pairs(**options))
    return 0


def _report(args, rest) -> int:
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns on everything
    from pet_fairseq.report import write_report

    print(write_report(args.runs, args.reference, args.teacher, args.baseline, args.significance))
    return 0


def _serve(args, rest) -> int:
    try:
        from pet_fairseq.serve.run import serve
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        raise UserError("aiohttp is missing; pip install 'pet-fairseq[serve]'") from error
    serve(args, rest)
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
