"""Options that several commands of `pet-fairseq` have."""

import argparse


def add_sample_options(
    command: argparse.ArgumentParser, model: str, subset: str, sentences: int
) -> None:
    """The options of commands that look at a model's work on some sentences."""
    command.add_argument("--checkpoint", required=True, metavar="FILE", help=model)
    command.add_argument(
        "--data", required=True, metavar="BIN", help="folder made by fairseq-preprocess"
    )
    command.add_argument("--subset", default=subset, help="default: %(default)s")
    command.add_argument(
        "--sentences",
        type=int,
        default=sentences,
        help="of the subset, at most (default: %(default)s)",
    )
    command.add_argument(
        "--max-tokens", type=int, default=4000, help="in a batch (default: %(default)s)"
    )
    command.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
