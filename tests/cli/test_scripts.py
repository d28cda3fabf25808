"""The shell building blocks and recipes: dry runs, wrong inputs, and one small run to the end."""

import gzip
import os
import subprocess

import pytest

from tests.cli.processes import BIN, REPO, write_text


def sh(script: str, *args, check: bool = True, **env) -> subprocess.CompletedProcess:
    path = f"{BIN}:{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", str(REPO / script), *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **env},
        timeout=280,
    )
    assert not check or result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result


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


def test_multi30k_prepare_checks_its_folder(tmp_path):
    out = {"OUT": str(tmp_path / "out")}
    result = sh("examples/multi30k/prepare.sh", tmp_path / "none", check=False, **out)
    assert result.returncode != 0 and "no such folder" in result.stderr
    for split in ("train", "val", "test_2016_flickr"):
        for lang in ("de", "en"):
            with gzip.open(tmp_path / f"{split}.{lang}.gz", "wt") as file:
                file.write("ein kurzer Satz\n" * 10)
    result = sh("examples/multi30k/prepare.sh", tmp_path, check=False, **out)
    assert result.returncode != 0 and "10 lines, expected 29000" in result.stderr
    (tmp_path / "train.de.gz").write_bytes(b"not gzip")
    result = sh("examples/multi30k/prepare.sh", tmp_path, check=False, **out)
    assert result.returncode != 0 and "train.de.gz: damaged" in result.stderr
    assert not list((tmp_path / "out/raw").glob("*.de"))


def test_preprocess_makes_bpe_and_binary_data(tmp_path):
    write_text(tmp_path / "raw", {"train": 60, "valid": 5, "test": 5})
    sh("scripts/preprocess.sh", tmp_path / "raw", "de", "en", 30, tmp_path / "out")
    assert (tmp_path / "out/bin/dict.en.txt").exists()
    assert len((tmp_path / "out/bpe.codes").read_text().splitlines()) > 10
    again = sh("scripts/preprocess.sh", tmp_path / "raw", "de", "en", 30, tmp_path / "out")
    assert again.stdout.count("done before") == 3
    (tmp_path / "raw/test.en").write_text("one line\n")
    result = sh(
        "scripts/preprocess.sh", tmp_path / "raw", "de", "en", 30, tmp_path / "x", check=False
    )
    assert result.returncode != 0 and "differ in their number of lines" in result.stderr


def test_train_script_finishes_once(data, tmp_path):
    options = (
        *("--arch", "pet_transformer_tiny", "--criterion", "cross_entropy", "--max-update", "2"),
        *("--optimizer", "adam", "--max-tokens", "500", "--cpu", "--num-workers", "0"),
    )
    first = sh("scripts/train.sh", tmp_path / "run", data, *options)
    assert "done training" in first.stdout + first.stderr
    assert (tmp_path / "run/train.done").exists()
    assert sh("scripts/train.sh", tmp_path / "run", data, *options).stdout == ""
