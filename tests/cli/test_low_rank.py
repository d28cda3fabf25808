"""A model tuned by low-rank updates: trained, resumed, used, merged, and then compressed."""

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu

from tests.cli.processes import CROSS_ENTROPY, REPO, TRAIN, refusal, run, train
from tests.cli.test_pretrained import import_t5

GENERATE = ("--user-dir", REPO / "pet_fairseq", "--cpu", "--required-batch-size-multiple", "1")
GENERATE += ("--beam", "2", "--max-len-b", "9")
FEW = ("--max-tokens", "100")  # so that the first epoch, whose batches stay, is long enough
LOW_RANK = ("--arch", "low_rank", "--lora-rank", "2", *CROSS_ENTROPY)


@pytest.fixture(scope="module")
def tuned(data, teacher, tmp_path_factory):
    """The checkpoint of a training that was stopped and resumed within an epoch, and its log."""
    folder = tmp_path_factory.mktemp("tuned")
    for updates in (7, 9):
        log = tune(data, folder, teacher, *FEW, "--max-update", updates)
    return folder / "checkpoint_last.pt", log


def tune(data, folder, backbone, *more, **options):
    return train(data, folder, *LOW_RANK, "--backbone-path", backbone, *more, **options)


def merge(checkpoint, out, *more):
    run("pet-fairseq", "export", checkpoint, "--to", "fairseq", "--out", out, *more)
    return out / "model.pt"


def translations(data, path, *more):
    """Number, score and text of each translation."""
    lines = run("fairseq-generate", data, *GENERATE, "--path", path, *more).printed("H")
    assert lines
    return [(number, round(float(score), 3), text) for number, score, text in lines]


def test_a_resumed_training_is_the_same(data, teacher, tuned, tmp_path):
    """With dropout: 9 updates at once, and 7 and then 2 more."""
    path, log = tuned
    assert "@ 7 updates" in log.output
    tune(data, tmp_path, teacher, *FEW, "--max-update", "9")
    whole, parts = (load_checkpoint_to_cpu(str(p))["model"] for p in (tmp_path / path.name, path))
    assert whole["low_rank.up.0"].any()
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_the_file_is_small(tuned, teacher):
    state = load_checkpoint_to_cpu(str(tuned[0]))["model"]
    maps = [
        tensor
        for name, tensor in load_checkpoint_to_cpu(str(teacher))["model"].items()
        if name.endswith((".q_proj.weight", ".v_proj.weight"))
    ]
    numbers = sum(tensor.numel() for name, tensor in state.items() if name != "backbone_hash")
    assert numbers == sum(2 * sum(tensor.shape) for tensor in maps)


def test_merged_it_translates_the_same(data, teacher, tuned, tmp_path):
    """Plugins can stand around it, and it can be exported further."""
    merged = merge(tuned[0], tmp_path / "merged")
    expected = translations(data, tuned[0])
    assert expected != translations(data, teacher)
    assert translations(data, merged) == expected
    assert load_checkpoint_to_cpu(str(merged))["cfg"]["model"].arch == "transformer_tiny"
    check_plugins_around(merged, data, tmp_path / "plugins", expected)
    merge(tmp_path / "merged", tmp_path / "again")


def check_plugins_around(merged, data, folder, expected):
    """They can be trained, and at ratio 1 translate as the merged model does."""
    train(
        *(data, folder, "--arch", "variator", "--backbone-path", merged),
        *("--criterion", "variator_distillation", "--max-tokens", "40", "--max-update", "1"),
        common=[word for word in TRAIN if word not in ("--dropout", "0.1")],
    )
    plugins, whole = folder / "checkpoint_best.pt", "{'compression_ratio': 1}"
    assert translations(data, plugins, "--model-overrides", whole) == expected


@pytest.mark.slow
def test_a_t5(tmp_path):
    """As in docs/variator.md."""
    out, data = import_t5(tmp_path)
    small = ("--max-tokens", "40", "--max-update", "3")
    tune(data, tmp_path / "tuned", out / "checkpoint.pt", *small)
    tuned = tmp_path / "tuned/checkpoint_best.pt"
    expected = translations(data, tuned)
    assert expected != translations(data, out / "checkpoint.pt")
    merged = merge(tuned, tmp_path / "merged")
    assert translations(data, merged) == expected
    assert (tmp_path / "merged/tokenizer.json").read_bytes() == (
        out / "tokenizer.json"
    ).read_bytes()
    (tmp_path / "questions").write_text("w3 <extra_id_0> w5\nw1\n")
    said = []
    for model in (tuned, tmp_path / "merged"):
        files = ("--input", tmp_path / "questions", "--output", tmp_path / "answers")
        run("pet-fairseq", "translate", model, *files, "--beam", "1")
        said.append((tmp_path / "answers").read_text())
    assert said[0] == said[1]
    check_plugins_around(merged, data, tmp_path / "plugins", expected)


def test_refused(data, teacher, tuned, tmp_path):
    cases = [
        (
            tune(data, tmp_path, teacher, "--lora-rank", "0", check=False),
            "--lora-rank 0: give 1 or",
        ),
        (
            tune(data, tmp_path, tuned[0], check=False),
            f"{tuned[0]}: holds changes of a model; merge",
        ),
    ]
    for result, message in cases:
        assert result.status != 0 and "Traceback" not in result.output
        assert message in result.output.splitlines()[-1]
    for form in ("ctranslate2", "onnx"):
        line = refusal("export", tuned[0], "--to", form, "--out", tmp_path / "out")
        assert (
            f"--to {form}: CHECKPOINT {tuned[0]} holds changes of a model; merge it first" in line
        )
    assert not (tmp_path / "out").exists()
