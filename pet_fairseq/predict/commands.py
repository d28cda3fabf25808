"""The commands that turn files of texts into answers, or into words."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group, OneLineParser, add_batch_option
from pet_fairseq.errors import UserError
from pet_fairseq.predict.lines import FORMATS, STDIN
from pet_fairseq.predict.shared_options import (
    MODEL,
    add_long_texts_option,
    add_model_options,
    add_sampling_options,
    finite,
    positive,
    rename_precisions,
)

TOKENISATION = (
    "Also give --tokenizer and --bpe with their options, as for fairseq-interactive; without "
    "these, a tokenizer.json, bpe.codes or spm.model beside the data or the model is used."
)


def _add_input(parser: ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--input", required=True, metavar="FILE|-", help=f"{what}; -: from standard input"
    )


def _add_strict_option(parser: ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--strict",
        action="store_true",
        help=f"end at the first line that {what}; without this option the run goes on, and at its "
        "end a line on standard error counts such lines",
    )


def _add_ratio_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--ratio",
        type=positive,
        metavar="K",
        help="the compression ratio of a model with plugins (default: the first file's)",
    )


def _predict_arguments(parser: OneLineParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=MODEL)
    _add_input(parser, "texts, one a line; a tab separates the sentences of a pair")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help='jsonl: each line is a string or {"text": "...", "pair": "..."} in JSON (default: '
        "jsonl for files of that name, else text)",
    )
    _add_ratio_option(parser)
    add_batch_option(parser, max_tokens=4096)
    add_long_texts_option(
        parser,
        ("cut", "skip", "refuse"),
        "cut them as training did and say so in the answer, skip them and say so, or end at the "
        "first",
    )
    _add_strict_option(parser, "is empty, not UTF-8, not readable or too long to be cut")
    add_model_options(parser)
    rename_precisions(parser)
    parser.set_defaults(command="predict")


def _predict(args: Namespace) -> None:
    from pet_fairseq.predict.run import predict

    predict(args, args.rest)


def _encode_arguments(parser: ArgumentParser) -> None:
    _add_input(parser, "texts, one a line")
    _add_strict_option(parser, "is not UTF-8")
    parser.set_defaults(command="encode")


def _encode(args: Namespace) -> None:
    from pet_fairseq.predict.run import encode

    if not args.rest:
        raise UserError(
            "--bpe: missing; give a way to segment the text, such as --bpe tokenizer_json "
            "--tokenizer-file FILE"
        )
    encode(args, args.rest)


def _add_translating_model(parser: ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help=f"{MODEL}; or a folder of pet-fairseq compress or export",
    )


def _translate_arguments(parser: OneLineParser) -> None:
    _add_translating_model(parser)
    parser.add_argument(
        "--input",
        default=STDIN,
        metavar="FILE|-",
        help="text, a sentence or a paragraph a line; -: from standard input (default)",
    )
    parser.add_argument(
        "--output",
        default=STDIN,
        metavar="FILE|-",
        help="the translations, a line for each line; a file is there when it is complete; -: to "
        "standard output (default)",
    )
    parser.add_argument(
        "--long-lines",
        choices=("split", "cut"),
        default="split",
        help="what to do with lines of more tokens than the model has positions: split them where "
        "sentences end, or cut them (default: %(default)s)",
    )
    _add_strict_option(parser, "is not UTF-8 or too long")
    _add_size_options(parser)
    _add_ratio_option(parser)
    add_model_options(parser)
    parser.set_defaults(command="translate", long_texts="cut")


def _add_size_options(parser: ArgumentParser) -> None:
    """Declare how much is translated at once."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--batch-size", type=int, metavar="N", help="the largest number of lines in a batch"
    )
    size.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="the largest number of tokens in a batch (default: 4096)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="how many threads compute (default: as many as torch chooses; with CTranslate2, one "
        "for each core)",
    )


def _translate(args: Namespace) -> None:
    from pet_fairseq.predict.translate import translate

    translate(args, args.rest)


def _share(word: str):
    from pet_fairseq.predict.corpus.shards import Share

    try:
        return Share.parse(word)
    except ValueError as error:
        raise ArgumentTypeError(f"{word}: give I/N, such as 1/4 for the first of four") from error


def _corpus_arguments(parser: OneLineParser) -> None:
    _add_translating_model(parser)
    parser.add_argument(
        "--text",
        required=True,
        nargs="+",
        metavar="FILE",
        help="text, a sentence a line, plain or compressed (.gz, .zst); the files are read one "
        "after the other",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the folder for the pairs; a run that was interrupted goes on there",
    )
    parser.add_argument(
        "--shard-lines",
        type=int,
        default=100_000,
        metavar="N",
        help="lines of the text in each shard (default: %(default)s)",
    )
    parser.add_argument(
        "--shard-of",
        type=_share,
        default="1/1",
        metavar="I/N",
        help="translate only the I-th of N equal shares of the shards, for several machines "
        "(default: %(default)s, all of them)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="translate in this many processes, on CUDA each with one of the GPUs (default: "
        "%(default)s)",
    )
    add_sampling_options(parser)
    parser.add_argument(
        "--seed", type=int, default=1, help="of what is drawn (default: %(default)s)"
    )
    parser.add_argument(
        "--max-ratio",
        type=finite,
        default=3.0,
        metavar="X",
        help="drop pairs of which one side has more than X times as many pieces as the other, "
        "unless both are short (default: %(default)s)",
    )
    _add_strict_option(parser, "would be dropped or is not UTF-8")
    _add_size_options(parser)
    _add_ratio_option(parser)
    add_model_options(parser)
    parser.set_defaults(command="translate-corpus", long_texts="cut")


def _translate_corpus(args: Namespace) -> None:
    from pet_fairseq.predict.corpus.run import translate_corpus

    translate_corpus(args, args.rest)


TRANSLATE = Command(
    name="translate",
    group=Group.MAIN,
    help="translate text, a line for each line, with any translation model",
    description="Translate text, a line for each line. An empty line stays empty.",
    usage="pet-fairseq translate CHECKPOINT [--input FILE] [--output FILE] [OPTIONS]",
    epilog=TOKENISATION,
    add_arguments=_translate_arguments,
    run=_translate,
    keeps_rest=True,
)

COMMANDS = (
    TRANSLATE,
    Command(
        name="translate-corpus",
        group=Group.SETUP,
        help="translate a large text into training pairs for a student",
        description="Translate a large text into training pairs for a student, in the pieces that "
        "fairseq-preprocess reads. Pairs that teach nothing are dropped.",
        usage="pet-fairseq translate-corpus CHECKPOINT --text FILE [FILE ...] --out FOLDER "
        "[OPTIONS]",
        epilog=TOKENISATION,
        add_arguments=_corpus_arguments,
        run=_translate_corpus,
        keeps_rest=True,
    ),
    Command(
        name="predict",
        group=Group.MAIN,
        help="print the classes of texts, with probabilities, or their translations",
        description="Print the classes of texts with their probabilities, or translations, as JSON "
        "lines.",
        usage="pet-fairseq predict CHECKPOINT --input FILE|- [OPTIONS]",
        epilog=TOKENISATION,
        add_arguments=_predict_arguments,
        run=_predict,
        keeps_rest=True,
    ),
    Command(
        name="encode",
        group=Group.SETUP,
        help="segment text into the words of a dictionary, for fairseq-preprocess",
        epilog="Also give --tokenizer or --bpe with their options, as for fairseq-interactive.",
        add_arguments=_encode_arguments,
        run=_encode,
        keeps_rest=True,
    ),
)
