"""The command `pet-fairseq compress`, and those that its stages run: parse, call, print."""

import argparse
import logging
from pathlib import Path

from pet_fairseq.compress.methods import (
    BEAM,
    DEFAULT_METHOD,
    DEFAULT_RATE,
    EPOCHS,
    FEWEST_UPDATES,
    METHODS,
    MOST_UPDATES,
    ROUNDS,
)
from pet_fairseq.recipes.commands import add_run_options, run_options
from pet_fairseq.recipes.device import Device, choose_device
from pet_fairseq.recipes.runner import dry_run, run_stages


def add_commands(commands) -> None:
    """Add them to argparse's sub-parsers."""
    for name, help_line, add_options, run in (
        (
            "compress",
            "make a small model of a trained one: train, export, compare",
            _compress_options,
            _compress,
        ),
        ("test-text", "write a set of binary data as text", _test_text_options, _test_text),
        (
            "translate-exported",
            "translate a text with models for CTranslate2, in turn, and time them",
            _translate_options,
            _translate,
        ),
        (
            "updates-for",
            "how many updates fit into a time, by the log of a short training",
            _updates_options,
            _updates,
        ),
        (
            "compress-report",
            "write the report in a folder that compress made",
            _report_options,
            _report,
        ),
    ):
        command = commands.add_parser(
            name, help=help_line, description=f"{help_line[0].upper()}{help_line[1:]}."
        )
        add_options(command)
        command.set_defaults(run=run)


def _compress_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "teacher", type=Path, metavar="TEACHER", help="checkpoint of a translation model"
    )
    command.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="BIN",
        help="what it was trained on, from fairseq-preprocess",
    )
    command.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="for all that is made"
    )
    size = command.add_argument_group("how small")
    size.add_argument(
        "--rate",
        type=float,
        metavar="PERCENT",
        help=f"of the teacher's layer parameters (default: {DEFAULT_RATE:g})",
    )
    size.add_argument(
        "--megabytes",
        type=float,
        metavar="MB",
        help="of the model exported to CTranslate2 in int8, embeddings included",
    )
    training = command.add_argument_group("how to train")
    training.add_argument(
        "--method",
        choices=METHODS,
        default=DEFAULT_METHOD,
        help="distil: word-level distillation into a plain Transformer; pet: layers share "
        "parameters, and the simplified task comes first; pet-patient: the same, and the student "
        "follows the teacher's layers too (default: %(default)s)",
    )
    training.add_argument(
        "--updates",
        type=int,
        metavar="N",
        help=f"default: {EPOCHS} epochs, but {FEWEST_UPDATES:,} to {MOST_UPDATES:,} updates; it "
        "ends sooner when the validation loss stops falling",
    )
    training.add_argument(
        "--hours", type=float, metavar="H", help="as many updates as fit into that time"
    )
    training.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    test = command.add_argument_group("what to compare on")
    test.add_argument(
        "--test",
        default="test",
        metavar="NAME",
        help="a set of the data, or another folder from fairseq-preprocess with a set `test` "
        "(default: %(default)s)",
    )
    test.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="raw target text (default: the target side of the data, detokenised)",
    )
    _add_text_options(test)
    add_run_options(command.add_argument_group("how to run it"))


def _add_text_options(group) -> None:
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


def _add_style_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--source-lang", required=True, metavar="LANG")
    command.add_argument("--target-lang", required=True, metavar="LANG")
    _add_text_options(command)
    command.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new folder")


def _test_text_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("data", type=Path, metavar="BIN", help="folder made by fairseq-preprocess")
    command.add_argument("--subset", default="test", help="default: %(default)s")
    _add_style_options(command)


def _translate_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--model",
        action="append",
        required=True,
        nargs=2,
        metavar=("NAME", "FOLDER"),
        help="a folder from pet-fairseq export --to ctranslate2, and a name for it; several times",
    )
    command.add_argument(
        "--input",
        type=Path,
        required=True,
        metavar="FILE",
        help="the tokens of a sentence on each line",
    )
    command.add_argument("--beam", type=int, default=BEAM, help="default: %(default)s")
    command.add_argument("--rounds", type=int, default=ROUNDS, help="default: %(default)s")
    command.add_argument(
        "--threads", type=int, default=0, help="batches at once (default: one for each core)"
    )
    _add_style_options(command)


def _updates_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("log", type=Path, metavar="LOG", help="what fairseq-train printed")
    command.add_argument("--hours", type=float, required=True)
    command.add_argument(
        "--share", type=float, default=1, help="of the time (default: %(default)s)"
    )


def _report_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("out", type=Path, metavar="FOLDER")
    command.add_argument("--teacher", type=Path, required=True, metavar="CHECKPOINT")
    command.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="raw target text (default: the target side of the data)",
    )
    command.add_argument(
        "--without-ctranslate2", metavar="REASON", help="the models were compared in fairseq"
    )


def _compress(args: argparse.Namespace, rest: list[str]) -> int:
    logging.getLogger("fairseq").setLevel(logging.WARNING)  # it tells what it reads
    from pet_fairseq.compress.plan import Request, build_job
    from pet_fairseq.compress.student import Size

    args.device = choose_device(args.device)
    job = build_job(
        Request(
            *(args.teacher, args.data, args.out, args.method),
            size=Size(args.rate, args.megabytes),
            device=Device(args.device),
            **{
                name: getattr(args, name)
                for name in (
                    "updates",
                    "hours",
                    "seed",
                    "test",
                    "reference",
                    "remove_bpe",
                    "tokenizer",
                )
            },
        )
    )
    if args.dry_run:
        print(dry_run(job.stages))
        return 0
    run_stages(job.stages, job.folder, run_options(args, job))
    report = args.out / "report.md"
    print(f"\n{report.read_text(encoding='utf-8').splitlines()[0]}\nread on in {report}")
    return 0


def _test_text(args: argparse.Namespace, rest: list[str]) -> int:
    from pet_fairseq.compress.text import write_set

    write_set(args.data, args.subset, _style(args), args.out)
    print(f"wrote {args.out}")
    return 0


def _translate(args: argparse.Namespace, rest: list[str]) -> int:
    from pet_fairseq.compress.translate import translate_exported

    options = (args.beam, args.rounds, args.threads, args.out)
    models = [(name, Path(folder)) for name, folder in args.model]
    print(translate_exported(models, args.input, _style(args), *options))
    return 0


def _style(args: argparse.Namespace):
    from pet_fairseq.compress.text import TextStyle

    return TextStyle(args.source_lang, args.target_lang, args.remove_bpe, args.tokenizer)


def _updates(args: argparse.Namespace, rest: list[str]) -> int:
    from pet_fairseq.compress.training import updates_for

    print(updates_for(args.log, args.hours, args.share))
    return 0


def _report(args: argparse.Namespace, rest: list[str]) -> int:
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns on everything
    from pet_fairseq.compress.report import write_report

    print(write_report(args.out, args.teacher, args.reference, args.without_ctranslate2, BEAM))
    return 0
