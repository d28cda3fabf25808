"""Plugins trained, saved and used by fairseq's own commands."""

import json

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu

import pet_fairseq
from tests.cli.processes import CROSS_ENTROPY, REPO, TRAIN, refusal, run, train
from tests.translation import load_task

GENERATE = ("--user-dir", REPO / "pet_fairseq", "--cpu", "--required-batch-size-multiple", "1")
GENERATE += ("--beam", "2", "--max-len-b", "15")


# a frozen model has no dropout, so no option for it
PLAIN = [word for word in TRAIN if word not in ("--dropout", "0.1")]


def train_plugins(data, folder, backbone, *more, check=True):
    return run(
        *("fairseq-train", data, "--user-dir", REPO / "pet_fairseq", "--save-dir", folder, *PLAIN),
        *("--arch", "variator", "--backbone-path", backbone, "--bottleneck-dim", "8"),
        *("--criterion", "variator_distillation", "--max-update", "40", *more),
        check=check,
    )


@pytest.fixture(scope="module")
def plugins(data, teacher, tmp_path_factory):
    """Trained plugins of ratios 2 and 4 for the teacher: their files and logs."""
    found = {}
    for ratio in ("2", "4"):
        folder = tmp_path_factory.mktemp(f"plugins{ratio}")
        log = train_plugins(data, folder, teacher, "--compression-ratio", ratio)
        found[ratio] = (folder / "checkpoint_best.pt", log)
    return found


def hypotheses(*args):
    """The text of each sentence's translation, by sentence."""
    result = run("fairseq-generate", *args, *GENERATE)
    lines = result.printed("H")
    assert len(lines) == 30
    return sorted((number, text) for number, _, text in lines)


def test_the_distance_falls(plugins):
    for _, log in plugins.values():
        distances = log.values("distance", "valid")
        assert 0 < distances[-1] < distances[0]


def test_generation_and_switching(data, teacher, plugins):
    two, four = (plugins[k][0] for k in ("2", "4"))
    backbone = hypotheses(data, "--path", teacher)
    by_two = hypotheses(data, "--path", two)
    by_four = hypotheses(data, "--path", four)
    assert len({tuple(x) for x in (backbone, by_two, by_four)}) == 3

    def overridden(values):
        return hypotheses(data, "--path", two, "--model-overrides", values)

    assert overridden("{'compression_ratio': 1}") == backbone
    assert overridden(f"{{'compression_ratio': 4, 'plugin_path': '{four}'}}") == by_four


def test_file_holds_plugins_only(plugins, teacher):
    state = load_checkpoint_to_cpu(str(plugins["4"][0]))
    assert all(n.startswith("plugins.") or n == "backbone_hash" for n in state["model"])
    numbers = sum(p.numel() for n, p in state["model"].items() if n != "backbone_hash")
    trained = state["last_optimizer_state"]["state"]
    assert sum(s["exp_avg"].numel() for s in trained.values()) == numbers


def test_plugins_of_other_ratios_stay_as_they_are(data, teacher, plugins, tmp_path):
    """Under --fp16, which gives every trained parameter a gradient, as legacy_ddp does."""
    two = plugins["2"][0]
    train_plugins(
        *(data, tmp_path, teacher, "--plugin-path", two, "--max-update", "3"),
        *("--weight-decay", "10", "--fp16", "--fp16-no-flatten-grads"),
    )
    state = load_checkpoint_to_cpu(str(tmp_path / "checkpoint_best.pt"))
    idle, before = (
        {n: t for n, t in tensors.items() if n.startswith("plugins.") and n.split(".")[2] == "2"}
        for tensors in (state["model"], load_checkpoint_to_cpu(str(two))["model"])
    )
    assert len(idle) == len(before) > 0
    for name, tensor in before.items():
        assert torch.equal(idle[name].half(), tensor.half()), name
    trained = sum(p.numel() for n, p in state["model"].items() if n.split(".")[2:3] == ["4"])
    moments = state["last_optimizer_state"]["state"].values()
    assert sum(s["exp_avg"].numel() for s in moments) == trained


@pytest.mark.slow
def test_task_loss(data, teacher, tmp_path):
    log = train_plugins(data, tmp_path, teacher, "--task-loss-weight", "0.5")
    assert log.values("task_loss", "valid")[-1] > 0
    assert 0 <= log.values("accuracy", "valid")[-1] <= 100


