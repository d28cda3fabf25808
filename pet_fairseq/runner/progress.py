"""How far the running stages have come: a bar for each on a terminal, plain lines in a log."""

import re
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Optional

from tqdm import tqdm

from pet_fairseq.runner.resources import describe_needs, resident_bytes
from pet_fairseq.runner.stage import Kind, Stage

UPDATES = re.compile(rb"num_updates=([\d.e+]+)")  # from a million on 1.23457e+06
SPEED = re.compile(rb"\bups=([\d.]+)")
EPOCH = re.compile(rb"\bepoch (\d+)")
SECONDS_BETWEEN_LINES = 60
UPDATES_BEFORE_FORECAST = 100  # the first ones are slow


@dataclass
class Watched:
    """A running stage and the latest figures in its log.

    Attributes:
        group: the process group of its command.
        first: the updates that were done before; None until a resumed training says it.
        is_forecast: whether its end has been foretold.
    """

    stage: Stage
    started: float  # time.monotonic()
    read: int = 0  # bytes of the log
    updates: int = 0
    updates_per_second: float = 0.0
    epoch: int = 0
    bar: Optional[tqdm] = None
    group: Optional[int] = None
    first: Optional[int] = 0
    is_forecast: bool = False

    @property
    def total(self) -> Optional[int]:
        """Updates to do, if the command says so."""
        value = self.stage.option("--max-update")
        return int(value) if self.stage.kind is Kind.TRAINING and value else None

    def read_log(self) -> None:
        """Take the latest figures from what a training has added to its log."""
        if self.stage.kind is not Kind.TRAINING or not self.stage.log.is_file():
            return
        with open(self.stage.log, "rb") as log:
            log.seek(self.read)
            text = log.read()
        self.read += len(text)
        for pattern, name, number in (
            (UPDATES, "updates", lambda text: int(float(text))),
            (SPEED, "updates_per_second", float),
            (EPOCH, "epoch", int),
        ):
            values = pattern.findall(text)
            if values:
                setattr(self, name, number(values[-1]))
        if self.first is None and self.updates:
            self.first = self.updates

    def forecast(self) -> Optional[str]:
        """One line, once, when the speed is known: the end, the memory and the disk space."""
        if self.is_forecast or self.first is None or not self.total or not self.updates_per_second:
            return None
        if self.updates - self.first < UPDATES_BEFORE_FORECAST:
            return None
        self.is_forecast = True
        left = max(0, self.total - self.updates) / self.updates_per_second
        memory = None if self.group is None else resident_bytes(self.group)
        stage = self.stage
        needs = describe_needs(left, datetime.now(), memory, stage.growth, stage.disk)
        return f"{stage.name}: {needs}"

    def describe(self) -> str:
        """One line: updates done and to do, speed and time left, as far as they are known."""
        minutes = clock(time.monotonic() - self.started)
        if not self.updates:
            return f"{self.stage.name}: running for {minutes}"
        done = f"{self.updates:,}" + (f" of {self.total:,}" if self.total else "") + " updates"
        speed = self.updates_per_second
        left = ""
        if self.total and speed:
            left = f", {clock(max(0, self.total - self.updates) / speed)} left"
        return f"{self.stage.name}: {done}, epoch {self.epoch}, {speed:g} updates/s{left}"


def clock(seconds: float) -> str:
    """A time as hours, minutes and seconds: 1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Shows the running stages on a terminal or in a log."""

    def __init__(self) -> None:
        self.on_terminal = sys.stdout.isatty()
        self.watched: dict[str, Watched] = {}
        self.last_lines = time.monotonic()

    def start(self, stage: Stage, resumed: bool) -> None:
        watched = Watched(stage, time.monotonic(), first=None if resumed else 0)
        if stage.kind is Kind.TRAINING and stage.log.is_file():  # which it goes on in
            watched.read = stage.log.stat().st_size
        if self.on_terminal:
            form = "{bar:16} {desc}" if watched.total else "{desc}"
            watched.bar = tqdm(total=watched.total, bar_format=form, leave=False)
        self.watched[stage.name] = watched
        self.print(f"== {stage.name}" + (": goes on where it stopped" if resumed else ""))

    def has_started(self, stage: Stage, group: int) -> None:
        """Say in which process group a stage's command runs."""
        self.watched[stage.name].group = group

    def drop(self, stage: Stage) -> Watched:
        """Stop watching a stage, and return what was watched."""
        watched = self.watched.pop(stage.name)
        if watched.bar is not None:
            watched.bar.close()
        return watched

    def stop(self, stage: Stage) -> None:
        watched = self.drop(stage)
        self.print(f"== {stage.name}: done in {clock(time.monotonic() - watched.started)}")

    def close(self) -> None:
        for watched in self.watched.values():
            if watched.bar is not None:
                watched.bar.close()

    def update(self) -> None:
        """Read the logs and show their figures: on bars, or as a line a minute for each stage."""
        now = time.monotonic()
        for watched in self.watched.values():
            watched.read_log()
            forecast = watched.forecast()
            if forecast is not None:
                self.print(forecast)
            if watched.bar is not None:
                watched.bar.n = watched.updates
                watched.bar.set_description_str(watched.describe())
        if not self.on_terminal and now - self.last_lines >= SECONDS_BETWEEN_LINES:
            self.last_lines = now
            for watched in self.watched.values():
                self.print(watched.describe())

    def print(self, line: str) -> None:
        tqdm.write(line)
        sys.stdout.flush()
