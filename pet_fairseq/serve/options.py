"""The options of `pet-fairseq serve`."""

import argparse
from typing import Union

from pet_fairseq.cli_command import OneLineParser
from pet_fairseq.predict.shared_options import (
    MODEL,
    add_long_texts_option,
    add_model_options,
    positive,
    rename_precisions,
)


def add_options(command: OneLineParser) -> None:
    """Declare all options but those of the tokenizer and BPE, which depend on the chosen ones."""
    model = command.add_argument_group("model")
    model.add_argument("checkpoint", metavar="CHECKPOINT", help=MODEL)
    command.rename("--path", "CHECKPOINT")
    add_model_options(model)
    rename_precisions(command)
    add_long_texts_option(
        model,
        ("cut", "refuse"),
        "cut them as training did and say so in the answer, or refuse them",
    )
    command.set_defaults(command="serve")

    server = command.add_argument_group("server")
    _add_serving_options(server)
    _add_limits(server)


def _add_serving_options(server: argparse._ArgumentGroup) -> None:
    """Declare where the server listens, and how it answers."""
    server.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)"
    )
    server.add_argument(
        "--port",
        type=port,
        default=8080,
        help="the port to listen on, 0 for any free one (default: %(default)s)",
    )
    server.add_argument(
        "--ratio",
        type=ratio,
        default="auto",
        metavar="auto|K",
        help="the compression ratio: auto lets the load decide, a number holds at any load "
        "(default: %(default)s)",
    )
    server.add_argument(
        "--target-ms",
        type=positive_float,
        default=500.0,
        metavar="MS",
        help="the time from arrival to answer that nearly all requests are to keep (default: "
        "%(default)g)",
    )
    server.add_argument(
        "--batch-order",
        choices=("arrival", "length"),
        default="arrival",
        help="which texts run together: the oldest ones, or the oldest one and those nearest to it "
        "in length, which saves padding (default: %(default)s)",
    )


def _add_limits(server: argparse._ArgumentGroup) -> None:
    """Declare what is refused, and what ends a connection."""
    server.add_argument(
        "--max-text-seconds",
        type=positive_float,
        default=2.0,
        metavar="S",
        help="how long tokenising a request's texts may take; longer ones get status 413 "
        "(default: %(default)g)",
    )
    server.add_argument(
        "--max-batch-seconds",
        type=positive_float,
        metavar="S",
        help="how long a batch may take: then the model is loaded again and the batch's requests "
        "get status 504 (default: 10 times what a full batch took at the start, at least 60)",
    )
    server.add_argument(
        "--max-idle-seconds",
        type=positive_float,
        default=30.0,
        metavar="S",
        help="how long a connection stays open without the whole head of a request "
        "(default: %(default)g)",
    )
    for name, default, what in (
        ("--max-connections", 512, "how many connections may be open; more get status 503"),
        ("--max-queue", 256, "how many texts may wait; more get status 503"),
        ("--max-batch-tokens", 2048, "how many tokens run together, padding included"),
        ("--max-request-bytes", 65536, "the largest request; larger ones get status 413"),
        ("--max-tokens-per-request", 1024, "the longest request; longer ones get status 413"),
        ("--max-text-chars", 10000, "the longest text in characters; longer ones get status 413"),
        ("--max-word-chars", 1000, "the longest word between spaces; longer ones get status 413"),
    ):
        server.add_argument(
            name, type=positive, default=default, metavar="N", help=f"{what} (default: %(default)s)"
        )


def positive_float(word: str) -> float:
    number = float(word)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{word}: give a number above 0")
    return number


def port(word: str) -> int:
    number = int(word)
    if not 0 <= number < 65536:
        raise argparse.ArgumentTypeError(f"{word}: give 0 to 65535")
    return number


def ratio(word: str) -> Union[str, int]:
    return word if word == "auto" else positive(word)
