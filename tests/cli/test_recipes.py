"""`pet-fairseq recipe` as a user types it: dry runs, wrong inputs, a small recipe to its report."""

import json
import shlex
import shutil

import pytest

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.recipes.translation import stages as translation
from pet_fairseq.recipes.translation.setup import Setup
from pet_fairseq.recipes.translation.sizes import read_sizes
from pet_fairseq.runner.device import Device
from pet_fairseq.runner.run import run_stages
from pet_fairseq.runner.skipping import RunOptions
from tests.cli.processes import REPO, in_process, refusal, run
from tests.cli.shell import sh


def recipe(*args, **options):
    return run("pet-fairseq", "recipe", *args, **options)


def commands(output):
    """The commands of a dry run without comments."""
    whole = output.replace("\\\n", "")  # lines that go on
    lines = [line for line in whole.splitlines() if not line.startswith("#")]
    return [shlex.split(line) for line in lines]


def test_a_dry_run_prints_commands_and_writes_nothing(tmp_path):
    """From another folder, as after an installation."""
    options = ("--rows", "pet", "kd", "--seeds", "1", "2", "--size", "small", "--jobs", "2")
    out = recipe("multi30k", *options, "--device", "cpu", "--dry-run", cwd=tmp_path).output
    trains = [line for line in commands(out) if line[0] == "fairseq-train"]
    assert len(trains) == 1 + 2 * (1 + 2)
    assert all(line[1] == "runs/multi30k/data/bin" for line in trains)
    assert "--user-dir $(pet-fairseq user-dir)" in out
    only = ("--stages", "kd", "report")
    out = recipe("multi30k", *options, "--device", "cpu", *only, "--dry-run", cwd=tmp_path).output
    assert [line[0] for line in commands(out)].count("fairseq-train") == 2
    assert "fairseq-generate" not in out and commands(out)[-1][:2] == ["pet-fairseq", "report"]
    assert list(tmp_path.iterdir()) == []


def test_rows_without_a_teacher_are_compared_with_the_first(tmp_path):
    report = ("--stages", "report", "--device", "cpu", "--dry-run")
    for rows, compared in ((("can", "scratch"), ["--teacher", "scratch"]), (("scratch", "kd"), [])):
        out = recipe("multi30k", "--rows", *rows, *report, cwd=tmp_path).output
        words = commands(out)[-1]
        assert words[:2] == ["pet-fairseq", "report"]
        assert [word for word in words if word in ("--teacher", "scratch")] == compared


def test_folders_of_examples_are_names_of_recipes():
    for name in ("multi30k", "glue", "cicero"):
        result = recipe(REPO / "examples" / name, "--help")
        assert f"usage: pet-fairseq recipe {name}" in result.output and "--rows" in result.output
    for script, extra in (("multi30k/run.sh", ()), ("glue/run.sh", ("--task", "rte"))):
        out = sh(f"examples/{script}", *extra, "--dry-run", "--device", "cpu").stdout
        assert f" {REPO}/runs/{script.split('/')[0]}/" in out.replace("examples/../", "")
    out = sh("examples/multi30k/variator.sh", "--dry-run", "--device", "cpu").stdout
    assert f"{REPO}/runs/multi30k/variator/k4" in out


