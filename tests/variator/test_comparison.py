"""The table of plugins and competitors, from checkpoints of tiny models and made-up scores."""

import json

import pytest
import torch

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.variator.comparison import write_table
from pet_fairseq.variator.competitors.fine_tuned import FineTunedConfig
from pet_fairseq.variator.competitors.first_layers import FirstLayersConfig
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.plugin_files import new_plugins
from tests.translation import make_model, make_task, save_model, save_state

ENCODER = {
    **{"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24},
    **{"encoder_attention_heads": 2, "max_positions": 64},
}


@pytest.fixture
def runs(tmp_path):
    """A model, plugins for it of two ratios, and means, with scores."""
    task = make_task(tmp_path / "data")
    folder = tmp_path / "runs"
    forms = {
        "backbone": None,
        "k2": {"compression_ratio": 2},
        "k8": {"compression_ratio": 8},
        "means": {"compression_ratio": 4, "compression": "mean", "decompression": "copy"},
    }
    for score, (name, options) in enumerate(forms.items()):
        path = folder / name / "checkpoint_best.pt"
        path.parent.mkdir(parents=True)
        if options is None:
            backbone = save_model(path, task, encoder_ffn_embed_dim=1024)
        else:
            new_plugins(VariatorConfig(backbone_path=backbone, bottleneck_dim=4, **options), path)
        scores = {"accuracy": 90 - score, "f1": 50.5, "total": 7}
        (path.parent / "result.json").write_text(json.dumps(scores))
    (folder / "unfinished").mkdir()
    return folder


def cells(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_rows(runs):
    rows = cells(write_table(runs, "backbone", 24))
    assert rows[0][5:] == ["accuracy", "to backbone", "f1", "to backbone"]
    found = {row[0]: row[1:] for row in rows[2:]}
    assert list(found) == ["backbone", "k2", "k8", "means"]
    assert [found[name][0] for name in found] == ["1", "2", "8", "4"]
    d, r = 64, 4
    by_hand = [k * k * d + k + 3 * r * d + r + d for k in (2, 8)]
    assert [found[k][1] for k in ("k2", "k8")] == [f"{2 * n:,}" for n in by_hand]
    assert found["means"][1] == "0"
    assert found["k8"][4:] == ["88.00", "-2.00", "50.50", "+0.00"]
    # 2 layers: 4 t d^2 + 2 t^2 d + 2 t d f, of which the last is for t / 4 groups only
    t, f = 24, 1024
    rest = 4 * t * d * d + 2 * t * t * d
    share = (rest + 2 * t / 4 * d * f) / (rest + 2 * t * d * f)
    assert found["means"][3] == f"{100 * share:.1f}%"
    assert (runs / "plugins.md").is_file() and (runs / "plugins.png").is_file()
    assert [row["name"] for row in json.loads((runs / "plugins.json").read_text())["rows"]] == list(
        found
    )


def test_frozen_plugins_are_not_counted_as_trained(runs):
    """A checkpoint also holds the plugins of other ratios that --plugin-path brought."""
    path = runs / "k8" / "checkpoint_best.pt"
    alone, other = (load_checkpoint(str(runs / k / path.name), k) for k in ("k8", "k2"))
    torch.save({**alone, "model": {**other["model"], **alone["model"]}}, path)
    write_table(runs, "backbone", 24)
    rows = {row["name"]: row for row in json.loads((runs / "plugins.json").read_text())["rows"]}
    numbers = {
        k: sum(t.numel() for t in s["model"].values()) - 32
        for k, s in (("k2", other), ("k8", alone))
    }
    assert {k: rows[k]["trained"] for k in numbers} == numbers
    assert rows["k8"]["size"] > rows["k2"]["size"]


def test_models_that_learned_nothing_are_named(runs):
    text = write_table(runs, "backbone", 24)
    for name, accuracy in (("backbone", 87.5), ("k2", 87.6), ("k8", 60.0)):
        result = {"accuracy": accuracy, "majority_class": 87.5}
        (runs / name / "result.json").write_text(json.dumps(result))
    note = "* no better than the most frequent class, which 87.50% of the sentences have: "
    assert write_table(runs, "backbone", 24).endswith(f"\n\n{note}backbone, k8\n")
    assert "most frequent" not in text and text.endswith("|\n")
    for name in ("backbone", "k2", "k8"):  # answers in words, none of them right
        (runs / name / "result.json").write_text(json.dumps({"accuracy": 0.0}))
    assert "most frequent" not in write_table(runs, "backbone", 24)


def test_a_pruned_model_is_a_run(runs):
    """Its cost is by its own formula: 6 of 22 tokens go through each of 2 networks."""
    path = runs / "pruned/checkpoint_best.pt"
    path.parent.mkdir()
    cfg = FineTunedConfig(backbone_path=str(runs / "backbone/checkpoint_best.pt"))
    cfg._name = "token_pruning"
    state = torch.load(runs / "k2/checkpoint_best.pt", weights_only=True)
    state["cfg"]["model"], state["model"] = vars(cfg), {}
    torch.save(state, path)
    (path.parent / "result.json").write_text(json.dumps({"accuracy": 80}))
    rows = {row[0]: row for row in cells(write_table(runs, "backbone", 22))}
    t, d, f = 22, 64, 1024
    rest = 4 * t * d * d + 2 * t * t * d
    share = (rest + 2 * 6 * d * f) / (rest + 2 * t * d * f)
    assert rows["pruned"][1] == "4" and rows["pruned"][4] == f"{100 * share:.1f}%"
    kinds = [row["kind"] for row in json.loads((runs / "plugins.json").read_text())["rows"]]
    assert kinds[1:] == ["variator"] * 3 + ["token_pruning"]


def save_run(folder, kind, cfg, weights=None):
    """A run of a model whose checkpoint says no more than its options."""
    cfg._name = kind
    state = torch.load(folder.parent / "k2/checkpoint_best.pt", weights_only=True)
    state["cfg"]["model"], state["model"] = vars(cfg), weights or {}
    folder.mkdir()
    torch.save(state, folder / "checkpoint_best.pt")
    (folder / "result.json").write_text(json.dumps({"accuracy": 80}))


def test_the_first_layers_cost_their_share(runs):
    """One of two layers; there is no ratio."""
    path = str(runs / "backbone/checkpoint_best.pt")
    save_run(runs / "first", "first_layers", FirstLayersConfig(backbone_path=path, kept_layers=1))
    rows = {row[0]: row for row in cells(write_table(runs, "backbone", 22))}
    assert rows["first"][1] == "1" and rows["first"][4] == "50.0%"
    content = json.loads((runs / "plugins.json").read_text())
    costs = {row["name"]: (row["cost"], row["whole_cost"]) for row in content["rows"]}
    assert costs["first"] == (0.5, None)  # there is a decoder


def test_cost_of_a_whole_classifier(tmp_path):
    """The layers of all tokens, and the head's two maps of one."""
    task = make_task(tmp_path / "data")
    model, args = make_model(task, "roberta", **ENCODER)
    model.register_classification_head("classes", num_classes=3)
    args._name = "roberta"
    folder = tmp_path / "runs/backbone"
    folder.mkdir(parents=True)
    save_state(folder / "checkpoint_best.pt", model, args, {"_name": "sentence_prediction"})
    (folder / "result.json").write_text(json.dumps({"accuracy": 90}))
    options = dict(compression="mean", decompression="copy", compression_ratio=4)
    cfg = VariatorConfig(backbone_path=str(folder / "checkpoint_best.pt"), **options)
    (tmp_path / "runs/means").mkdir()
    new_plugins(cfg, tmp_path / "runs/means/checkpoint_best.pt")
    (tmp_path / "runs/means/result.json").write_text(json.dumps({"accuracy": 80}))
    write_table(tmp_path / "runs", "backbone", 8)
    content = json.loads((tmp_path / "runs/plugins.json").read_text())
    costs = {row["name"]: row["whole_cost"] for row in content["rows"]}
    t, d, f = 8, 16, 24
    rest, head = 2 * (4 * t * d * d + 2 * t * t * d), d * d + 3 * d
    whole = (rest + 2 * 2 * t / 4 * d * f + head) / (rest + 2 * 2 * t * d * f + head)
    assert costs == {"backbone": 1.0, "means": pytest.approx(whole)}


def test_order_and_missing_scores(runs):
    (runs / "order.txt").write_text("k8\nbackbone\nnobody\n")
    (runs / "k2/result.json").write_text(json.dumps({"accuracy": 1.0}))
    rows = cells(write_table(runs, "backbone", 24))[2:]
    assert [row[0] for row in rows] == ["k8", "backbone", "k2", "means"]
    assert rows[2][7:] == ["-", "-"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"accuracy": "x"}', '{"total": 3}'])
def test_wrong_scores_are_refused(runs, content):
    (runs / "k2/result.json").write_text(content)
    with pytest.raises(UserError, match=r"k2/result.json: "):
        write_table(runs, "backbone", 24)


def test_refused(runs):
    with pytest.raises(UserError, match=r"no run teacher with a result.json"):
        write_table(runs, "teacher", 24)
    with pytest.raises(UserError, match="--length 0: give 1 or more"):
        write_table(runs, "backbone", 0)
    (runs / "k2/checkpoint_best.pt").unlink()
    with pytest.raises(UserError, match=r"k2/checkpoint_best.pt: no such file"):
        write_table(runs, "backbone", 24)


def test_cut_prompts_cost_what_shorter_ones_do(runs):
    """Of the model itself: nothing is trained, and there is nothing to store."""
    path = runs / "cut4/checkpoint_best.pt"
    path.parent.mkdir()
    path.symlink_to(runs / "backbone/checkpoint_best.pt")
    scores = {"accuracy": 70, "prompt_ms": 1.5, "cut": 4}
    (path.parent / "result.json").write_text(json.dumps(scores))
    rows = {row[0]: row for row in cells(write_table(runs, "backbone", 22))}
    d, f = 64, 1024
    short, whole = (4 * t * d * d + 2 * t * t * d + 2 * t * d * f for t in (6, 22))
    assert rows["cut4"][1:5] == ["4", "0", "0.00", f"{100 * short / whole:.1f}%"]
    kinds = {
        row["name"]: row["kind"] for row in json.loads((runs / "plugins.json").read_text())["rows"]
    }
    assert kinds["cut4"] == "cut prompts"
