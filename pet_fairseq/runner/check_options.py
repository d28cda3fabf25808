"""Options for fairseq-train that a user gave: read before the first training begins."""

import io
import json
import subprocess
from collections.abc import Iterable
from contextlib import redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory

from pet_fairseq.errors import UserError
from pet_fairseq.runner.call import Call
from pet_fairseq.runner.processes import last_line
from pet_fairseq.runner.run import start_of_command
from pet_fairseq.runner.stage import USER_DIR, Kind, Stage, Word

OWN = ("--save-dir", "--seed", "--finetune-from-model")  # what trainings that are alike differ in


def check_training_options(given: str, stages: Iterable[Stage]) -> None:
    """Let fairseq-train's parser read the trainings' options.

    That happens in a process of its own, where this package is registered. A training that takes
    its model's options from a checkpoint is left out, since that need not be there yet.

    Args:
        given: the options by which the user may have given a wrong one, for the message.
    Raises:
        UserError: an option that a training does not know, or a value that it does not take.
    """
    trainings = dict.fromkeys(
        _options(stage.words())
        for stage in stages
        if stage.kind is Kind.TRAINING and stage.option("--arch") is not None
    )
    with TemporaryDirectory(prefix="pet-fairseq-") as folder:
        file = Path(folder, "trainings.json")  # too long for a command line
        file.write_text(json.dumps([*trainings]), encoding="utf-8")
        words = Call(read_trainings, {"file": file}).words()
        command = [*start_of_command(words[0]), *words[1:]]
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        last = last_line(result.stderr)
        raise UserError(f"{given}: {last.partition('error: ')[2] or last}")


def _options(words: list[Word]) -> tuple[str, ...]:
    """The words for fairseq-train's parser, without OWN and the package, which is registered."""
    at = words.index("--user-dir")
    assert words[at + 1] == USER_DIR
    options = [words[at - 1], *words[at + 2 :]]
    for name in OWN:
        if name in options:
            del options[options.index(name) : options.index(name) + 2]
    return tuple(map(str, options))


def read_trainings(file: Path) -> None:
    """Parse the options of each training of a file.

    Raises:
        UserError: what fairseq-train says against one of them.
    """
    from fairseq import options

    for words in json.loads(file.read_text(encoding="utf-8")):
        said = io.StringIO()
        try:
            with redirect_stderr(said):
                options.parse_args_and_arch(options.get_training_parser(), input_args=words)
        except SystemExit as error:
            raise UserError(said.getvalue().strip().splitlines()[-1]) from error
