"""The commands that compare exported models on a text: parse, call, print."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group, add_subset_option
from pet_fairseq.errors import UserError
from pet_fairseq.predict.batches import MAX_LENGTH
from pet_fairseq.predict.speed.translate import BEAM, ROUNDS


def add_text_options(group) -> None:
    group.add_argument(
        "--remove-bpe",
        metavar="KIND",
        help="as for fairseq-generate: subword_nmt, sentencepiece, or none (default: what the "
        "dictionary's words show)",
    )
    group.add_argument(
        "--tokenizer",
        metavar="NAME",
        help="as for fairseq-generate: moses, space, or none (default: the teacher's; moses where "
        "words end in @@)",
    )


def _add_style_options(parser: ArgumentParser) -> None:
    for option, side in (("--source-lang", "source"), ("--target-lang", "target")):
        help_text = f"the {side} language, as in the names of the data's files"
        parser.add_argument(option, required=True, metavar="LANG", help=help_text)
    add_text_options(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new folder")


def _test_text_options(parser: ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="BIN", help="folder made by fairseq-preprocess")
    add_subset_option(parser, default="test")
    _add_style_options(parser)


def _translate_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        action="append",
        required=True,
        nargs=2,
        metavar=("NAME", "FOLDER"),
        help="a name, and a folder from pet-fairseq export --to ctranslate2; may be given several "
        "times",
    )
    parser.add_argument(
        "--input",
        type=Path,
        required=True,
        metavar="FILE",
        help="a text with one sentence, as tokens, on each line",
    )
    parser.add_argument(
        "--beam", type=int, default=BEAM, help="the beam size of the search (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=ROUNDS,
        help="how often each model's translation of the text is timed (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=0,
        help="how many batches are translated at once (default: one for each core)",
    )
    parser.add_argument(
        "--long-texts",
        choices=("cut", "skip", "refuse"),
        default="cut",
        help="what to do with sentences of more than 1,023 tokens: cut them, leave their lines "
        "empty, or end at the first (default: %(default)s)",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="end at the first line that is not UTF-8; without this option broken bytes are "
        "replaced, and a line on standard error counts them at the end",
    )
    parser.add_argument(
        "--max-length",
        type=int,
        default=MAX_LENGTH,
        metavar="N",
        help="the longest translation in words, fewer than the model has target positions "
        "(default: %(default)s)",
    )
    _add_style_options(parser)


def _test_text(args: Namespace) -> None:
    from pet_fairseq.predict.speed.detokenise import write_set

    write_set(args.data, args.subset, _style(args), args.out)
    print(f"wrote {args.out}")


def _translate(args: Namespace) -> None:
    from pet_fairseq.predict.bad_lines import report
    from pet_fairseq.predict.speed.translate import translate_exported

    options = (args.beam, args.rounds, args.out, args.threads, args.max_length)
    names = [name for name, _ in args.model]
    for name in names:
        if "/" in name or names.count(name) > 1:
            raise UserError(f"--model {name}: give each model a name of its own, without '/'")
    models = {name: Path(folder) for name, folder in args.model}
    speeds, bad_lines = translate_exported(
        models,
        args.input,
        _style(args),
        *options,
        long_texts=args.long_texts,
        strict=args.strict,
    )
    print(speeds)
    report(bad_lines, "translate-exported")


def _style(args: Namespace):
    from pet_fairseq.predict.speed.detokenise import TextStyle

    return TextStyle(args.source_lang, args.target_lang, args.remove_bpe, args.tokenizer)


COMMANDS = (
    Command(
        name="test-text",
        group=None,
        help="write a part of binary data as text",
        add_arguments=_test_text_options,
        run=_test_text,
    ),
    Command(
        name="translate-exported",
        group=Group.DEPLOYMENT,
        help="translate a text with models for CTranslate2 in turn, and time them",
        add_arguments=_translate_options,
        run=_translate,
    ),
)
