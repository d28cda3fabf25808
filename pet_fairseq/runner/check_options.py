"""Options for fairseq-train that a user gave: read before the first training begins."""

import io
import subprocess
from collections.abc import Iterable
from contextlib import redirect_stderr

from pet_fairseq.errors import UserError
from pet_fairseq.runner.call import Call
from pet_fairseq.runner.run import start_of_command
from pet_fairseq.runner.stage import USER_DIR, Kind, Stage


def check_training_options(given: str, stages: Iterable[Stage]) -> None:
    """Let fairseq-train's parser read the trainings' options.

    That happens in a process of its own, where this package is registered. A training that takes
    its model's options from a checkpoint is left out, since that need not be there yet.

    Args:
        given: the options by which the user may have given a wrong one, for the message.
    Raises:
        UserError: an option that a training does not know, or a value that it does not take.
    """
    trainings = [
        _options(stage)
        for stage in stages
        if stage.kind is Kind.TRAINING and stage.option("--arch") is not None
    ]
    words = Call(read_trainings, {"trainings": trainings}).words()
    command = [*start_of_command(words[0]), *words[1:]]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["no output"])[-1]
        raise UserError(f"{given}: {last.partition('error: ')[2] or last}")


def _options(stage: Stage) -> list[str]:
    """The words for fairseq-train's parser, without the package that is registered already."""
    words = stage.words()
    at = words.index("--user-dir")
    assert words[at + 1] == USER_DIR
    return [str(word) for word in (*words[at - 1 : at], *words[at + 2 :])]


def read_trainings(trainings: list[list[str]]) -> None:
    """Parse the options of each training.

    Raises:
        UserError: what fairseq-train says against one of them.
    """
    from fairseq import options

    for words in trainings:
        said = io.StringIO()
        try:
            with redirect_stderr(said):
                options.parse_args_and_arch(options.get_training_parser(), input_args=words)
        except SystemExit as error:
            raise UserError(said.getvalue().strip().splitlines()[-1]) from error
