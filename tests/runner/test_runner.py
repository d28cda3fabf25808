"""The runner on small shell commands: what it skips, refuses, resumes and runs side by side."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.runner.lock import LOCK, read_workers
from pet_fairseq.runner.record import digest, make_record, read_record, record_path
from pet_fairseq.runner.run import resolve, run_stages, start_of_command
from pet_fairseq.runner.skipping import RunOptions
from pet_fairseq.runner.stage import PRODUCT, USER_DIR, Kind, Output, Stage
from tests.cli.processes import REPO
from tests.runner.shell_stages import (
    TRAIN,
    copy,
    fake_repair,
    run,
    shell,
    times_run,
    training,
)


def test_a_finished_stage_is_skipped(folder, capsys):
    run(folder, copy(folder))
    run(folder, copy(folder))
    assert times_run(folder) == 1 and (folder / "runs/copy").read_text() == "a\n"
    assert "copy: done before" in capsys.readouterr().out


def test_a_line_that_is_shown(folder, capsys):
    """When it is made, and not again."""
    stage = Stage(
        *("x", ("x",), ("sh", "-c", "echo 12 BLEU"), folder / "runs/x"),
        kind=Kind.STDOUT,
        shown=True,
    )
    run(folder, stage)
    assert "\n12 BLEU\n" in capsys.readouterr().out
    run(folder, stage)
    assert "12 BLEU" not in capsys.readouterr().out


def test_a_stale_product_is_refused_and_made_anew_on_request(folder):
    run(folder, copy(folder))
    (folder / "input").write_text("b\n")
    with pytest.raises(UserError, match=r"copy: was made otherwise \(.*input has changed"):
        run(folder, copy(folder))
    assert (folder / "runs/copy").read_text() == "a\n"
    run(folder, copy(folder), again=True)
    assert (folder / "runs/copy").read_text() == "b\n" and times_run(folder) == 2
    run(folder, copy(folder))
    assert times_run(folder) == 2


def test_another_command_is_refused_by_the_options_that_differ(folder):
    def stage(*options):
        script = "true >$0"
        command = ("sh", "-c", script, PRODUCT, *options)
        return Stage("x", ("x",), command, folder / "runs/x")

    run(folder, stage("--lr", "1", "--seed", "3", "--fast"))
    changes = r"\(--lr 2, before 1; --fast \(not given\), before \(given\)\)"
    with pytest.raises(UserError, match=changes):
        run(folder, stage("--seed", "3", "--lr", "2"))
    run(folder, stage("--seed", "3", "--fast", "--lr", "1"))  # the order says nothing


def test_a_renamed_option_makes_nothing_stale(folder):
    """A model that is an argument now, and an option of another name; other values still count."""
    script = f"echo x >>{folder}/count; touch $0"

    def stage(*options, **fields):
        return shell("x", script, folder / "runs/x", options=options, **fields)

    run(folder, stage("--path", "model", "--bits", "8", "--device", "cpu"))
    renamed = (("--path", ""), ("--bits", "--precision"))
    now = ("model", "--precision", "8", "--device", "cpu")
    run(folder, stage(*now, renamed=renamed))
    assert times_run(folder) == 1
    other = ("model", "--precision", "4", "--device", "cpu")
    with pytest.raises(UserError, match=r"was made otherwise \(--precision 4, before 8\)"):
        run(folder, stage(*other, renamed=renamed))
    with pytest.raises(UserError, match="was made otherwise"):
        run(folder, stage(*now))


def test_an_option_that_older_records_have_and_newer_ones_leave_out(folder):
    script = f"echo x >>{folder}/count; touch $0"
    run(folder, shell("x", script, folder / "runs/x", options=("--device", "cuda", "--beam", "5")))
    for device in ("cuda", "cpu"):
        words = ("--device", device, "--beam", "5")
        run(folder, shell("x", script, folder / "runs/x", options=words, free=("--device",)))
    assert times_run(folder) == 1
    with pytest.raises(UserError, match=r"made otherwise \(--device cpu, before cuda\)"):
        run(folder, shell("x", script, folder / "runs/x", options=words))


def test_an_input_made_anew_makes_what_follows_stale(folder):
    first = copy(folder)
    made = folder / "runs/copy"
    second = shell("next", f"cat {made} >$0", folder / "runs/next", made)
    run(folder, first, second)
    (folder / "input").write_text("b\n")
    run(folder, first, second, again=True)
    assert (folder / "runs/next").read_text() == "b\n"


def test_folders_may_be_moved(folder):
    product = folder / "runs/x/y"
    run(folder, shell("x", "true >$0", product))
    (folder / "runs").rename(folder / "moved")
    options = RunOptions(places={"RUNS": folder / "moved"})
    moved = shell("x", "true >$0", folder / "moved/x/y")
    run_stages([moved], folder / "moved", options)
    assert record_path(folder / "moved/x/y").exists()


def test_products_without_a_record(folder):
    (folder / "runs").mkdir()
    (folder / "runs/copy").write_text("by hand\n")
    with pytest.raises(UserError, match="copy: has no record of how it was made; give --adopt"):
        run(folder, copy(folder))
    run(folder, copy(folder), adopt=True)
    run(folder, copy(folder))
    assert times_run(folder) == 0 and (folder / "runs/copy").read_text() == "by hand\n"


def test_checkpoints_of_a_training_by_hand_are_kept(folder, monkeypatch):
    """Also where the best one, the product, is not among them."""
    fake_repair(monkeypatch)
    mine = folder / "runs/model/checkpoint7.pt"
    mine.parent.mkdir(parents=True)
    mine.write_text("by hand\n")
    for options in ({}, {"adopt": True}):
        with pytest.raises(UserError, match=r"model: has checkpoints without a record .*--again"):
            run(folder, training(folder, "true >$0"), **options)
        assert mine.read_text() == "by hand\n"
    run(folder, training(folder, "true >$0"), again=True)
    assert not mine.exists() and training(folder).product.exists()


def test_a_failed_stage_leaves_no_product(folder):
    stage = shell("x", "echo half >$0; echo oh dear >&2; exit 3", folder / "runs/x")
    with pytest.raises(UserError, match=r"x: sh failed with status 3: oh dear \(see .*\.x\.log\)"):
        run(folder, stage)
    assert not (folder / "runs/x").exists()
    run(folder, shell("x", "echo whole >$0", folder / "runs/x"))
    assert (folder / "runs/x").read_text() == "whole\n"


def test_what_is_printed_is_there_whole_or_not_at_all(folder):
    product = folder / "runs/out.txt"
    stage = shell("x", "echo out; echo err >&2; exit 1", product, kind=Kind.STDOUT)
    with pytest.raises(UserError, match=r"see .*\.part\.out\.txt"):
        run(folder, stage)
    assert not product.exists()
    run(folder, shell("x", "echo out; echo err >&2", product, kind=Kind.STDOUT))
    assert product.read_text() == "out\nerr\n"


def test_a_missing_input_or_product_is_named(folder):
    stage = shell("x", "true", folder / "runs/x", folder / "none")
    with pytest.raises(UserError, match="none: no such file or folder; x reads it"):
        run(folder, stage)
    with pytest.raises(UserError, match="x: ended without"):
        run(folder, shell("x", "true", folder / "runs/x"))


def test_an_interrupted_training_goes_on(folder, monkeypatch, capsys):
    fake_repair(monkeypatch)
    with pytest.raises(UserError, match="model: sh failed"):
        run(folder, training(folder))
    assert not read_record(training(folder).product).finished
    run(folder, training(folder))
    assert "model: goes on where it stopped" in capsys.readouterr().out
    assert read_record(training(folder).product).finished
    assert (folder / "runs/model/starts").read_text().split() == ["start", "start"]


@pytest.fixture
def trained(folder, monkeypatch):
    """A training that has ended."""
    fake_repair(monkeypatch)
    model = training(folder)
    with pytest.raises(UserError, match="model: sh failed"):
        run(folder, model)
    run(folder, model)
    return model


def test_a_best_checkpoint_that_is_gone_from_an_ended_training(trained, folder):
    """Hours of training are not repeated, nor the last checkpoint removed, without a word."""
    trained.product.unlink()
    with pytest.raises(UserError, match=r"checkpoint_best.pt: is gone from .*; put it back, or gi"):
        run(folder, trained)
    assert trained.checkpoints()
    trained.product.write_text("best\n")
    run(folder, trained)
    trained.product.unlink()
    with pytest.raises(UserError, match="model: sh failed"):  # from the beginning
        run(folder, trained, again=True)
    run(folder, trained)
    shutil.rmtree(trained.product.parent)
    with pytest.raises(UserError, match="model: sh failed"):
        run(folder, trained)  # nothing is left to lose


def test_a_best_checkpoint_that_is_gone_from_an_interrupted_training(folder, monkeypatch):
    """fairseq goes on, but finds no better one, whenever it is started."""
    fake_repair(monkeypatch)
    model = training(folder, TRAIN.replace("echo best >$0", ""))
    with pytest.raises(UserError, match="model: sh failed"):
        run(folder, model)
    with pytest.raises(UserError, match=r"model: ended without .*_best.pt, see .*; if it was remo"):
        run(folder, model)
    with pytest.raises(UserError, match="model: sh failed"):  # from the beginning
        run(folder, model, again=True)


def test_an_interrupted_training_with_other_options_does_not_go_on(folder, monkeypatch):
    fake_repair(monkeypatch)
    with pytest.raises(UserError):
        run(folder, training(folder, TRAIN, "--lr", "1"))
    with pytest.raises(UserError, match=r"was made otherwise \(--lr 2, before 1\)"):
        run(folder, training(folder, TRAIN, "--lr", "2"))
    with pytest.raises(UserError, match="model: sh failed"):  # from the beginning
        run(folder, training(folder, TRAIN, "--lr", "2"), again=True)
    run(folder, training(folder, TRAIN, "--lr", "2"))


def test_a_training_that_left_nothing_begins_again_with_other_options(folder, monkeypatch):
    fake_repair(monkeypatch)
    with pytest.raises(UserError, match="model: sh failed"):
        run(folder, training(folder, "exit 1", "--lr", "1"))
    assert read_record(training(folder).product) is not None
    with pytest.raises(UserError, match="model: sh failed"):  # not: was made otherwise
        run(folder, training(folder, "exit 1", "--lr", "2"))
    run(folder, training(folder, f"touch {folder}/runs/model/checkpoint_best.pt", "--lr", "3"))
    assert read_record(training(folder).product).finished


@pytest.mark.slow
def test_a_training_whose_only_checkpoint_is_damaged(folder):
    with pytest.raises(UserError, match="model: sh failed"):
        run(folder, training(folder))  # it leaves a checkpoint that is none
    last = folder / "runs/model/checkpoint_last.pt"
    with pytest.raises(UserError, match=rf"repair .*failed: .*{last}: damaged, and no other"):
        run(folder, training(folder))
    assert (folder / "runs/model/starts").read_text().split() == ["start"]


def log_times(folder, name):
    log = folder / "log"
    return f"echo {name} begins >>{log}; sleep 0.5; echo {name} ends >>{log}; true >$0"


def events(folder):
    return (folder / "log").read_text().splitlines()


@pytest.mark.slow
def test_jobs_run_side_by_side(folder):
    stages = [shell(name, log_times(folder, name), folder / f"runs/{name}") for name in "abc"]
    run(folder, *stages, jobs=3)
    assert {line.split()[1] for line in events(folder)[:3]} == {"begins"}
    (folder / "log").unlink()
    run(folder, *(shell(n, log_times(folder, n), folder / f"runs/2{n}") for n in "ab"))
    assert events(folder) == ["a begins", "a ends", "b begins", "b ends"]


@pytest.mark.slow
def test_what_is_timed_runs_alone(folder):
    stages = [shell(n, log_times(folder, n), folder / f"runs/{n}", alone=n in "bc") for n in "abcd"]
    run(folder, *stages, jobs=4)
    lines = events(folder)
    for name in "bc":
        begin = lines.index(f"{name} begins")
        assert lines[begin + 1] == f"{name} ends"


def test_a_stage_waits_for_its_inputs(folder):
    second = shell("b", f"cat {folder}/runs/a >$0", folder / "runs/b", folder / "runs/a")
    first = shell("a", "sleep 0.4; echo made >$0", folder / "runs/a")
    run(folder, second, first, jobs=2)
    assert (folder / "runs/b").read_text() == "made\n"


def test_a_summary_always_runs_and_comes_last(folder):
    def summary():
        return shell("s", f"cat {folder}/runs/a >{folder}/runs/s", folder / "runs/s", always=True)

    run(folder, summary(), shell("a", "echo 1 >$0", folder / "runs/a"), jobs=2)
    assert (folder / "runs/s").read_text() == "1\n"
    (folder / "runs/s").write_text("old")
    run(folder, summary(), shell("a", "echo 1 >$0", folder / "runs/a"))
    assert (folder / "runs/s").read_text() == "1\n"


def test_pet_fairseq_needs_no_installation(monkeypatch):
    monkeypatch.setattr("pet_fairseq.runner.run.shutil.which", lambda *_, **__: None)
    assert start_of_command("pet-fairseq") == [sys.executable, "-m", "pet_fairseq.cli"]
    with pytest.raises(UserError, match="fairseq-train: no such program"):
        start_of_command("fairseq-train")


RUNNER = """
import sys
from pathlib import Path
from pet_fairseq.runner.run import run_stages
from pet_fairseq.runner.skipping import RunOptions
from pet_fairseq.runner.stage import PRODUCT, Stage
folder = Path(sys.argv[1])
product = folder / "runs/x"
script = "echo half >$0; sleep 3; echo whole >>$0"
stage = Stage("x", ("x",), ("sh", "-c", script, PRODUCT), product)
run_stages([stage], folder / "runs", RunOptions())
"""


def start_runner(folder):
    command = [sys.executable, "-c", RUNNER, str(folder)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(REPO)})
    runs = folder / "runs"  # where both the run and its command have written who they are
    while not list(runs.glob(".part.x")) or len(read_workers(runs / LOCK)) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.slow
def test_a_killed_run_leaves_no_half_product_and_its_command_keeps_the_lock(folder):
    process = start_runner(folder)
    stage = shell("x", "echo whole >$0", folder / "runs/x")
    busy = r"is at work there; wait for it or end it \(process \d+ since .{19}: "
    with pytest.raises(UserError, match=rf"{busy}-c {folder}\)$".replace(r"\d+", str(process.pid))):
        run(folder, stage)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with pytest.raises(UserError, match=busy + r"\S*sh -c 'echo half"):  # its command's
        run(folder, stage)
    assert not (folder / "runs/x").exists()
    time.sleep(3.5)
    run(folder, stage)
    assert (folder / "runs/x").read_text() == "whole\n"


def test_a_terminated_run_ends_its_commands(folder):
    process = start_runner(folder)
    process.terminate()
    process.wait()
    run(folder, shell("x", "echo whole >$0", folder / "runs/x"))  # the lock is free


def test_a_file_in_the_place_of_the_folder_is_named(folder):
    (folder / "runs").write_text("")
    with pytest.raises(UserError, match="runs: is a file; give a folder"):
        run(folder, copy(folder))


def test_a_damaged_record_is_named(folder):
    run(folder, copy(folder))
    record_path(folder / "runs/copy").write_text("{")
    with pytest.raises(UserError, match=r"copy\.made\.json: is not a record of a recipe"):
        run(folder, copy(folder))


def test_the_digest_of_a_folder_sees_names_and_contents_but_no_logs(tmp_path):
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    (data / "sub/a").write_text("1")
    seen = {digest(data)}
    (data / "preprocess.log").write_text("x")
    (data / ".hidden").write_text("x")
    assert digest(data) in seen
    (data / "sub/a").write_text("22")
    seen.add(digest(data))
    (data / "sub/a").rename(data / "sub/b")
    seen.add(digest(data))
    assert len(seen) == 3


def test_the_output_of_another_command_becomes_words(folder, monkeypatch):
    fake = folder / "pet-fairseq"
    fake.write_text('#!/bin/sh\necho "--arch tiny --name $2"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "executable", "/no/python")  # its folder comes first
    product = folder / "runs/x"
    words = ("sh", "-c", 'echo "$@" >$0', PRODUCT, Output(("model-options", "m.pt")))
    stage = Stage("x", ("x",), words, product)
    run(folder, stage)
    assert product.read_text() == "--arch tiny --name m.pt\n"
    record = json.loads(record_path(product).read_text())
    assert record["command"][-1] == "$(pet-fairseq model-options m.pt)"


def test_the_commands_of_a_dry_run_can_be_pasted(folder):
    from pet_fairseq.runner.run import dry_run

    product = folder / "runs/a b/x"
    stages = [
        shell("x", "cat 'in put' >$0", product, texts=((folder / "runs/a b/title", "one\ntwo"),)),
        shell("y", "echo printed", folder / "runs/y", kind=Kind.STDOUT),
    ]
    (folder / "in put").write_text("text\n")
    subprocess.run(["sh", "-e", "-c", dry_run(stages, folder / "runs")], check=True, cwd=folder)
    assert product.read_text() == "text\n" and (folder / "runs/y").read_text() == "printed\n"
    assert (folder / "runs/a b/title").read_text() == "one\ntwo\n"


def test_words_that_another_command_quotes_for_a_shell_or_prints_as_they_are(folder, monkeypatch):
    fake = folder / "pet-fairseq"
    fake.write_text("""#!/bin/sh\necho "--symbol '||| |' /a b/c"\n""")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "executable", "/no/python")
    assert resolve(["sh", Output(("model-options", "m.pt"))])[1:] == [
        *("--symbol", "||| |", "/a", "b/c")
    ]
    assert resolve(["sh", USER_DIR])[1:] == ["--symbol '||| |' /a b/c"]


