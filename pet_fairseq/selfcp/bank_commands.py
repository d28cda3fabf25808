"""The command `pet-fairseq bank`: parse, call, print."""

from pathlib import Path
from typing import List, Tuple

from pet_fairseq.errors import UserError

COUNTS = ("sentences", "shots", "block")
SHOWN = 10  # records of `search`


def add_commands(commands) -> None:
    """Add it to argparse's sub-parsers."""
    bank = commands.add_parser(
        "bank", help="demonstrations as memory tokens on disk, for generation with --bank"
    )
    actions = bank.add_subparsers(dest="action", required=True, metavar="ACTION")

    action = actions.add_parser("build", help="make a bank, or go on where building ended")
    _add_model_options(action, subset="train")
    action.add_argument("--out", type=Path, required=True, metavar="DIR", help="the bank")
    action.add_argument(
        "--memory-ratio", type=float, help="tokens for a memory token (default: the model's)"
    )
    _add_block(action)
    action.set_defaults(run=_build)

    action = actions.add_parser("add", help="more demonstrations for a bank")
    action.add_argument("--bank", type=Path, required=True, metavar="DIR")
    _add_model_options(action, subset="train")
    _add_block(action)
    action.set_defaults(run=_add)

    action = actions.add_parser("search", help="which demonstrations records would get")
    action.add_argument("--bank", type=Path, required=True, metavar="DIR")
    _add_model_options(action, subset="test")
    action.add_argument("--shots", type=int, default=4, help="for each (default: %(default)s)")
    action.add_argument(
        "--sentences", type=int, default=SHOWN, help="of the subset, at most (default: %(default)s)"
    )
    action.set_defaults(run=_search)

    action = actions.add_parser("info", help="what a bank holds")
    action.add_argument("bank", type=Path, metavar="DIR")
    action.add_argument("--verify", action="store_true", help="also check every byte of memory")
    action.set_defaults(run=_info)


def _add_model_options(action, subset: str) -> None:
    action.add_argument("--path", required=True, metavar="FILE", help="a file of --arch selfcp")
    action.add_argument(
        "--data", required=True, metavar="BIN", help="folder made by pet-fairseq prompts"
    )
    action.add_argument("--subset", default=subset, help="default: %(default)s")
    action.add_argument("--device", default="cpu", choices=("cpu", "cuda"))


def _add_block(action) -> None:
    action.add_argument(
        "--block",
        type=int,
        default=256,
        help="demonstrations compressed and written together (default: %(default)s)",
    )


def _load(args) -> Tuple:
    """The reader of a checkpoint in eval mode, and the records of a subset.

    Raises:
        UserError: options, a checkpoint or data that are wrong.
    """
    for name in COUNTS:
        if getattr(args, name, 1) < 1:
            raise UserError(f"--{name} {getattr(args, name)}: give 1 or more")
    from pet_fairseq.loading import check_device, load_subset
    from pet_fairseq.selfcp.load import load_selfcp

    check_device(args.device)
    model, task = load_selfcp(args.path, args.data)
    return model.to(args.device).encoder, load_subset(task, args.subset)


def _build(args, rest) -> int:
    ratio = args.memory_ratio
    if ratio is not None and not 1 <= ratio < float("inf"):
        raise UserError(f"--memory-ratio {ratio:g}: give 1 or more")
    reader, records = _load(args)
    from pet_fairseq.selfcp import demonstrations

    used = demonstrations.ratio_of(args.out, reader, ratio)
    source = demonstrations.describe(reader, records, args.data, args.subset, used)
    demonstrations.start(args.out, reader, source, used)
    return _fill(args.out, reader, records, source, args.block)


def _add(args, rest) -> int:
    from pet_fairseq.selfcp import demonstrations
    from pet_fairseq.selfcp.manifest import read_manifest

    ratio = read_manifest(args.bank).memory_ratio
    reader, records = _load(args)
    source = demonstrations.describe(reader, records, args.data, args.subset, ratio)
    return _fill(args.bank, reader, records, source, args.block)


def _fill(folder: Path, reader, records, source, block: int) -> int:
    from pet_fairseq.selfcp import demonstrations

    if source.cut:
        print(
            f"{source.cut:,} of {source.records:,} demonstrations are longer than the backbone's "
            f"{reader.inner.max_positions():,} positions allow: cut at their front"
        )
    added = demonstrations.fill(folder, reader, records, source, block, _say)
    print(f"{folder}: {added:,} demonstrations added, {source.records - added:,} were there")
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


def _search(args, rest) -> int:
    reader, records = _load(args)
    from pet_fairseq.selfcp.demonstrations import find, open_bank, prompt_of

    bank = open_bank(args.bank, reader)
    for start in range(0, min(args.sentences, len(records)), SHOWN):
        numbers = range(start, min(start + SHOWN, args.sentences, len(records)))
        texts = [prompt_of(records[i]) for i in numbers]
        for number, hits in zip(numbers, find(bank, reader, texts, args.shots)):
            print(number, *(f"{hit.number}:{hit.cosine:.6f}" for hit in hits), sep="\t")
    return 0


def _info(args, rest) -> int:
    from pet_fairseq.selfcp.bank import Bank

    bank = Bank(args.bank)
    if args.verify:
        for number in range(len(bank)):
            bank.memory(number)
    print("\n".join(_describe(bank, args.verify)))
    return 0


def _describe(bank, verified: bool) -> List[str]:
    from pet_fairseq.selfcp.bank import FILES
    from pet_fairseq.selfcp.demonstrations import MADE_WITH

    manifest = bank.manifest
    sizes = {name: (bank.folder / name).stat().st_size for name in FILES if len(bank)}
    return [
        f"{len(bank):,} demonstrations, {manifest.memory_tokens:,} memory tokens of width "
        f"{manifest.width}, ratio {manifest.memory_ratio:g}",
        *(
            f"from {source.subset} of {source.data}: {source.records:,}, {source.cut:,} of them "
            f"cut, sha256 {source.sha256}"
            for source in manifest.sources
        ),
        *(f"{MADE_WITH[part]}: sha256 {value}" for part, value in manifest.made_with.items()),
        *(f"{name}: {size:,} bytes" for name, size in sizes.items()),
        "every byte verified" if verified else "verified but for the memory tokens: see --verify",
        *([manifest.unfinished] if manifest.unfinished else []),
    ]
