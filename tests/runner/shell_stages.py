"""Stages that run small shell scripts, in place of real commands, in the folder of the fixture."""

from pathlib import Path

from pet_fairseq.runner.run import run_stages
from pet_fairseq.runner.skipping import RunOptions
from pet_fairseq.runner.stage import PRODUCT, Kind, Stage


def shell(name, script, product, *inputs, options=(), **fields):
    """A stage that runs a shell script; $0 is the product."""
    command = ("sh", "-c", script, PRODUCT, *options)
    return Stage(name, (name,), command, Path(product), tuple(map(Path, inputs)), **fields)


def run(folder, *stages, **options):
    run_stages(stages, folder / "runs", RunOptions(places={"RUNS": folder / "runs"}, **options))


def copy(folder, script="cat {0}/input >$0; echo x >>{0}/count"):
    return shell("copy", script.format(folder), folder / "runs/copy", folder / "input")


def times_run(folder):
    count = folder / "count"
    return len(count.read_text().split()) if count.exists() else 0


TRAIN = """
folder=$(dirname $0); echo start >>$folder/starts
[ -e $folder/checkpoint_last.pt ] || { echo 1 >$folder/checkpoint_last.pt; exit 1; }
echo best >$0
"""


def training(folder, script=TRAIN, *options):
    product = folder / "runs/model/checkpoint_best.pt"
    command = ("sh", "-c", script, PRODUCT, *options)
    return Stage("model", ("model",), command, product, (folder / "input",), Kind.TRAINING)


def fake_repair(monkeypatch):
    """The checkpoints here are no real ones."""
    monkeypatch.setattr("pet_fairseq.runner.run._repair", lambda stage: None)
