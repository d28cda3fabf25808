"""Kills a training run at random moments; each time it must go on from its last save.

Usage: kill.py [--kills 50] [--interval 5] [--seed 1]

A tiny student trains without end and is saved every few updates. SIGKILL ends the processes after a
random time; `pet-fairseq repair` follows, as in the recipes, and the same command again. A kill
fails if training does not go on, or if it lost more updates than lie between two saves. Prints a
row for each kill and a summary; the exit status is 1 if one failed.
"""

import argparse
import random
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, Optional

from commands import Result, Running, must, prepare
from workspace import TRAIN, Workspace

from pet_fairseq.checkpoints.repair import is_intact
from pet_fairseq.checkpoints.safe_loading import load_checkpoint

UPDATE = re.compile(r"num_updates[= ](\d+)")
LOADED = re.compile(r"Loaded checkpoint .*checkpoint_last\.pt \(epoch \d+ @ (\d+) updates\)")
PATIENCE = 300  # seconds in which training has to make an update


class Kill(NamedTuple):
    """The state of training when it was killed, in updates."""

    began: int
    done: int
    saved: int
    damaged: bool  # checkpoint_last.pt could not be read or was missing
    left: list[str]  # files of a save that was not finished

    @property
    def lost(self) -> int:
        return self.done - self.saved


def main() -> int:
    args = parse_arguments()
    prepare()
    draw = random.Random(args.seed)
    kills, failures = [], 0
    print("kill  began  done  saved  lost  checkpoint_last.pt", flush=True)
    with tempfile.TemporaryDirectory(prefix="kill_") as folder:
        workspace = Workspace(Path(folder))
        command = training(workspace, args.interval)
        for number in range(1, args.kills + 1):
            kill = train_and_kill(command, workspace, draw)
            before = kills[-1].saved if kills else 0
            problem = wrong(kill, before, args.interval)
            failures += problem is not None
            kills.append(kill)
            print(row(number, kill, problem), flush=True)
    print(summary(kills, failures))
    return int(failures > 0)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--interval", type=int, default=5, help="updates between two saves")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def training(workspace: Workspace, interval: int) -> tuple:
    """A command that trains until it is killed."""
    return (
        *("fairseq-train", workspace.data, "--save-dir", workspace.folder / "run", *TRAIN),
        *("--arch", "pet_transformer_tiny", "--criterion", "pet_distillation"),
        *("--teacher-path", workspace.teacher, "--disable-validation", "--max-update", "1000000"),
        *("--save-interval-updates", interval, "--keep-interval-updates", "2"),
        *("--save-interval", "1000000"),
    )


def train_and_kill(command: tuple, workspace: Workspace, draw: random.Random) -> Kill:
    """Start the training, kill it at some moment after its first update, and repair its folder."""
    run_folder, log = workspace.folder / "run", workspace.folder / "training.log"
    running = Running(command, log)
    seconds = wait_for_update(running)
    time.sleep(draw.uniform(0, 0.3 * seconds))
    result = running.kill()
    last = run_folder / "checkpoint_last.pt"
    damaged = not (last.exists() and is_intact(last))
    left = sorted(path.name for path in run_folder.glob("*.tmp"))
    must(("pet-fairseq", "repair", run_folder), workspace.log)
    return Kill(began(result), last_update(result.output), updates_in(last), damaged, left)


def wait_for_update(running: Running) -> float:
    """Wait until the training has made an update; returns the seconds that it took.

    Raises:
        SystemExit: it made none, with what it printed.
    """
    start = time.monotonic()
    while time.monotonic() - start < PATIENCE:
        if running.log.exists() and UPDATE.search(running.log.read_text(errors="replace")):
            return time.monotonic() - start
        time.sleep(0.02)
    sys.exit(f"the training makes no update:\n{running.kill().output[-3000:]}")


def began(result: Result) -> int:
    match = LOADED.search(result.output)
    return int(match[1]) if match else 0


def last_update(output: str) -> int:
    return max(map(int, UPDATE.findall(output)))


def updates_in(checkpoint: Path) -> int:
    """How many updates a checkpoint is from; 0 if there is none."""
    if not checkpoint.exists():
        return 0
    state = load_checkpoint(str(checkpoint), "checkpoint")
    return state["optimizer_history"][-1]["num_updates"]


def wrong(kill: Kill, before: int, interval: int) -> Optional[str]:
    if kill.began != before:
        return f"went on from {kill.began} updates, not from {before}"
    if kill.saved < before:
        return f"has {kill.saved} updates, fewer than {before} before it"
    if kill.lost > interval:
        return f"lost {kill.lost} updates"
    return None


def row(number: int, kill: Kill, problem: Optional[str]) -> str:
    state = "damaged, repaired" if kill.damaged and kill.saved else "intact"
    state = "none yet" if kill.damaged and not kill.saved else state
    text = f"{number:4} {kill.began:6} {kill.done:5} {kill.saved:6} {kill.lost:5}  {state}"
    text += f"; left: {', '.join(kill.left)}" if kill.left else ""
    return text + (f"  FAILED: {problem}" if problem else "")


def summary(kills: list[Kill], failures: int) -> str:
    lost = [kill.lost for kill in kills]
    damaged = sum(kill.damaged and kill.saved > 0 for kill in kills)
    during = sum((kill.damaged and kill.saved > 0) or bool(kill.left) for kill in kills)
    return (
        f"{len(kills)} kills, {during} of them while saving ({damaged} left a damaged "
        f"checkpoint_last.pt); lost at most {max(lost)} updates, {sum(lost) / len(lost):.1f} on "
        f"average; {failures} failed"
    )


if __name__ == "__main__":
    sys.exit(main())