def test_an_unfinished_training_is_no_input(folder, monkeypatch):
    """Also where only the stages after it are to run."""
    fake_repair(monkeypatch)
    model = training(folder)
    after = shell("after", "true >$0", folder / "runs/after", model.product)
    with pytest.raises(UserError, match="model: sh failed"):
        run(folder, model)
    model.product.write_text("a checkpoint of the first epoch\n")
    with pytest.raises(
        UserError, match=r"checkpoint_best.pt: its training is not finished, and af"
    ):
        run(folder, after)
    assert not after.product.exists()
    run(folder, model, after)
    record_path(after.product).unlink()
    after.product.unlink()
    run(folder, after)
    assert after.product.exists()


def test_an_unfinished_training_of_another_recipe_is_no_input(folder, monkeypatch):
    """Neither by its own name nor by a link; a copy has no record, and is the user's own."""
    fake_repair(monkeypatch)
    model = training(folder)
    with pytest.raises(UserError, match="model: sh failed"):
        run(folder, model)
    model.product.write_text("a checkpoint of the first epoch\n")
    link, copied = folder / "link.pt", folder / "copied.pt"
    link.symlink_to(model.product)
    copied.write_text(model.product.read_text())

    def read(path):
        after = shell("after", f"cat {path} >$0", folder / "other" / path.stem, path)
        run_stages([after], folder / "other", RunOptions())
        return after.product.read_text()

    for path in (model.product, link):
        with pytest.raises(UserError, match=rf"{path}: its training is not finished, .* copy the"):
            read(path)
    assert read(copied) == "a checkpoint of the first epoch\n"
    run(folder, model)
    assert read(link) == "best\n"


