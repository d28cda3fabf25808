"""The command `pet-fairseq report`."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "runs", type=Path, metavar="RUNS", help="a folder that holds one folder for each run"
    )
    parser.add_argument(
        "--reference",
        type=Path,
        required=True,
        metavar="FILE",
        help="the raw target text of the test set; with --score wer, a line for each word: its "
        "right pronunciations, between tabs",
    )
    parser.add_argument(
        "--score",
        choices=("bleu", "wer"),
        default="bleu",
        help="what to score by: BLEU and chrF, or the error rates of words and their phones "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--teacher",
        default="teacher",
        metavar="RUN",
        help="the run whose size and speed are 100%% (default: %(default)s)",
    )
    parser.add_argument(
        "--baseline",
        metavar="RUN",
        help="the run with whose scores the others are compared (default: the teacher)",
    )
    parser.add_argument(
        "--significance",
        action="store_true",
        help="add a paired bootstrap test of each run against the baseline",
    )
    parser.add_argument(
        "--tokenised-bleu",
        action="store_true",
        help="add the BLEU of tokenised text, as older papers give it",
    )


def _run(args: Namespace) -> None:
    from pet_fairseq.results.report.write import write_report

    options = (args.teacher, args.baseline, args.significance, args.score, args.tokenised_bleu)
    print(write_report(args.runs, args.reference, *options))


COMMANDS = (
    Command(
        name="report",
        group=Group.REPORTS,
        help="compare the size, BLEU and speed of the finished runs in a folder",
        add_arguments=_arguments,
        run=_run,
    ),
)
