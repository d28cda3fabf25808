"""SelfCP's commands of `pet-fairseq`: parse, call, print."""

import json
import logging
import sys
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.segments import STRATEGIES

SPLITS = ("train", "valid", "test")


def add_commands(commands) -> None:
    """Add them to argparse's sub-parsers."""
    command = commands.add_parser(
        "prompts",
        help="queries, prompts and responses as binary data for SelfCP",
        description="Turns JSON lines with the strings query, prompt and response into fairseq's "
        "binary format, and into text for the language model that is to answer.",
    )
    for split in SPLITS:
        command.add_argument(
            f"--{split}", type=Path, metavar="FILE", help="JSON lines, may be gzipped (.gz)"
        )
    command.add_argument(
        "--text",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="more text for the language model, a paragraph a line, may be gzipped (.gz)",
    )
    command.add_argument("--out", type=Path, required=True, metavar="BIN", help="folder to make")
    command.add_argument(
        "--spm",
        type=Path,
        metavar="MODEL",
        help="a SentencePiece model, such as another BIN/spm.model; without it one is trained on "
        "--train and --text",
    )
    command.add_argument(
        "--vocab-size",
        type=int,
        metavar="N",
        help="pieces of a model that is trained (default: 8000, fewer for little text)",
    )
    command.add_argument(
        "--lm-tokens",
        type=int,
        default=512,
        metavar="N",
        help="most tokens of a text for the language model: longer records lose the front of their "
        "prompt there, other text is divided (default: %(default)s)",
    )
    command.add_argument(
        "--no-lm-records",
        action="store_true",
        help="only --text is for the language model, not the records",
    )
    command.add_argument(
        "--max-record-mb",
        type=float,
        default=64,
        metavar="MB",
        help="a line with more is refused without being read into memory (default: %(default)s)",
    )
    command.set_defaults(run=_prompts)

    command = commands.add_parser(
        "choose", help="closed-ended questions: the response that a SelfCP model expects most"
    )
    _add_model_options(command)
    command.add_argument(
        "--candidates", nargs="+", required=True, metavar="TEXT", help="the possible responses"
    )
    command.add_argument(
        "--sentences",
        type=int,
        default=sys.maxsize,
        metavar="N",
        help="of the subset, about so many (default: all)",
    )
    command.add_argument(
        "--max-tokens", type=int, default=8000, help="in a batch (default: %(default)s)"
    )
    command.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    command.add_argument("--out", type=Path, metavar="FILE", help="also write the JSON there")
    command.set_defaults(run=_choose)

    command = commands.add_parser(
        "memory-map", help="cosines between memory tokens and the tokens they stand for"
    )
    _add_model_options(command)
    command.add_argument(
        "--index", type=int, default=0, metavar="N", help="record (default: %(default)s)"
    )
    command.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="for memory_map.json and memory_map.png",
    )
    command.set_defaults(run=_memory_map)


def _add_model_options(command) -> None:
    command.add_argument("--path", required=True, metavar="FILE", help="of --arch selfcp")
    command.add_argument(
        "--data", required=True, metavar="BIN", help="folder made by pet-fairseq prompts"
    )
    command.add_argument("--subset", default="test", help="default: %(default)s")
    for name, kind in (("prompt-strategy", str), ("memory-ratio", float), ("window", int)):
        command.add_argument(
            f"--{name}", type=kind, metavar="X", help="in place of the checkpoint's"
        )


def _model_options(args) -> dict:
    """The given ones of those that replace a checkpoint's.

    Raises:
        UserError: an unknown strategy.
    """
    if args.prompt_strategy not in (None, *STRATEGIES):
        raise UserError(
            f"--prompt-strategy {args.prompt_strategy}: give one of {', '.join(STRATEGIES)}"
        )
    names = ("prompt_strategy", "memory_ratio", "window")
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _choose(args, rest) -> int:
    from pet_fairseq.selfcp.choose import choose

    names = ("path", "data", "candidates", "subset", "sentences", "max_tokens", "device", "out")
    options = {name: getattr(args, name) for name in names}
    print(json.dumps(choose(**options, **_model_options(args))))
    return 0


def _memory_map(args, rest) -> int:
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns on everything
    from pet_fairseq.selfcp.similarity import memory_map

    names = ("path", "data", "subset", "index", "out")
    options = {name: getattr(args, name) for name in names}
    found = memory_map(**options, **_model_options(args))
    numbers = ", ".join(f"{len(s.words)} tokens in {len(s.cosines)}" for s in found)
    print(f"wrote {args.out}/memory_map.json and .png; segments: {numbers}")
    return 0


def _prompts(args, rest) -> int:
    splits = {split: getattr(args, split) for split in SPLITS if getattr(args, split) is not None}
    _check(args, splits)
    from pet_fairseq.selfcp.binarise import make_prompts
    from pet_fairseq.selfcp.vocabulary import VOCAB_SIZE

    said = make_prompts(
        *(splits, args.text, args.out, args.spm, args.vocab_size or VOCAB_SIZE, args.lm_tokens),
        most=int(args.max_record_mb * 1e6),
        lm_records=not args.no_lm_records,
    )
    print(said)
    return 0


def _check(args, splits: dict) -> None:
    """Raises UserError for what is wrong with the options before anything is read."""
    files = [(f"--{split}", path) for split, path in splits.items()]
    files += [("--text", path) for path in args.text] + ([("--spm", args.spm)] if args.spm else [])
    for option, path in files:
        if not path.is_file():
            raise UserError(f"{option} {path}: no such file")
    if not splits and not args.text:
        raise UserError("--train: missing; give --train, --valid, --test or --text")
    if args.spm is None and not args.train and not args.text:
        raise UserError("--spm: missing; give a model, or --train or --text to train one on")
    if args.spm is not None and args.vocab_size is not None:
        raise UserError(f"--vocab-size {args.vocab_size}: of no use with --spm; give one of them")
    for option, value in (("--vocab-size", args.vocab_size), ("--lm-tokens", args.lm_tokens)):
        if value is not None and value < 2:
            raise UserError(f"{option} {value}: give 2 or more")
    if not args.max_record_mb * 1e6 >= 1:
        raise UserError(f"--max-record-mb {args.max_record_mb:g}: give more than 0")