def test_the_folder_may_not_lie_in_an_input(folder):
    (folder / "data").mkdir()
    stage = shell("x", "true >$0", folder / "data/runs/x", folder / "data")
    with pytest.raises(
        UserError, match=r"runs: lies in .*data, which x reads; give another folder"
    ):
        run_stages([stage], folder / "data/runs", RunOptions())
    assert not stage.product.exists()


def test_the_folder_may_not_lie_in_an_input_that_is_still_to_be_made(folder):
    data = shell("data", "mkdir $0", folder / "data")
    stage = shell("x", "true >$0", folder / "data/runs/x", data.product)
    with pytest.raises(UserError, match=r"runs: lies in .*data, which x reads"):
        run_stages([data, stage], folder / "data/runs", RunOptions())
    assert not data.product.exists()


def test_stages_that_wait_for_one_another_are_a_mistake(folder):
    a, b = folder / "runs/a", folder / "runs/b"
    with pytest.raises(ValueError, match="these stages wait for one another: a, b"):
        run(folder, shell("a", "true >$0", a, b), shell("b", "true >$0", b, a))


def test_a_command_in_a_command_that_fails_ends_in_one_line(folder):
    log = folder / "no.log"
    value = Output(("updates-for", str(log), "--hours", "1"))
    stage = shell("x", "true >$0", folder / "runs/x")
    stage = replace(stage, command=(*stage.command, "--max-update", value))
    with pytest.raises(UserError, match=r"pet-fairseq updates-for .*no\.log .*: failed: .*no\.log"):
        run(folder, stage)


def test_a_moved_folder_in_a_command_in_a_command_is_no_change(folder):
    def record(place):
        value = Output(("updates-for", f"{place}/timing.log", "--hours", "1"))
        stage = Stage("x", ("x",), ("fairseq-train", "--max-update", value), place / "x")
        return make_record(stage, {"RUNS": place}, finished=True)

    assert record(folder / "here") == record(folder / "there")
    assert "$(pet-fairseq updates-for RUNS/timing.log --hours 1)" in record(folder / "here").command
