"""The shell building blocks and recipes for training: dry runs, wrong inputs, one small run."""

import pytest

from tests.cli.test_prepare import sh


def test_dry_run_prints_every_command_and_writes_nothing(tmp_path):
    runs = tmp_path / "runs"
    out = sh("scripts/demo.sh", DRY_RUN="1", RUNS=str(runs)).stdout
    for command in ("toy-data", "fairseq-preprocess", "pet_distillation", "--beam 5", "report"):
        assert command in out
    assert out.count("+ fairseq-train") == 3
    assert not runs.exists()


@pytest.mark.parametrize("size", ["small", "full"])
def test_multi30k_dry_run(size, tmp_path):
    (tmp_path / "bin").mkdir()
    env = {"SIZE": size, "DATA": str(tmp_path), "RUNS": str(tmp_path / "runs"), "DRY_RUN": "1"}
    out = sh("examples/multi30k/run.sh", **env).stdout
    assert out.count("+ fairseq-train") == 3 and "--tokenizer moses" in out
    assert ("transformer_iwslt_de_en" in out) == (size == "full")
    only = sh("examples/multi30k/run.sh", **env, STAGES="pet").stdout
    assert only.count("+ fairseq-train") == 1 and "pet_distillation" in only


def test_multi30k_wrong_inputs(tmp_path):
    env = {"DATA": str(tmp_path), "RUNS": str(tmp_path / "runs"), "DRY_RUN": "1"}
    result = sh("examples/multi30k/run.sh", check=False, **env)
    assert result.returncode != 0 and "run prepare.sh first" in result.stderr
    (tmp_path / "bin").mkdir()
    result = sh("examples/multi30k/run.sh", check=False, **env, SIZE="huge")
    assert result.returncode != 0 and "SIZE=huge" in result.stderr


def test_train_script_finishes_once(data, tmp_path):
    options = (
        *("--arch", "pet_transformer_tiny", "--criterion", "cross_entropy", "--max-update", "2"),
        *("--optimizer", "adam", "--max-tokens", "500", "--cpu", "--num-workers", "0"),
    )
    first = sh("scripts/train.sh", tmp_path / "run", data, *options)
    assert "done training" in first.stdout + first.stderr
    assert (tmp_path / "run/train.done").exists()
    assert sh("scripts/train.sh", tmp_path / "run", data, *options).stdout == ""
