"""Plugins for the prompts of an imported language model, from its files to the table."""

import json
import random
import subprocess

import pytest

from pet_fairseq.runner.stage import USER_DIR
from tests.cli.processes import REPO, run
from tests.cli.shell import refuses, sh
from tests.huggingface.llama import write_llama
from tests.recipes.paper import stages

pytestmark = pytest.mark.slow


def write_paragraphs(path, number, seed):
    draw = random.Random(seed)
    lines = ["= A heading ="]
    lines += ["".join(draw.choices("abcdef   ", k=draw.randrange(5, 12))) for _ in range(number)]
    path.write_text("\n\n".join([*lines, "a b c\tab"]) + "\n")


def run_stage(stage):
    """As the recipe's runner does, with commands that start sooner."""
    stage.product.parent.mkdir(parents=True, exist_ok=True)
    for path, text in stage.texts:
        path.write_text(text)
    words = [REPO / "pet_fairseq" if word == USER_DIR else word for word in stage.words()]
    if words[0] == "ln":
        subprocess.run(words, check=True)
    else:
        run(*words)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_from_files_to_the_table(kind, tmp_path):
    write_llama(tmp_path / "hf", model_type=kind)
    run("pet-fairseq", "import-hf", tmp_path / "hf", "--out", tmp_path / "lm")
    write_paragraphs(tmp_path / "train", 60, 1)
    write_paragraphs(tmp_path / "test", 20, 2)
    texts = ("examples/language_model/prepare.sh", tmp_path / "lm", tmp_path / "train")
    refuses(sh(*texts, tmp_path / "missing", check=False), "missing': no such file")
    words = {"PROMPT_WORDS": "4", "RESPONSE_WORDS": "2"}
    sh(*texts, tmp_path / "test", OUT=str(tmp_path / "data"), **words)
    for line in (tmp_path / "data/raw/test").read_text().splitlines():
        _, response = line.split(" Ċ ")
        assert "Ċ" not in response and "<|" not in line
    assert line == "a Ġ b Ġ c Ċ ab"

    rows = ("backbone", "k2", "attention_kv", "mean_copy", "narrow_ffn", "cut2")
    options = ("--data", tmp_path / "data", "--runs", tmp_path / "runs", "--rows", *rows)
    options += ("--updates", "3", "--max-tokens", "200", "--length", "16")
    for stage in stages("language_model", tmp_path, "--model", tmp_path / "lm", *options).values():
        run_stage(stage)
    table = json.loads((tmp_path / "runs/plugins.json").read_text())["rows"]
    assert {row["name"] for row in table} == set(rows)
    costs = {row["name"]: row["cost"] for row in table}
    assert costs["backbone"] == 1 and max(costs[n] for n in ("mean_copy", "narrow_ffn", "cut2")) < 1
    for row in table:
        assert row["scores"]["perplexity"] > 1 and row["scores"]["prompt_ms"] > 0
    plugins = tmp_path / "runs/k2/checkpoint_best.pt"
    report = run("pet-fairseq", "neurons", plugins, "--data", tmp_path / "data/bin")
    assert "| 2 |" in report.output
    report = run("pet-fairseq", "flops", tmp_path / "lm/checkpoint.pt", "--lengths", "16")
    assert "FFN 20" in report.output