@pytest.mark.slow
def test_bad_input(data, teacher, plugins, raw, tmp_path):
    changed = tmp_path / "changed"
    train(data, changed, "--arch", "transformer_tiny", *CROSS_ENTROPY, "--max-update", "1")
    override = f"{{'backbone_path': '{changed}/checkpoint_best.pt'}}"
    generate = ("fairseq-generate", data, *GENERATE)
    half = tmp_path / "half.pt"
    bad = (data, tmp_path / "x", teacher)
    half.write_bytes(plugins["4"][0].read_bytes()[:3000])
    cases = [
        (
            run(*generate, "--path", plugins["4"][0], "--model-overrides", override, check=False),
            f"--backbone-path {changed}/checkpoint_best.pt: not the file",
        ),
        (
            train_plugins(*bad, "--plugin-path", half, check=False),
            f"--plugin-path {half}",
        ),
        (
            train_plugins(*bad, "--compression-ratio", "0", check=False),
            "--compression-ratio 0: give 2 or more",
        ),
        (
            train_plugins(*bad, "--compression-ratio", "1", check=False),
            "--compression-ratio 1: without plugins nothing is to be trained; give 2 or more",
        ),
    ]
    for result, message in cases:
        assert result.status != 0 and "Traceback" not in result.output
        assert message in result.output.splitlines()[-1]


def test_neurons(data, teacher, plugins, tmp_path):
    files = ":".join(str(path) for path, _ in plugins.values())
    common = ("--data", data, "--sentences", "20")
    table = run("pet-fairseq", "neurons", files, *common, "--out", tmp_path / "out").output
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")]
    assert [row[0].strip() for row in rows[1:]] == ["---:", "2", "4"]
    for row in rows[2:]:
        one, union, compressed, *included = (float(cell) for cell in row[1:])
        assert 0 < one < union <= 100 and 0 < compressed < 100
        assert all(0 <= share <= 100 for share in included)
    by_layer = json.loads((tmp_path / "out/neurons.json").read_text())["layers"]
    assert all(len(values) == 2 for shares in by_layer.values() for values in shares.values())
    assert table.endswith((tmp_path / "out/neurons.md").read_text())
    assert (tmp_path / "out/neurons.png").read_bytes().startswith(b"\x89PNG")
    for wrong, message in (
        ((teacher,), f"CHECKPOINT {teacher}: holds no plugins"),
        ((files, "--subset", "other"), "--subset other: not in"),
        ((files, "--sentences", "0"), "--sentences 0: give 1 or more"),
        ((files, "--data", tmp_path / "none"), f"--data {tmp_path / 'none'}: no such folder"),
    ):
        checkpoint, *options = wrong
        assert message in refusal("neurons", checkpoint, *common, *options)


@pytest.mark.slow
def test_plugins_are_moved_to_another_backbone(data, teacher, plugins, tmp_path):
    """As after pre-training: they work at once there, and training goes on from them."""
    tuned = tmp_path / "tuned"
    more = ("--finetune-from-model", teacher, "--max-update", "10", *CROSS_ENTROPY)
    train(data, tuned, "--arch", "transformer_tiny", *more)
    backbone, moved = tuned / "checkpoint_best.pt", tmp_path / "moved.pt"
    to = ("--backbone-path", backbone, "--out", moved)
    run("pet-fairseq", "move-plugins", plugins["4"][0], *to)
    hypotheses(data, "--path", moved)
    new, gone_on = (
        train_plugins(data, tmp_path / name, backbone, "--max-update", "1", *options)
        for name, options in (("new", ()), ("on", ("--finetune-from-model", moved)))
    )
    assert gone_on.values("distance", "valid")[0] < new.values("distance", "valid")[0]
    assert "holds no plugins" in refusal("move-plugins", teacher, *to)


@pytest.mark.slow
def test_hub_translates_as_generate(data, teacher, plugins):
    """With plugins, and without them through an option of the model."""
    path = plugins["4"][0]
    sources = source_lines(data)
    for options, same in (({}, path), ({"compression_ratio": 1}, teacher)):
        translator = pet_fairseq.from_pretrained(str(path), str(data), **options)
        expected = [text for _, text in sorted_by_number(hypotheses(data, "--path", same))]
        assert translator.translate(sources, beam=2, max_len_b=15) == expected


def source_lines(data):
    """The test set's sources from the binary data."""
    task = load_task(data, dataset_impl=None, required_seq_len_multiple=1, train_subset="train")
    task.load_dataset("test")
    return [task.source_dictionary.string(tokens) for tokens in task.dataset("test").src]


def sorted_by_number(rows):
    return sorted(rows, key=lambda row: int(row[0][2:]))
