"""The shell blocks and recipes for training: dry runs, wrong inputs, small runs to the end."""

import json

import pytest

from tests.cli.processes import REPO, TRAIN
from tests.cli.shell import bash, refuses, sh

RECIPES = sorted(
    path.parent.name
    for path in (REPO / "examples").glob("*/run.sh")
    if "scripts/recipe.sh" in path.read_text()
)
EVERY_ROW = (
    "teacher scratch kd pkd can deep_shallow pet pet_patient pet_sampled pet_long pet_qk pet_kv "
    "pet_no_warmup pet_project pet_replace scratch_seqkd speed_seqkd deep_shallow_seqkd pet_seqkd"
)
# the teacher; those without a warm-up; those with one; sampled heads: wide twice, tuned once
TRAININGS = 1 + 5 + 2 * 7 + 3 + 1 + 1 + 3


def dry(script, tmp_path, *args, **env):
    folders = {"DATA": str(tmp_path / "data"), "RUNS": str(tmp_path / "runs")}
    return sh(script, *args, DRY_RUN="1", **folders, **env).stdout


def test_demo_dry_run_prints_every_command_and_writes_nothing(tmp_path):
    out = dry("scripts/demo.sh", tmp_path)
    for command in ("toy-data", "fairseq-preprocess", "pet_distillation", "--beam 5", "report"):
        assert command in out
    assert out.count("+ fairseq-train") == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", ["small", "full"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_knows_every_row(recipe, size, tmp_path):
    out = dry(f"examples/{recipe}/run.sh", tmp_path, ROWS=EVERY_ROW, SIZE=size)
    assert out.count("+ fairseq-train") == TRAININGS
    assert out.count("--gen-subset train") == 4  # once in a real run: then it is there
    assert out.count("sample-heads") == 1 and "--finetune-from-model" in out
    assert ("--arch transformer_iwslt_de_en" in out) == (size == "full")
    assert ("--cpu" in out) == (size == "small")
    source, target = recipe.split("_")[-2:] if recipe != "multi30k" else ("de", "en")
    assert f"--source-lang {source} --target-lang {target}" in out
    assert list(tmp_path.iterdir()) == []


def test_rows_seeds_and_stages(tmp_path):
    run = "examples/multi30k/run.sh"
    out = dry(run, tmp_path, ROWS="teacher pet can", SEEDS="1 2")
    assert out.count("+ fairseq-train") == 1 + 2 * (2 + 1)
    assert "--seed 2" in out and f"{tmp_path}/runs/can.seed2" in out
    assert out.count("+ fairseq-generate") == 5 * 2 * 3
    only = dry(run, tmp_path, ROWS="teacher pet can", STAGES="can")
    assert only.count("+ fairseq-train") == 1 and "+ fairseq-generate" not in only


def test_ablations_and_beams(tmp_path):
    out = dry("scripts/ablations.sh", tmp_path, "multi30k")
    assert out.count("+ fairseq-train") == 1 + 2 * 5 + 1 + 3 + 1 and "--baseline pet" in out
    assert dry("scripts/ablations.sh", tmp_path, "multi30k", TABLES="6").count("-train ") == 4
    out = dry("scripts/beam_sensitivity.sh", tmp_path, "multi30k", ROWS="teacher pet")
    assert [out.count(f"--beam {b} ") for b in range(1, 11)] == [2] * 10
    assert "+ fairseq-train" not in out and "+ pet-fairseq report" in out


def test_wrong_inputs(tmp_path):
    env = {"DATA": str(tmp_path), "RUNS": str(tmp_path / "runs")}
    run = "examples/multi30k/run.sh"
    refuses(sh(run, check=False, **env), f"{tmp_path}/bin: no such folder", "run prepare.sh first")
    env["DRY_RUN"] = "1"
    refuses(sh(run, check=False, **env, SIZE="huge"), "SIZE=huge: give small or full")
    refuses(sh(run, check=False, **env, ROWS="pet cat"), "no model is called cat", "pet_seqkd")
    refuses(sh("scripts/ablations.sh", "none", check=False), "none: no such data set", "multi30k")
    refuses(sh("scripts/ablations.sh", "multi30k", check=False, TABLES="4"), "TABLES: 4 is not one")
    refuses(sh("scripts/beam_sensitivity.sh", "none", check=False), "none: no such data set")
    refuses(sh("scripts/text/lines.sh", "x", "Q", check=False), "Q: give S, T or H")


RECIPE = """
. {repo}/scripts/common.sh
. {repo}/scripts/recipe.sh
DATA={data} RUNS={runs} SRC=de TGT=en REFERENCE={data}/raw/test.en ROWS="{rows}" REPEATS=1
COMMON=({common})
TEACHER=(--arch transformer_tiny --max-update 40)
GOLD=() SIMPLIFIED=() STUDENT=()
UPDATES="--max-update 3" WARMUP=(--max-update 2) FINETUNE=(--max-update 2)
DISTILLATION=(--teacher-cache-mb 10) PATIENCE=() HEADS=1
PLAIN_ARCH=(--arch transformer_tiny) CAN_ARCH=(--arch can_transformer $(stacks 2 16 32 2))
PET_ARCH=(--arch pet_transformer_tiny) WIDE_ARCH=("${{PET_ARCH[@]}}" --encoder-head-dim 16)
GENERATE=(--cpu --num-workers 0)
recipe
"""


def test_a_recipe_from_the_teacher_to_the_report(data, raw, tmp_path):
    folder, runs = tmp_path / "data", tmp_path / "runs"
    folder.mkdir()
    (folder / "bin").symlink_to(data)
    (folder / "raw").symlink_to(raw)
    rows = "teacher scratch_seqkd pkd can pet_sampled"
    common = [f"'{word}'" for word in TRAIN if word not in ("--seed", "3")]
    script = RECIPE.format(repo=REPO, data=folder, runs=runs, rows=rows, common=" ".join(common))
    bash("-c", script, "recipe")
    report = json.loads((runs / "report.json").read_text())
    names = [row["name"] for row in report]
    assert sorted(names) == sorted(rows.split()) and names[0] == "teacher"
    assert all(set(row["bleu"]) == {"1", "5"} for row in report)
    sources = (runs / "teacher_text/text/train.de").read_text()
    assert sorted(sources.splitlines()) == sorted((raw / "train.de").read_text().splitlines())
    targets = (runs / "teacher_text/text/train.en").read_text().splitlines()
    assert len(targets) == len(sources.splitlines()) and targets != sources.splitlines()
    again = bash("-c", script, "recipe").stdout
    assert "fairseq-train" not in again and "done before" in again


def test_train_script_finishes_once(data, tmp_path):
    options = (
        *("--arch", "pet_transformer_tiny", "--criterion", "cross_entropy", "--max-update", "2"),
        *("--optimizer", "adam", "--max-tokens", "500", "--cpu", "--num-workers", "0"),
    )
    first = sh("scripts/train.sh", tmp_path / "run", data, *options)
    assert "done training" in first.stdout + first.stderr
    assert (tmp_path / "run/train.done").exists()
    assert sh("scripts/train.sh", tmp_path / "run", data, *options).stdout == ""
