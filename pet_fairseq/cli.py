"""The command `pet-fairseq`: find the command, parse its arguments, run it."""

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Collection
from importlib import metadata
from itertools import chain
from typing import NoReturn, Optional

import pet_fairseq
from pet_fairseq import general_commands as general
from pet_fairseq.baselines import commands as baselines
from pet_fairseq.cli_command import Command, Group, OneLineParser
from pet_fairseq.compress import commands as compress
from pet_fairseq.demo import commands as demo
from pet_fairseq.errors import UserError, did_you_mean, message_of
from pet_fairseq.export import commands as export
from pet_fairseq.huggingface import commands as pretrained
from pet_fairseq.multilingual import commands as multilingual
from pet_fairseq.pet import commands as pet
from pet_fairseq.predict import commands as predict
from pet_fairseq.predict.speed import commands as speed
from pet_fairseq.quantisation import commands as quantisation
from pet_fairseq.recipes import commands as recipes
from pet_fairseq.results.report import commands as report
from pet_fairseq.results.score import commands as score
from pet_fairseq.selfcp import commands as selfcp
from pet_fairseq.selfcp.bank import commands as bank
from pet_fairseq.serve import commands as serve
from pet_fairseq.variator import commands as variator

ROOMS = (
    compress,
    predict,
    serve,
    export,
    quantisation,
    recipes,
    pet,
    variator,
    selfcp,
    bank,
    speed,
    score,
    report,
    general,
    baselines,
    pretrained,
    multilingual,
    demo,
)
COMMANDS = {command.name: command for command in chain(*(room.COMMANDS for room in ROOMS))}
# what people type who look for a command that has another name here
MEANT = {
    **dict.fromkeys(("distil", "distill"), "compress"),
    **dict.fromkeys(("quantise", "quantize"), "export --precision int8"),
    "evaluate": "score",
    "generate": "translate",
    "train": "compress, or fairseq-train --user-dir pet_fairseq",
    "convert": "export, or import-hf",
}
HELP = ("-h", "--help")
READER_GONE = 141  # as a shell says of a process that a closed pipe ended
INTERRUPTED = 130  # as it says of one that Ctrl-C ended


def main(argv: Optional[list[str]] = None) -> int:
    """Run one command line; the exit status is 1 after a mistake that the user can mend, and 130
    after Ctrl-C.

    If nobody reads its output any more, as behind `| head`, it ends without a word.

    Raises:
        SystemExit: after help, and with status 2 after an unknown command or a wrong option.
    """
    try:
        status = run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        drop_output()
        return READER_GONE


def run(words: list[str]) -> int:
    """Run the command that these words name; otherwise as `main`.

    Raises:
        BrokenPipeError: nobody reads the output.
    """
    command, args = parse(words)
    try:
        if command.needs_models:
            register_quietly()
        return command.run(args) or 0
    except BrokenPipeError:
        raise
    except (UserError, OSError) as error:
        print(f"pet-fairseq {command.name}: error: {message_of(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"pet-fairseq {command.name}: error: interrupted", file=sys.stderr)
        return INTERRUPTED


def drop_output() -> None:
    """Let what is still to be written to standard output go nowhere, also at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def register_quietly() -> None:
    """Register this package with fairseq, whose import turns on every logger; silence those.

    fairseq and this package log every file that they read, for trainings.
    """
    for library in ("fairseq", "pet_fairseq", "hydra", "matplotlib"):
        logging.getLogger(library).setLevel(logging.WARNING)
    pet_fairseq.register()


def parse(words: list[str]) -> tuple[Command, Namespace]:
    """A command and its arguments from the words of a command line; nothing is run.

    Raises:
        SystemExit: as `main`.
    """
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in COMMANDS:
            return COMMANDS[name], COMMANDS[name].parse(words[length:])
    _exit_without_command(words)


def _exit_without_command(words: list[str]) -> NoReturn:
    """Print the commands or the version if the words ask for them, else an error."""
    program = OneLineParser(prog="pet-fairseq")
    if not words:
        program.error("no command was given")
    if words[0] in HELP:
        print(overview(COMMANDS.values()), flush=True)
        sys.exit()
    if words[0] == "--version":
        print(f"pet-fairseq {metadata.version('pet-fairseq')}")
        sys.exit()
    family = [command for command in COMMANDS.values() if command.name.split()[0] == words[0]]
    if not family:
        program.error(f"{words[0]}: no such command{suggestion(words[0])}")
    if words[1:] and words[1] in HELP:
        print(overview(family), flush=True)
        sys.exit()
    choices = ", ".join(command.name.split()[1] for command in family)
    program.error(f"{' '.join(words[:2])}: no such command; give one of {choices}")


def suggestion(word: str) -> str:
    """What to add to the refusal of a command: the one that was meant, if that can be told."""
    if word in MEANT:
        return f", did you mean {MEANT[word]}?"
    return did_you_mean(word, COMMANDS)


def overview(commands: Collection[Command]) -> str:
    """What `pet-fairseq --help` prints: the commands in groups, with one line each."""
    width = max(len(command.name) for command in commands)
    lines = ["usage: pet-fairseq COMMAND ...", "", "Small and fast models with fairseq."]
    for group in Group:
        members = [command for command in commands if command.group is group]
        lines += ["", f"{group.value}:"] if members else []
        lines += [f"  {command.name:{width}}  {command.help}" for command in members]
    return "\n".join([*lines, "", "pet-fairseq COMMAND --help explains one command."])


if __name__ == "__main__":
    sys.exit(main())