@pytest.mark.parametrize(
    "args, message",
    [
        (("multi31k",), "multi31k: there is no such recipe; give one of demo, multi30k"),
        (("multi30k", "--rows", "cat"), "--rows cat: there is no such row; give some of teacher"),
        (("multi30k", "--stages", "cat"), "--stages cat: there is no such stage; give some of"),
        (("multi30k", "--jobs", "0"), "--jobs 0: give 1 or more"),
        (
            ("multi30k",),
            "runs/multi30k/data/bin: no such file or folder; teacher reads it; prepare the data by",
        ),
        (("multi30k", "--size", "huge"), "argument --size: invalid choice: 'huge'"),
        (("glue",), "the following arguments are required: --task"),
        (("own_data",), "--source-lang, --target-lang: give the languages of your data"),
        (("squad", "--backbone", "no.pt"), "no such file or folder"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_input(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refusal("recipe", *args, "--device", "cpu")
    assert not list(tmp_path.rglob("*.pt"))


def test_a_gpu_that_is_not_there(tmp_path):
    result = recipe("multi30k", "--device", "cuda", check=False, cwd=tmp_path)
    assert result.status == 1
    assert "--device cuda: torch finds no GPU here; give --device cpu" in result.output
    assert "--cpu" not in recipe("multi30k", "--device", "cuda", "--dry-run", cwd=tmp_path).output


def test_without_a_name_the_recipes_are_listed():
    result = in_process("recipe")
    assert result.status == 2 and "movie_reviews" in result.output
    assert in_process("recipe", "--help").output == result.output


@pytest.mark.slow
def test_a_recipe_from_the_teacher_to_the_report(data, raw, tmp_path, capsys):
    folder, runs = tmp_path / "data", tmp_path / "runs"
    folder.mkdir()
    shutil.copytree(data, folder / "bin")
    shutil.copytree(raw, folder / "raw")
    reference = folder / "raw/test.en"
    setup = Setup(
        folder, runs, "de", "en", reference, read_sizes()["tiny"], Device("cpu"), ensemble=2
    )
    rows = ["teacher", "ensemble", "scratch_seqkd", "pet_sampled"]
    stages = translation.build_stages(setup, rows, [1], [2], 1)
    stages.append(translation.report_stage(setup, rows, [1], ()))
    options = RunOptions(jobs=2, places={"RUNS": runs}, environment={"OMP_NUM_THREADS": "1"})
    run_stages(stages, runs, options)
    report = json.loads((runs / "report.json").read_text())
    names = [row["name"] for row in report]
    assert sorted(names) == sorted(rows) and names[0] == "teacher"
    assert all(set(row["bleu"]) == {"2"} for row in report)
    validations = {row["name"]: row["runs"][0] for row in report}
    assert validations.pop("ensemble")["validation_nll_bits"] is None
    assert all(run["validation_nll_bits"] > 0 for run in validations.values())
    assert validations["pet_sampled"]["validation_kl_bits"] > 0  # trained with a teacher
    assert validations["teacher"]["validation_kl_bits"] is None
    check_teacher_text(runs / "teacher_text", raw)
    capsys.readouterr()
    run_stages(stages, runs, options)
    again = capsys.readouterr().out
    assert again.count("done before") == len(stages) - 1 and "== report: done in" in again
    (folder / "bin/dict.de.txt").open("a").write("new 1\n")
    with pytest.raises(ValueError, match=r"was made otherwise .*bin has changed"):
        run_stages(stages, runs, options)


@pytest.mark.slow
def test_the_best_by_bleu_and_a_start_from_layers(data, raw, tmp_path):
    """The checkpoints that fairseq's --eval-bleu writes teach, give layers and translate."""
    folder, runs = tmp_path / "data", tmp_path / "runs"
    folder.mkdir()
    shutil.copytree(data, folder / "bin")
    setup = Setup(
        *(folder, runs, "de", "en", raw / "test.en", read_sizes()["tiny"], Device("cpu")),
        text=("--remove-bpe", "--tokenizer", "moses"),
        select="bleu",
    )
    rows = ["teacher", "pkd_layers"]
    stages = translation.build_stages(setup, rows, [1], [2], 1)
    stages.append(translation.report_stage(setup, rows, [1], ("--tokenised-bleu",)))
    run_stages(stages, runs, RunOptions(environment={"OMP_NUM_THREADS": "1"}))
    for row in ("teacher", "narrow_kd.seed1", "pkd_layers.seed1"):
        state = load_checkpoint(str(runs / row / "checkpoint_best.pt"), row)
        assert state["cfg"].checkpoint.best_checkpoint_metric == "bleu", row
        assert state["cfg"].task.eval_bleu
    report = {row["name"]: row for row in json.loads((runs / "report.json").read_text())}
    assert report["pkd_layers"]["layer_parameters"] > 0
    assert report["pkd_layers"]["tokenised_bleu"] is not None
    assert report["pkd_layers"]["runs"][0]["validation_kl_bits"] > 0


def check_teacher_text(folder, raw):
    """Its sources are the training set's, its targets are others, the other sets are as before."""
    from fairseq.data import Dictionary
    from fairseq.data.indexed_dataset import make_dataset

    def read(lang, split="train"):
        words = Dictionary.load(str(folder / f"bin/dict.{lang}.txt"))
        dataset = make_dataset(str(folder / f"bin/{split}.de-en.{lang}"), impl="mmap")
        return [words.string(dataset[i]) for i in range(len(dataset))]

    assert read("de") == (raw / "train.de").read_text().splitlines()
    assert len(read("en")) == len(read("de")) and read("en") != read("de")
    assert read("en", "test") == (raw / "test.en").read_text().splitlines()
