"""Runs the stages of a recipe, several at a time: skips finished ones, resumes trainings.

A product gets its name when it is complete: what a command prints or writes goes to a temporary
name first, and a training counts as finished when its record says so.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import write_text
from pet_fairseq.runner.lock import FolderLock, locked
from pet_fairseq.runner.processes import last_line
from pet_fairseq.runner.progress import Progress
from pet_fairseq.runner.record import Record, make_record, read_record, record_path, write_record
from pet_fairseq.runner.skipping import RunOptions, State, find_state
from pet_fairseq.runner.stage import Kind, Output, Stage, Word, is_within, shell_lines

PREPARE = (
    "; prepare the data by the recipe's prepare.sh in examples/, or say with --data where it is"
)
POLL_SECONDS = 0.2
# the line in which a command of this package, one of fairseq, or argparse refuses its input
REFUSAL = re.compile(r"(?:pet-fairseq )?\S+: error: (.*)")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # the last one of a closed terminal


def dry_run(stages: Sequence[Stage], folder: Path) -> str:
    """The commands of the stages, as lines for a shell; nothing is run or written.

    Raises:
        UserError: `folder` could not be used, as `run_stages` would say.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"folder {folder}: is a file; give a folder that can be written")
    _check_apart(stages, folder)
    return "\n".join(shell_lines(stages))


def run_stages(stages: Sequence[Stage], folder: Path, options: RunOptions) -> None:
    """Run the stages that are not finished; `folder` is locked meanwhile.

    Raises:
        UserError: an input is missing, unfinished or holds `folder`, a product was made by another
            command or from other inputs, a command failed, or the run was interrupted.
    """
    _check_apart(stages, folder)
    _check_inputs(stages, options)
    with locked(folder) as lock:
        _check_before(stages, options)
        _Run(stages, options, lock).run()


def _check_inputs(stages: Sequence[Stage], options: RunOptions) -> None:
    products = [stage.product for stage in stages]
    for stage in stages:
        for path in stage.inputs:
            if not any(is_within(path, product) for product in products):
                _check_input(stage, path, options.places.get("DATA"))


def _check_apart(stages: Sequence[Stage], folder: Path) -> None:
    """Check that no input holds the folder of the products, with each of which it would change.

    Raises:
        UserError: one does.
    """
    for stage in stages:
        for path in stage.inputs:
            if is_within(folder.resolve(), path.resolve()):
                raise UserError(
                    f"{folder}: lies in {path}, which {stage.name} reads; give another folder"
                )


def _check_input(stage: Stage, path: Path, data: Optional[Path]) -> None:
    """Check an input that none of the stages makes.

    Raises:
        UserError: it is missing, or a checkpoint of a training that is not finished.
    """
    if not path.exists():
        advice = PREPARE if data is not None and is_within(path, data) else ""
        raise UserError(f"{path}: no such file or folder; {stage.name} reads it{advice}")
    record = read_record(path.resolve())  # of a link: what is known of the file behind it
    if record is not None and not record.finished:
        raise UserError(
            f"{path}: its training is not finished, and {stage.name} reads it; finish it first "
            "(name it in --stages, if you give these), or copy the file to use it as it is"
        )


def _check_before(stages: Sequence[Stage], options: RunOptions) -> None:
    """Refuse products of other commands or inputs before anything runs."""
    unfinished: set[Path] = set()
    for stage in stages:
        waits = any(is_within(path, product) for path in stage.inputs for product in unfinished)
        if waits or find_state(stage, options) is not State.FINISHED:
            unfinished.add(stage.product)


@dataclass
class _Running:
    stage: Stage
    process: subprocess.Popen
    record: Record
    log: Path
    temporary: Optional[Path]


