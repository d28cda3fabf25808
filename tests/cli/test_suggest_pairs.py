"""The command pet-fairseq suggest-pairs on a trained teacher."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from pet_fairseq import cli
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from tests.cli.processes import REPO, preprocess, run, write_text


def test_tables_files_and_fairseqs_own_loss(teacher, data, tmp_path):
    options = ("--checkpoint", teacher, "--data", data, "--out", tmp_path / "new" / "folder")
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


def suggest(capsys, *options):
    """Status and last line of the command, run in this process."""
    status = cli.main(["suggest-pairs", *map(str, options)])
    output = capsys.readouterr()
    return status, (output.err if status else output.out).strip().splitlines()[-1]


def refuses(capsys, *options) -> str:
    status, line = suggest(capsys, *options)
    assert status == 1 and line.startswith("pet-fairseq suggest-pairs: error: ")
    return line


@pytest.fixture
def common(teacher, data):
    return ("--checkpoint", teacher, "--data", data, "--sentences", "3", "--stacks", "encoder")


def test_short_run_without_files(common, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _ = suggest(capsys, *common, "--subset", "test", "--max-tokens", "12")
    assert status == 0 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--sentences", "0"), "--sentences 0: give 1 or more"),
        (("--max-tokens", "2"), "--max-tokens 2: a sentence has"),
        (("--subset", "dev"), "--subset dev: not in "),
        (("--stacks", "middle"), "--stacks middle: give encoder, decoder or encoder,decoder"),
        (("--checkpoint", "none.pt"), "--checkpoint none.pt: no such file"),
        (("--data", "nowhere"), "--data nowhere: no such folder"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_wrong_options(options, text, common, capsys):
    line = refuses(capsys, *common, *options)
    assert text in line
    assert options[0] != "--subset" or "which has test, train, valid" in line


def test_dictionaries_without_data(common, tmp_path, capsys):
    for dictionary in Path(common[common.index("--data") + 1]).glob("dict.*"):
        shutil.copy(dictionary, tmp_path)
    line = refuses(capsys, *common, "--data", tmp_path)
    assert f"{tmp_path}: holds no data; give a folder made by fairseq-preprocess" in line


def test_wrong_choices(common, capsys):
    for options in (("--candidates", "some"), ("--device", "tpu"), ("--sentences", "few")):
        with pytest.raises(SystemExit) as stop:
            cli.main(["suggest-pairs", *map(str, common), *options])
        assert stop.value.code == 2 and options[1] in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(common, capsys):
    assert "--device cuda: torch finds no GPU" in refuses(capsys, *common, "--device", "cuda")


def test_out_that_cannot_be_written(common, capsys, tmp_path):
    file = tmp_path / "file"
    file.write_text("kept")
    assert f"--out {file}: is a file" in refuses(capsys, *common, "--out", file)
    assert f"--out {file / 'below'}: " in refuses(capsys, *common, "--out", file / "below")
    assert file.read_text() == "kept"


def test_data_without_the_languages(common, data, capsys, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no dict.de.txt" in refuses(capsys, *common, "--data", empty)
    half = shutil.copytree(data, tmp_path / "half")
    (half / "dict.en.txt").unlink()
    assert "has no dict.en.txt" in refuses(capsys, *common, "--data", half)


def test_data_with_another_dictionary(common, data, capsys, tmp_path):
    write_text(tmp_path / "raw", {"train": 300, "valid": 30, "test": 30}, seed=5)
    other = preprocess(tmp_path / "raw", tmp_path / "bin")
    line = refuses(capsys, *common, "--data", other)
    assert f"{data / 'dict.de.txt'} and {other / 'dict.de.txt'} differ: entry" in line


def test_subset_without_targets(common, data, capsys, tmp_path):
    half = shutil.copytree(data, tmp_path / "half")
    for end in ("bin", "idx"):
        (half / f"valid.de-en.en.{end}").unlink()
    line = refuses(capsys, *common, "--data", half)
    assert "--subset valid: has no target sentences" in line


NO_TRANSFORMER = "its architecture {} is not an encoder-decoder Transformer"


@pytest.mark.parametrize(
    ("arch", "reason"),
    [
        *((arch, NO_TRANSFORMER.format(arch)) for arch in ("lstm", "transformer_lm", "own")),
        ("nonautoregressive_transformer", "no distribution over the next word"),
    ],
)
def test_other_architectures(arch, reason, common, teacher, capsys, tmp_path):
    state = load_checkpoint(str(teacher), "teacher")
    state["cfg"].model.arch = arch
    torch.save(state, tmp_path / "other.pt")
    line = refuses(capsys, *common, "--checkpoint", tmp_path / "other.pt")
    assert reason in line
