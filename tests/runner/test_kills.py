"""A runner that is killed between two of its writes: the next run goes on, and misreads nothing."""

import os
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.runner import run as runner
from pet_fairseq.runner.record import record_path
from tests.runner.shell_stages import TRAIN, copy, fake_repair, run, shell, times_run, training


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("function", ["os.replace", "pet_fairseq.runner.run.write_record"])
def test_a_run_that_is_killed_at_its_end_goes_on(function, folder, monkeypatch):
    """Whichever of product and record it was about to write."""

    def kill(*args):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(function, kill)
        with pytest.raises(KilledError):
            run(folder, copy(folder))
    run(folder, copy(folder))
    assert times_run(folder) == 2 and (folder / "runs/copy").read_text() == "a\n"


def test_a_removal_that_is_killed_leaves_no_product_without_a_record(folder, monkeypatch):
    run(folder, copy(folder))
    (folder / "input").write_text("b\n")
    remove = runner._remove

    def remove_all_but_the_record(path):
        if path == record_path(folder / "runs/copy"):
            raise KilledError
        remove(path)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "_remove", remove_all_but_the_record)
        with pytest.raises(KilledError):
            run(folder, copy(folder), again=True)
    assert not (folder / "runs/copy").exists() and record_path(folder / "runs/copy").exists()
    run(folder, copy(folder), again=True)
    assert (folder / "runs/copy").read_text() == "b\n"


def test_a_removal_that_is_killed_leaves_no_half_folder(folder, monkeypatch):
    """Its record still says finished, for whoever gives the options of before again."""
    product = folder / "runs/bin"

    def stage(*options):
        return shell("bin", "mkdir $0; touch $0/a $0/b", product, options=options)

    def remove_half(path):
        (path / "a").unlink()
        raise KilledError

    run(folder, stage("--lr", "1"))
    with monkeypatch.context() as patch:
        patch.setattr("pet_fairseq.runner.run.shutil.rmtree", remove_half)
        with pytest.raises(KilledError):
            run(folder, stage("--lr", "2"), again=True)
    run(folder, stage("--lr", "1"))
    assert sorted(os.listdir(product)) == ["a", "b"]
    assert not list((folder / "runs").glob(".part.*"))


def test_a_removal_that_is_killed_leaves_no_training_that_lacks_its_best_checkpoint(
    folder, monkeypatch
):
    """It would go on, but fairseq might find no better one, and then there is none."""
    fake_repair(monkeypatch)
    model = training(folder, TRAIN, "--lr", "1")
    with pytest.raises(UserError, match="model: sh failed"):
        run(folder, model)
    model.product.write_text("a checkpoint of the first epoch\n")
    unlink = Path.unlink

    def kill_at_the_last(path, **options):
        if path.name == "checkpoint_last.pt":
            raise KilledError
        unlink(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", kill_at_the_last)
        with pytest.raises(KilledError):
            run(folder, training(folder, TRAIN, "--lr", "2"), again=True)
    assert model.product.exists()


@pytest.mark.parametrize("handler, ends", [(signal.SIG_DFL, True), (signal.SIG_IGN, False)])
def test_a_closed_terminal_ends_the_commands_unless_nohup_is_asked(handler, ends, folder):
    product = folder / "runs/it"
    script = "kill -HUP $PPID; sleep 60; touch $0" if ends else "kill -HUP $PPID; touch $0"
    before = signal.signal(signal.SIGHUP, handler)  # the tests may run under `nohup` themselves
    try:
        with pytest.raises(UserError, match="interrupted; give") if ends else nullcontext():
            run(folder, shell("it", script, product))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert product.exists() == (not ends)
