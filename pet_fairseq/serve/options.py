"""The options of `pet-fairseq serve`."""

import argparse


def add_options(command: argparse.ArgumentParser) -> None:
    """Add all options but those of tokenizer and BPE, which text.py adds for the chosen ones."""
    model = command.add_argument_group("model")
    model.add_argument(
        "--path",
        required=True,
        metavar="A.pt[:B.pt]",
        help="checkpoint; more plugin files for the same backbone after colons",
    )
    model.add_argument(
        "--data", metavar="BIN", help="folder with the dictionaries (default: the checkpoint's)"
    )
    model.add_argument(
        "--backbone-path", metavar="FILE", help="the frozen model, if it is no longer where it was"
    )
    model.add_argument("--beam", type=positive, default=5, help="default: %(default)s")
    model.add_argument(
        "--lenpen", type=float, default=1.0, help="length penalty (default: %(default)s)"
    )
    model.add_argument("--device", default="cpu", choices=("cpu", "cuda"))

    server = command.add_argument_group("server")
    server.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    server.add_argument(
        "--port", type=port, default=8080, help="0: any free one (default: %(default)s)"
    )
    server.add_argument(
        "--ratio",
        type=ratio,
        default="auto",
        metavar="auto|K",
        help="auto: by the load; a number: always this one (default: %(default)s)",
    )
    server.add_argument(
        "--target-ms",
        type=positive_float,
        default=500.0,
        help="latency that nearly all requests are to keep (default: %(default)g)",
    )
    for name, default, what in (
        ("--max-queue", 256, "texts that may wait; more get status 503"),
        ("--max-batch-tokens", 2048, "tokens that run together, padding included"),
        ("--max-request-bytes", 65536, "larger requests get status 413"),
        ("--max-tokens-per-request", 1024, "longer requests get status 413"),
    ):
        server.add_argument(
            name, type=positive, default=default, metavar="N", help=f"{what} (default: %(default)s)"
        )


def positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{word}: give 1 or more")
    return number


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


def ratio(word: str) -> str | int:
    return word if word == "auto" else positive(word)
