"""The commands `pet-fairseq bank ...`: parse, call, print."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import (
    Command,
    Group,
    OneLineParser,
    add_checkpoint,
    add_data_option,
    add_device_option,
    add_subset_option,
)
from pet_fairseq.errors import UserError, check_positive

COUNTS = ("sentences", "shots", "block")
SHOWN = 10  # records that `search` shows by default, and looks up at a time


def _add_model_options(parser: OneLineParser, subset: str) -> None:
    add_checkpoint(parser, "a model of --arch selfcp", old="--path")
    add_data_option(parser, made_by="pet-fairseq prompts")
    add_subset_option(parser, subset)
    add_device_option(parser)


def _add_bank_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--bank", type=Path, required=True, metavar="DIR", help="the folder of the bank"
    )


def _add_block_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--block",
        type=int,
        default=256,
        metavar="N",
        help="how many demonstrations are compressed and written together (default: %(default)s)",
    )


def _load(args: Namespace) -> tuple:
    """The reader of a checkpoint in eval mode, and the records of a subset.

    Raises:
        UserError: wrong options, a wrong checkpoint or wrong data.
    """
    check_positive(**{name: getattr(args, name, 1) for name in COUNTS})
    from pet_fairseq.checkpoints.subsets import load_subset
    from pet_fairseq.devices import check_device
    from pet_fairseq.selfcp.task import load_selfcp

    device = check_device(args.device)
    model, task = load_selfcp(args.checkpoint, args.data)
    return model.to(device).encoder, load_subset(task, args.subset)


# --- build and add --------------------------------------------------------------------------------


def _build_arguments(parser: OneLineParser) -> None:
    _add_model_options(parser, subset="train")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder of the bank to write"
    )
    parser.add_argument(
        "--memory-ratio",
        type=float,
        metavar="X",
        help="tokens for each memory token (default: the model's ratio)",
    )
    _add_block_option(parser)


def _build(args: Namespace) -> None:
    ratio = args.memory_ratio
    if ratio is not None and not 1 <= ratio < float("inf"):
        raise UserError(f"--memory-ratio {ratio:g}: give 1 or more")
    reader, records = _load(args)
    from pet_fairseq.selfcp.bank import demonstrations

    used = demonstrations.ratio_of(args.out, reader, ratio)
    source = demonstrations.describe(reader, records, args.data, args.subset, used)
    demonstrations.start(args.out, reader, source, used)
    _fill(args.out, reader, records, source, args.block)


def _add_arguments(parser: OneLineParser) -> None:
    _add_bank_option(parser)
    _add_model_options(parser, subset="train")
    _add_block_option(parser)


def _add(args: Namespace) -> None:
    from pet_fairseq.selfcp.bank import demonstrations
    from pet_fairseq.selfcp.bank.manifest import read_manifest

    ratio = read_manifest(args.bank).memory_ratio
    reader, records = _load(args)
    source = demonstrations.describe(reader, records, args.data, args.subset, ratio)
    _fill(args.bank, reader, records, source, args.block)


def _fill(folder: Path, reader, records, source, block: int) -> None:
    from pet_fairseq.selfcp.bank import demonstrations

    if source.cut:
        print(
            f"{source.cut:,} of {source.records:,} demonstrations are longer than the backbone's "
            f"{reader.inner.max_positions():,} positions allow: their prompts lose their end"
        )
    added = demonstrations.fill(folder, reader, records, source, block, _print_now)
    print(f"{folder}: {added:,} demonstrations added, {source.records - added:,} were there")


def _print_now(line: str) -> None:
    print(line, flush=True)


# --- search and info ------------------------------------------------------------------------------


def _search_arguments(parser: OneLineParser) -> None:
    _add_bank_option(parser)
    _add_model_options(parser, subset="test")
    parser.add_argument(
        "--shots",
        type=int,
        default=4,
        metavar="N",
        help="how many demonstrations each record gets (default: %(default)s)",
    )
    parser.add_argument(
        "--sentences",
        type=int,
        default=SHOWN,
        metavar="N",
        help="how many records of the subset to show at most (default: %(default)s)",
    )


def _search(args: Namespace) -> None:
    reader, records = _load(args)
    from pet_fairseq.selfcp.bank.demonstrations import find, open_bank, prompt_of

    bank = open_bank(args.bank, reader)
    for start in range(0, min(args.sentences, len(records)), SHOWN):
        numbers = range(start, min(start + SHOWN, args.sentences, len(records)))
        texts = [prompt_of(records[i]) for i in numbers]
        for number, hits in zip(numbers, find(bank, reader, texts, args.shots)):
            print(number, *(f"{hit.number}:{hit.cosine:.6f}" for hit in hits), sep="\t")


def _info_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("bank", type=Path, metavar="DIR", help="the folder of the bank")
    parser.add_argument(
        "--verify", action="store_true", help="also check every byte of the memory tokens"
    )


def _info(args: Namespace) -> None:
    from pet_fairseq.selfcp.bank.bank import Bank

    bank = Bank(args.bank)
    if args.verify:
        for number in range(len(bank)):
            bank.memory(number)
    print("\n".join(_describe(bank, args.verify)))


def _describe(bank, verified: bool) -> list[str]:
    from pet_fairseq.selfcp.bank.bank import FILES
    from pet_fairseq.selfcp.bank.demonstrations import MADE_WITH

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
        "every byte verified" if verified else "all but the memory tokens verified: see --verify",
        *([manifest.unfinished] if manifest.unfinished else []),
    ]


COMMANDS = (
    Command(
        name="bank build",
        group=Group.SELFCP,
        help="store demonstrations as memory tokens for --bank, or finish an interrupted run",
        add_arguments=_build_arguments,
        run=_build,
    ),
    Command(
        name="bank add",
        group=Group.SELFCP,
        help="add more demonstrations to a bank",
        add_arguments=_add_arguments,
        run=_add,
    ),
    Command(
        name="bank search",
        group=Group.SELFCP,
        help="show which demonstrations of a bank the records of a subset would get",
        add_arguments=_search_arguments,
        run=_search,
    ),
    Command(
        name="bank info",
        group=Group.SELFCP,
        help="show what a bank holds, and check that it is undamaged",
        add_arguments=_info_arguments,
        run=_info,
    ),
)
