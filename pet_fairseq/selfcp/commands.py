"""SelfCP's commands of `pet-fairseq`: parse, call, print."""

import json
import sys
from argparse import ArgumentParser, Namespace, _ActionsContainer
from pathlib import Path
from typing import TYPE_CHECKING

from pet_fairseq.cli_command import (
    Command,
    Group,
    OneLineParser,
    add_batch_option,
    add_checkpoint,
    add_data_option,
    add_device_option,
    add_new_folder_option,
    add_scores_file_option,
    add_subset_option,
)
from pet_fairseq.errors import UserError
from pet_fairseq.files import check_out_file, write_figure
from pet_fairseq.selfcp.segments import SEGMENTS_FROM, check_strategy

if TYPE_CHECKING:
    from pet_fairseq.selfcp.template import Template

SPLITS = ("train", "valid", "test")


# --- prompts --------------------------------------------------------------------------------------


def _prompts_arguments(parser: ArgumentParser) -> None:
    _add_input_options(parser.add_argument_group("what to read"))
    add_new_folder_option(parser, "BIN")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="also plot how long prompts and responses are, as PNG",
    )
    _add_pieces_options(parser.add_argument_group("how to segment it"))
    _add_wording_options(parser.add_argument_group("what stands around a prompt"))
    _add_language_model_options(parser.add_argument_group("what the language model learns from"))


def _add_input_options(group: _ActionsContainer) -> None:
    for split in SPLITS:
        group.add_argument(
            f"--{split}",
            type=Path,
            metavar="FILE",
            help=f"the records of the subset {split} as JSON lines; may be gzipped (.gz)",
        )
    group.add_argument(
        "--text",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="more text for the language model, a paragraph a line; may be gzipped (.gz)",
    )
    group.add_argument(
        "--max-record-mb",
        type=float,
        default=64,
        metavar="MB",
        help="refuse a longer line without reading it into memory (default: %(default)s)",
    )


def _add_pieces_options(group: _ActionsContainer) -> None:
    group.add_argument(
        "--spm",
        type=Path,
        metavar="MODEL",
        help="a SentencePiece model, such as another BIN/spm.model; without it one is trained on "
        "--train and --text",
    )
    group.add_argument(
        "--tokenizer",
        type=Path,
        metavar="FILE",
        help="in place of a SentencePiece model, the tokenizer.json of a language model in the "
        "folder that pet-fairseq import-hf wrote, with its dict.txt beside it",
    )
    group.add_argument(
        "--vocab-size",
        type=int,
        metavar="N",
        help="the number of pieces if a SentencePiece model is trained (default: 8000, fewer for "
        "little text)",
    )


def _add_wording_options(group: _ActionsContainer) -> None:
    group.add_argument(
        "--cue",
        default="",
        metavar="TEXT",
        help="what the model reads between each prompt and its response, such as 'Answer: '; it is "
        "never compressed, and spaces at its end are tokenized with the response",
    )
    group.add_argument(
        "--before", default="", metavar="TEXT", help="what stands in front of each query"
    )
    group.add_argument(
        "--after",
        default="",
        metavar="TEXT",
        help="what stands behind each response and is learned with it",
    )
    group.add_argument(
        "--between",
        default=" ",
        metavar="TEXT",
        help="what stands between a query and its prompt (default: a space)",
    )
    group.add_argument(
        "--chat-template",
        type=Path,
        metavar="FILE",
        help="take --before, --cue and --after from a model's chat template: its "
        "tokenizer_config.json or chat_template.jinja",
    )


def _add_language_model_options(group: _ActionsContainer) -> None:
    group.add_argument(
        "--lm-tokens",
        type=int,
        default=512,
        metavar="N",
        help="the longest text for the language model, in tokens: longer records lose the front of "
        "their prompt there, other text is split (default: %(default)s)",
    )
    group.add_argument(
        "--no-lm-records",
        action="store_true",
        help="give the language model only --text, not the records",
    )


def _prompts(args: Namespace) -> None:
    splits = {split: getattr(args, split) for split in SPLITS if getattr(args, split) is not None}
    _check_prompts(args, splits)
    from pet_fairseq.selfcp.binarise import make_prompts
    from pet_fairseq.selfcp.vocabulary import VOCAB_SIZE

    summary = make_prompts(
        splits,
        args.text,
        args.out,
        args.spm,
        args.vocab_size or VOCAB_SIZE,
        args.lm_tokens,
        max_bytes=int(args.max_record_mb * 1e6),
        lm_records=not args.no_lm_records,
        template=_template(args),
        tokenizer=args.tokenizer,
    )
    print(summary)
    if args.plot is not None:
        from pet_fairseq.selfcp.length_plot import plot_lengths

        write_figure(args.plot, plot_lengths(args.out, splits))


