"""The command pet-fairseq suggest-pairs on a trained teacher."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from tests.cli.processes import REPO, in_process, preprocess, refusal, run, write_text


def test_tables_files_and_fairseqs_own_loss(teacher, data, tmp_path):
    options = (teacher, "--data", data, "--out", tmp_path / "new" / "folder")
    out = run("pet-fairseq", "suggest-pairs", *options, "--sentences", "1000").output
    files = {path.name: path for path in (tmp_path / "new" / "folder").iterdir()}
    assert sorted(files) == ["pairs.json", "pairs.md", "pairs.png"]
    assert files["pairs.md"].read_text() in out
    assert "thesis's choice, crosswise Q-K, is number" in out and "100%" in out  # its progress
    found = json.loads(files["pairs.json"].read_text())
    # two layers each: 12 + 31 pairs and 11 + 22 schemes, see tests/pet/pair_search/test_search.py
    assert (len(found["pairs"]), len(found["schemes"]), found["left_out"]) == (43, 33, [])
    assert found["sentences"] == 30

    log = run(
        *("fairseq-validate", data, "--task", "translation", "--path", teacher, "--cpu"),
        *("--user-dir", REPO / "pet_fairseq", "--required-batch-size-multiple", "1"),
        *("--max-tokens", "500"),
    )
    bits = float(log.output.split("| nll_loss ")[-1].split()[0])
    assert found["loss"] == pytest.approx(bits * math.log(2), abs=1e-3)


def refuses(*options) -> str:
    line = refusal("suggest-pairs", *options)
    assert line.startswith("pet-fairseq suggest-pairs: error: ")
    return line


@pytest.fixture
def common(teacher, data):
    return (teacher, "--data", data, "--sentences", "3", "--stacks", "encoder")


def test_short_run_without_files(common, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = in_process("suggest-pairs", *common, "--subset", "test", "--max-tokens", "12")
    assert done.status == 0 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--sentences", "0"), "--sentences 0: give 1 or more"),
        (("--max-tokens", "2"), "--max-tokens 2: a sentence has"),
        (("--subset", "dev"), "--subset dev: not in "),
        (("--stacks", "middle"), "--stacks middle: give encoder, decoder or encoder,decoder"),
        (("--data", "nowhere"), "--data nowhere: no such folder"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_wrong_options(options, text, common):
    line = refuses(*common, *options)
    assert text in line
    assert options[0] != "--subset" or "which has test, train, valid" in line


def test_no_checkpoint(common):
    assert "CHECKPOINT none.pt: no such file" in refuses("none.pt", *common[1:])


def test_dictionaries_without_data(common, tmp_path):
    for dictionary in Path(common[common.index("--data") + 1]).glob("dict.*"):
        shutil.copy(dictionary, tmp_path)
    line = refuses(*common, "--data", tmp_path)
    assert f"{tmp_path}: holds no data; give a folder made by fairseq-preprocess" in line


def test_wrong_choices(common):
    for options in (("--candidates", "some"), ("--device", "tpu"), ("--sentences", "few")):
        result = in_process("suggest-pairs", *common, *options)
        assert result.status == 2 and options[1] in result.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(common):
    assert "--device cuda: torch finds no GPU" in refuses(*common, "--device", "cuda")


def test_out_that_cannot_be_written(common, tmp_path):
    file = tmp_path / "file"
    file.write_text("kept")
    assert f"--out {file}: is a file" in refuses(*common, "--out", file)
    assert f"--out {file / 'below'}: " in refuses(*common, "--out", file / "below")
    assert file.read_text() == "kept"


def test_data_without_the_languages(common, data, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no dict.de.txt" in refuses(*common, "--data", empty)
    half = shutil.copytree(data, tmp_path / "half")
    (half / "dict.en.txt").unlink()
    assert "has no dict.en.txt" in refuses(*common, "--data", half)


def test_data_with_another_dictionary(common, data, tmp_path):
    write_text(tmp_path / "raw", {"train": 300, "valid": 30, "test": 30}, seed=5)
    other = preprocess(tmp_path / "raw", tmp_path / "bin")
    line = refuses(*common, "--data", other)
    assert f"{data / 'dict.de.txt'} and {other / 'dict.de.txt'} differ: entry" in line


def test_subset_without_targets(common, data, tmp_path):
    half = shutil.copytree(data, tmp_path / "half")
    for end in ("bin", "idx"):
        (half / f"valid.de-en.en.{end}").unlink()
    line = refuses(*common, "--data", half)
    assert "--subset valid: has no target sentences" in line


NO_TRANSFORMER = "its architecture {} is not an encoder-decoder Transformer"


@pytest.mark.parametrize(
    ("arch", "reason"),
    [
        *((arch, NO_TRANSFORMER.format(arch)) for arch in ("lstm", "transformer_lm", "own")),
        ("nonautoregressive_transformer", "no distribution over the next word"),
    ],
)
def test_other_architectures(arch, reason, common, teacher, tmp_path):
    state = load_checkpoint(str(teacher), "teacher")
    state["cfg"].model.arch = arch
    torch.save(state, tmp_path / "other.pt")
    line = refuses(tmp_path / "other.pt", *common[1:])
    assert reason in line
