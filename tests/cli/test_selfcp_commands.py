"""pet-fairseq choose and memory-map as real processes; wrong options in this one."""

import json

import pytest
import torch

from tests.cli.processes import refusal, run
from tests.selfcp.test_choose import folder  # noqa: F401  fixture


def test_choose(folder, tmp_path):  # noqa: F811
    command = ("choose", folder / "selfcp.pt", "--data", folder)
    out = tmp_path / "result.json"
    done = run("pet-fairseq", *command, "--candidates", "good", "bad", "--out", out)
    result = json.loads(done.output.splitlines()[-1])
    assert result == json.loads(out.read_text()) and result["total"] == 20
    assert sum(result["chosen"].values()) == 20
    cut = ("--candidates", "good", "bad", "--prompt-strategy", "truncate", "--window", "2")
    assert json.loads(run("pet-fairseq", *command, *cut).output.splitlines()[-1])["total"] == 20
    for wrong, message in (
        (("--candidates", "good"), "--candidates good: give two or more"),
        (("--candidates", "a", "b", "--prompt-strategy", "half"), "--prompt-strategy half: give"),
        (("--candidates", "good", "bad", "--subset", "dev"), "--subset dev: not in"),
        (("--candidates", "good", "bad", "--memory-ratio", "0"), "--memory-ratio 0: give 1"),
    ):
        assert message in refusal(*command, *wrong)


def test_memory_map(folder, tmp_path):  # noqa: F811
    command = ("memory-map", folder / "selfcp.pt", "--data", folder)
    out = tmp_path / "map"
    run("pet-fairseq", *command, "--index", "3", "--memory-ratio", "3", "--out", out)
    (segment, *_) = json.loads((out / "memory_map.json").read_text())
    assert len(segment["cosines"]) == -(-len(segment["words"]) // 3)
    assert all(len(row) == len(segment["words"]) for row in segment["cosines"])
    assert (out / "memory_map.png").read_bytes().startswith(b"\x89PNG")
    for wrong, message in (
        (("--index", "20"), "--index 20: test has records 0 to 19"),
        (("--window", "60"), "--index 0: nothing of its prompt"),
    ):
        assert message in refusal(*command, *wrong, "--out", tmp_path / "none")
        assert not (tmp_path / "none").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_memory_map_without_a_gpu(tmp_path):
    command = ("memory-map", "none.pt", "--data", tmp_path)
    message = refusal(*command, "--out", tmp_path / "none", "--device", "cuda")
    assert "--device cuda: torch finds no GPU here" in message
