"""The command `pet-fairseq report`."""

import logging
from pathlib import Path


def add_commands(commands) -> None:
    command = commands.add_parser("report", help="compare the finished runs in a folder")
    command.add_argument("runs", type=Path, metavar="RUNS", help="folder with one folder per run")
    command.add_argument(
        "--reference", type=Path, required=True, help="raw target text of the test set"
    )
    command.add_argument(
        "--teacher", default="teacher", metavar="RUN", help="the 100%% run (default: %(default)s)"
    )
    command.add_argument(
        "--baseline",
        metavar="RUN",
        help="the run to compare BLEU to (default: the teacher)",
    )
    command.add_argument(
        "--significance", action="store_true", help="paired bootstrap test against the baseline"
    )
    command.set_defaults(run=_report)


def _report(args, rest) -> int:
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns on everything
    from pet_fairseq.report.write import write_report

    print(write_report(args.runs, args.reference, args.teacher, args.baseline, args.significance))
    return 0