class _Run:
    """The loop over stages: starts what is ready, up to `jobs` at a time."""

    def __init__(self, stages: Sequence[Stage], options: RunOptions, lock: FolderLock):
        self.waiting = list(stages)
        self.options = options
        self.lock = lock
        self.running: list[_Running] = []
        self.failures: list[str] = []
        self.interrupted = False
        self.progress = Progress()

    def run(self) -> None:
        heard = list(SIGNALS)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # `nohup` asks for that
            heard.remove(signal.SIGHUP)
        before = {number: signal.signal(number, self._interrupt) for number in heard}
        try:
            while not self.interrupted and ((self.waiting and not self.failures) or self.running):
                started = self._start_ready()
                if not (started or self.running or self.failures or self.interrupted):
                    names = ", ".join(stage.name for stage in self.waiting)
                    raise ValueError(f"these stages wait for one another: {names}")
                self._finish_ended()
                self.progress.update()
                if self.waiting or self.running:
                    self.interrupted |= time.monotonic() > self.options.deadline
        finally:
            self._end_all()
            self.progress.close()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.interrupted:
            raise UserError("interrupted; give the same command again to go on")
        if self.failures:
            raise UserError("\n".join(self.failures))

    def _interrupt(self, number: int, frame: object) -> None:
        """Set a flag only: an exception right after a command's start would lose its process."""
        self.interrupted = True

    def _start_ready(self) -> bool:
        """Start or skip the stages that are ready; returns whether there were any."""
        ready = 0
        for stage in list(self.waiting):
            if self.failures or self.interrupted or not self._may_start(stage):
                continue
            ready += 1
            self.waiting.remove(stage)
            state = find_state(stage, self.options)
            if state is State.FINISHED:
                self.progress.print(f"== {stage.name}: done before ({stage.product})")
            else:
                self._start(stage, state)
        return ready > 0

    def _may_start(self, stage: Stage) -> bool:
        if len(self.running) >= self.options.jobs:
            return False
        if any(running.stage.alone for running in self.running) or (stage.alone and self.running):
            return False
        unfinished = [other for other in self.waiting if other is not stage]
        unfinished += [running.stage for running in self.running]
        if stage.always:
            return not unfinished
        return not any(
            is_within(path, other.product) for path in stage.inputs for other in unfinished
        )

    def _start(self, stage: Stage, state: State) -> None:
        if state is State.MISSING and not stage.always:
            remove_product(stage)
        stage.product.parent.mkdir(parents=True, exist_ok=True)
        for path, text in stage.texts:
            if path.parent.is_dir():
                write_text(path, text + "\n")
        record = make_record(stage, self.options.places, finished=False)
        temporary, log = None, stage.log
        if stage.kind is Kind.TRAINING:
            write_record(stage.product, record)
            _repair(stage)
        elif not stage.always:
            temporary = temporary_name(stage)
            _remove(temporary)
        if stage.kind is Kind.STDOUT and temporary is not None:
            log = temporary
        command = resolve(stage.words(temporary))
        self.progress.start(replace(stage, command=tuple(command)), state is State.BEGUN)
        environment = dict(self.options.environment)
        if stage.alone:  # it has all cores
            environment.pop("OMP_NUM_THREADS", None)
        with open(log, "ab" if stage.kind is Kind.TRAINING else "wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"PYTHONWARNINGS": "ignore", **os.environ, **environment},
                pass_fds=(self.lock.handle,),
                start_new_session=True,
            )
        self.lock.note(process.pid, command)
        self.progress.has_started(stage, process.pid)
        self.running.append(_Running(stage, process, record, log, temporary))

    def _finish_ended(self) -> None:
        time.sleep(POLL_SECONDS if self.running else 0)
        for running in list(self.running):
            if running.process.poll() is None:
                continue
            self.running.remove(running)
            if running.process.returncode == 0:
                self._finish(running)
            else:
                self.progress.drop(running.stage)
                self.failures.append(_describe_failure(running))

    def _finish(self, running: _Running) -> None:
        stage = running.stage
        temporary = running.temporary
        if temporary is not None and not temporary.exists():
            temporary = None  # the command wrote the product itself
        if temporary is None and not stage.product.exists():
            self.failures.append(_describe_lack(stage))
            return
        # a record without its product is made anew, a product without its record is refused: so
        # the record comes first
        if not stage.always:
            write_record(stage.product, Record(running.record.command, running.record.inputs, True))
        if temporary is not None:
            os.replace(temporary, stage.product)
        self.progress.stop(stage)
        if stage.shown:
            self.progress.print(stage.product.read_text(encoding="utf-8").rstrip())

    def _end_all(self) -> None:
        for running in self.running:
            os.killpg(running.process.pid, signal.SIGTERM)
        for running in self.running:
            try:
                running.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(running.process.pid, signal.SIGKILL)
                running.process.wait()


