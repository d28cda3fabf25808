"""The commands that turn files of texts into answers, or into words."""

from argparse import ArgumentParser, Namespace

from pet_fairseq.cli_command import Command, Group, add_batch_option
from pet_fairseq.errors import UserError
from pet_fairseq.predict.lines import FORMATS
from pet_fairseq.predict.options import add_long_texts_option, add_model_options, positive


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


def _predict_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path",
        metavar="MODEL",
        help="a folder of pet-fairseq import-hf, a checkpoint, or plugin files A.pt:B.pt for one "
        "backbone",
    )
    _add_input(parser, "texts, one a line; a tab separates the sentences of a pair")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help='jsonl: each line is a string or {"text": "...", "pair": "..."} in JSON (default: '
        "jsonl for files of that name, else text)",
    )
    parser.add_argument(
        "--ratio",
        type=positive,
        metavar="K",
        help="the compression ratio of a model with plugins (default: the first file's)",
    )
    add_batch_option(parser, max_tokens=4096)
    add_long_texts_option(
        parser,
        ("cut", "skip", "refuse"),
        "cut them as training did and say so in the answer, skip them and say so, or end at the "
        "first",
    )
    _add_strict_option(parser, "is empty, not UTF-8, not readable or too long to be cut")
    add_model_options(parser)
    parser.set_defaults(command="predict", path_option="MODEL")


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
            "--bpe: missing; give a way to divide the text, such as --bpe tokenizer_json "
            "--tokenizer-file FILE"
        )
    encode(args, args.rest)


COMMANDS = (
    Command(
        name="predict",
        group=Group.DEPLOYMENT,
        help="print the classes of texts, with probabilities, or their translations",
        description="Print the classes of texts with their probabilities, or translations, as JSON "
        "lines.",
        usage="pet-fairseq predict MODEL --input FILE|- [OPTIONS]",
        epilog="Also give --tokenizer and --bpe with their options, as for fairseq-interactive; "
        "without these, a tokenizer.json, bpe.codes or spm.model beside the data or the model is "
        "used.",
        add_arguments=_predict_arguments,
        run=_predict,
        keeps_rest=True,
    ),
    Command(
        name="encode",
        group=Group.SETUP,
        help="divide text into the words of a dictionary, for fairseq-preprocess",
        epilog="Also give --tokenizer or --bpe with their options, as for fairseq-interactive.",
        add_arguments=_encode_arguments,
        run=_encode,
        keeps_rest=True,
    ),
)