def _template(args: Namespace) -> "Template":
    from pet_fairseq.selfcp.template import Template, read_chat_template
    from pet_fairseq.selfcp.vocabulary import words_beside

    if args.chat_template is not None:
        words = words_beside(args.tokenizer) if args.tokenizer is not None else ()
        return read_chat_template(args.chat_template, words)._replace(between=args.between)
    return Template(args.before, args.cue, args.after, args.between)


def _check_prompts(args: Namespace, splits: dict[str, Path]) -> None:
    """Check the options before anything is read.

    Raises:
        UserError: one that is missing, out of range or of no use.
    """
    files = [(f"--{split}", path) for split, path in splits.items()]
    files += [("--text", path) for path in args.text]
    models = {"--spm": args.spm, "--tokenizer": args.tokenizer}
    files += [(option, path) for option, path in models.items() if path is not None]
    for option, path in files:
        if not path.is_file():
            what = "is a folder; give a file" if path.is_dir() else "no such file"
            raise UserError(f"{option} {path}: {what}")
    if not splits and not args.text:
        raise UserError("--train: missing; give --train, --valid, --test or --text")
    given = [option for option, path in models.items() if path is not None]
    if not given and not args.train and not args.text:
        raise UserError("--spm: missing; give a model, or --train or --text to train one on")
    if len(given) > 1:
        raise UserError(f"--tokenizer {args.tokenizer}: of no use with --spm; give one of them")
    if given and args.vocab_size is not None:
        of_no_use = f"of no use with {given[0]}; give one of them"
        raise UserError(f"--vocab-size {args.vocab_size}: {of_no_use}")
    if args.chat_template is not None and (args.before or args.cue or args.after):
        raise UserError(
            f"--chat-template {args.chat_template}: has what --before, --cue and --after would "
            "say; give it or them"
        )
    for option, value in (("--vocab-size", args.vocab_size), ("--lm-tokens", args.lm_tokens)):
        if value is not None and value < 2:
            raise UserError(f"{option} {value}: give 2 or more")
    if args.plot is not None:
        _check_plot(args.plot, args.out, splits)
    if not args.max_record_mb * 1e6 >= 1:
        raise UserError(f"--max-record-mb {args.max_record_mb:g}: give more than 0")
    if args.max_record_mb * 1e6 >= sys.maxsize:
        raise UserError(
            f"--max-record-mb {args.max_record_mb:g}: no line is that long; give a smaller number"
        )


def _check_plot(plot: Path, out: Path, splits: dict[str, Path]) -> None:
    """Raise UserError for a plot of no records, or one in the place of BIN or of a file in it."""
    if not splits:
        raise UserError(f"--plot {plot}: has no records; give --train, --valid or --test")
    file, folder = plot.resolve(), out.resolve()
    if file == folder:
        raise UserError(f"--plot {plot}: is the folder of --out; give the name of a file")
    if file.parent != folder:
        check_out_file(plot, "--plot")
    elif file.suffix != ".png":  # all else in the folder has other endings
        raise UserError(f"--plot {plot}: give a name that ends in .png for a file in --out")


# --- models on records ----------------------------------------------------------------------------


def _add_model_options(parser: OneLineParser) -> None:
    add_checkpoint(parser, "a model of --arch selfcp", old="--path")
    add_data_option(parser, made_by="pet-fairseq prompts")
    add_subset_option(parser, "test")
    parser.add_argument(
        "--prompt-strategy",
        metavar="NAME",
        help="what becomes of a long prompt, in place of the checkpoint's strategy",
    )
    parser.add_argument(
        "--memory-ratio",
        type=float,
        metavar="X",
        help="tokens for each memory token, in place of the checkpoint's ratio",
    )
    parser.add_argument(
        "--window",
        type=int,
        metavar="N",
        help="the number of prompt tokens up to which a prompt is read as it is, in place of the "
        "checkpoint's window",
    )


def _add_control_option(parser: OneLineParser) -> None:
    parser.add_argument(
        "--segments-from",
        choices=SEGMENTS_FROM,
        help="whether memory is made of the prompt's own segments or of another one's, in place of "
        "the checkpoint's choice",
    )