def _describe_lack(stage: Stage) -> str:
    """One line on a command that ended well, but without its product."""
    line = f"{stage.name}: ended without {stage.product}, see {stage.log}"
    if stage.kind is not Kind.TRAINING:
        return line
    # fairseq-train writes the best checkpoint only when it is better than all before
    return f"{line}; if it was removed, give --again to train anew"


def _describe_failure(running: _Running) -> str:
    """One line: the stage, why it failed by the last line of its log, and where the log is.

    The program and its status are named unless it refused its input in a line of its own.
    """
    last = last_line(running.log.read_text(encoding="utf-8", errors="replace")).strip()
    stage = running.stage
    refusal = REFUSAL.fullmatch(last)
    status = f"{stage.words()[0]} failed with status {running.process.returncode}"
    return f"{stage.name}: {refusal[1] if refusal else f'{status}: {last}'} (see {running.log})"


def resolve(words: Sequence[Word]) -> list[str]:
    """The words of a command, with the program's path and what other commands print put in.

    Raises:
        UserError: no such program, or one of the other commands failed.
    """
    program, *arguments = words
    resolved = start_of_command(str(program))
    for word in arguments:
        if isinstance(word, Output):
            resolved += _printed(word)
        else:
            resolved.append(word)
    return resolved


def _printed(output: Output) -> list[str]:
    """The words that another command of pet-fairseq prints.

    Raises:
        UserError: it failed.
    """
    text = _run_own(output.command)
    return [text.removesuffix("\n")] if output.is_one_word else shlex.split(text)


def _run_own(words: Sequence[str]) -> str:
    """Run another command of pet-fairseq; returns what it prints.

    Raises:
        UserError: it failed.
    """
    command = [*start_of_command("pet-fairseq"), *words]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise UserError(f"pet-fairseq {' '.join(words)}: failed: {last_line(result.stderr)}")
    return result.stdout


def start_of_command(program: str) -> list[str]:
    """The words that start a program; `pet-fairseq` need not be installed.

    Raises:
        UserError: there is no such program.
    """
    try:
        return [find_program(program)]
    except UserError:
        if program != "pet-fairseq":
            raise
        return [sys.executable, "-m", "pet_fairseq.cli"]


def find_program(name: str) -> str:
    """The path of a program in this Python's environment, else in the search path.

    Raises:
        UserError: there is none.
    """
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    path = shutil.which(name, path=os.pathsep.join(folders))
    if path is None:
        raise UserError(f"{name}: no such program; install it or put its folder into PATH")
    return path


def _repair(stage: Stage) -> None:
    """Replace a checkpoint_last.pt that a crash has damaged with the newest readable checkpoint.

    Raises:
        UserError: no checkpoint is readable.
    """
    if stage.checkpoints():
        print(_run_own(("repair", str(stage.product.parent))), end="")


def temporary_name(stage: Stage) -> Path:
    """Where a stage's product lies while it is made or removed."""
    return stage.product.with_name(f".part.{stage.product.name}")


def remove_product(stage: Stage) -> None:
    """Remove a stage's product, for a training all of its checkpoints, and at last the record.

    A kill in between leaves the record with a whole product or with none, never with a half folder
    or with a training that could go on without its best checkpoint.
    """
    for path in stage.checkpoints():
        if path != stage.product:
            path.unlink()
    temporary = temporary_name(stage)
    _remove(temporary)
    if os.path.lexists(stage.product):
        stage.product.rename(temporary)
    _remove(temporary)
    _remove(record_path(stage.product))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