def _add_scoring_options(parser: OneLineParser) -> None:
    parser.add_argument(
        "--sentences",
        type=int,
        default=sys.maxsize,
        metavar="N",
        help="how many records to read at most, from all over the subset (default: all)",
    )
    add_batch_option(parser, max_tokens=8000)
    add_device_option(parser)
    add_scores_file_option(parser)


def _model_options(args: Namespace) -> dict:
    """The options that the user gave in place of the checkpoint's.

    Raises:
        UserError: an unknown strategy.
    """
    if args.prompt_strategy is not None:
        check_strategy(args.prompt_strategy)
    names = ("prompt_strategy", "memory_ratio", "window", "segments_from")
    given = {name: getattr(args, name, None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _choose_arguments(parser: OneLineParser) -> None:
    _add_model_options(parser)
    _add_control_option(parser)
    parser.add_argument(
        "--candidates",
        nargs="+",
        required=True,
        metavar="TEXT",
        help="the responses to choose from",
    )
    _add_scoring_options(parser)


def _choose(args: Namespace) -> None:
    from pet_fairseq.selfcp.choose import choose

    names = ("data", "candidates", "subset", "sentences", "max_tokens", "device", "out")
    options = {name: getattr(args, name) for name in names}
    print(json.dumps(choose(args.checkpoint, **options, **_model_options(args))))


def _response_loss_arguments(parser: OneLineParser) -> None:
    _add_model_options(parser)
    _add_control_option(parser)
    _add_scoring_options(parser)


def _response_loss(args: Namespace) -> None:
    from pet_fairseq.selfcp.response_loss import response_losses

    names = ("data", "subset", "sentences", "max_tokens", "device", "out")
    options = {name: getattr(args, name) for name in names}
    result = response_losses(args.checkpoint, **options, **_model_options(args))
    shown = ("nll", "perplexity", "total", "read")
    print(json.dumps({name: result[name] for name in shown}))


def _compare_losses_arguments(parser: OneLineParser) -> None:
    parser.add_argument(
        "rows",
        nargs="+",
        metavar="NAME=FILE",
        help="a row and a file of response-loss; several files of one name are its seeds",
    )
    parser.add_argument(
        "--against", required=True, metavar="NAME", help="the row that the others are compared with"
    )


def _compare_losses(args: Namespace) -> None:
    from pet_fairseq.selfcp.response_loss import compare_losses

    print(compare_losses(args.rows, args.against), end="")


def _memory_map_arguments(parser: OneLineParser) -> None:
    _add_model_options(parser)
    parser.add_argument(
        "--index",
        type=int,
        default=0,
        metavar="N",
        help="the number of the record in the subset (default: %(default)s)",
    )
    add_device_option(parser)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the folder for memory_map.json and memory_map.png",
    )


def _memory_map(args: Namespace) -> None:
    from pet_fairseq.selfcp.memory_map import memory_map

    names = ("data", "subset", "index", "device", "out")
    options = {name: getattr(args, name) for name in names}
    segments = memory_map(args.checkpoint, **options, **_model_options(args))
    numbers = ", ".join(f"{len(s.words)} tokens in {len(s.cosines)}" for s in segments)
    print(f"wrote {args.out}/memory_map.json and .png; segments: {numbers}")


COMMANDS = (
    Command(
        name="prompts",
        group=Group.SELFCP,
        help="turn queries, prompts and responses into binary data for SelfCP",
        description="Turn JSON lines with the strings query, prompt and response into fairseq's "
        "binary format, and into text for the language model that is to answer.",
        add_arguments=_prompts_arguments,
        run=_prompts,
    ),
    Command(
        name="choose",
        group=Group.SELFCP,
        help="answer closed-ended questions with the response that a model expects most",
        add_arguments=_choose_arguments,
        run=_choose,
    ),
    Command(
        name="response-loss",
        group=Group.SELFCP,
        help="score how well a model predicts the responses, record by record",
        add_arguments=_response_loss_arguments,
        run=_response_loss,
    ),
    Command(
        name="compare-losses",
        group=Group.SELFCP,
        help="compare rows of response-loss, with 95% intervals of a paired bootstrap",
        add_arguments=_compare_losses_arguments,
        run=_compare_losses,
    ),
    Command(
        name="memory-map",
        group=Group.SELFCP,
        help="plot the cosines between memory tokens and the tokens they stand for",
        add_arguments=_memory_map_arguments,
        run=_memory_map,
    ),
)
