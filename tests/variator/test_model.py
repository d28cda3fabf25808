"""The model `variator` on real backbones: ratio 1, batches, padding, what is trained and saved."""

import argparse

import pytest
import torch
from fairseq.modules import MultiheadAttention as FairseqAttention

from pet_fairseq.errors import UserError
from pet_fairseq.variator.model import VariatorModel
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.plugin_files import move_plugins, new_plugins
from tests.translation import make_batch, make_model, make_task, save_model, save_state, select

BACKBONES = {
    "post-norm": ("transformer_tiny", {}),
    "pre-norm": (
        "transformer_tiny",
        {"encoder_normalize_before": True, "decoder_normalize_before": True},
    ),
    "pet": ("pet_transformer_tiny", {}),
    "bart": (
        "bart_base",
        {
            f"{stack}_{name}": value
            for stack in ("encoder", "decoder")
            for name, value in (
                *(("layers", 2), ("embed_dim", 32), ("ffn_embed_dim", 48)),
                *(("attention_heads", 2), ("output_dim", 32), ("input_dim", 32)),
            )
            if stack == "decoder" or name not in ("output_dim", "input_dim")
        },
    ),
}
SITES = ["ffn", "attention", "attention-kv"]


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


def make_variator(task, path, trained=True, **options):
    cfg = VariatorConfig(backbone_path=str(path), **{"bottleneck_dim": 8, **options})
    cfg._name = "variator"
    torch.manual_seed(3)
    model = VariatorModel.build_model(cfg, task)
    if trained:
        with torch.no_grad():
            for parameter in model.plugins.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def output(model, batch):
    with torch.no_grad():
        return model(**batch["net_input"])[0]


def left_padded(task, lengths, columns=None):
    return make_batch(task, lengths, columns=columns)


@pytest.mark.parametrize("kind", BACKBONES)
@pytest.mark.parametrize("site", SITES)
def test_ratio_1_is_the_backbone(kind, site, task, tmp_path):
    arch, options = BACKBONES[kind]
    path = save_model(tmp_path / "b.pt", task, arch, **options)
    backbone, _ = make_model(task, arch, **options)
    backbone.load_state_dict(torch.load(path, weights_only=True)["model"])
    model = make_variator(task, path, compression_site=site)
    batch = left_padded(task, [3, 7, 2, 6])
    backbone.eval()
    changed = output(model, batch)
    with model.compression_ratio(1):
        assert torch.equal(output(model, batch), output(backbone, batch))
    assert not torch.allclose(changed, output(backbone, batch), atol=1e-5)
    assert torch.equal(output(model, batch), changed)


@pytest.mark.parametrize("kind", BACKBONES)
@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("ratio", [2, 3, 4])
def test_a_batch_gives_what_its_sentences_give_alone(kind, site, ratio, task, tmp_path):
    arch, options = BACKBONES[kind]
    path = save_model(tmp_path / "b.pt", task, arch, **options)
    model = make_variator(task, path, compression_site=site, compression_ratio=ratio).double()
    lengths = [3, 7, 2, 6, 5]
    batch = left_padded(task, lengths)
    together = output(model, batch)
    for i, n in enumerate(lengths):
        alone = output(model, select(batch, [i], n))
        torch.testing.assert_close(together[i, :n], alone[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", BACKBONES)
def test_no_attention_is_fairseqs(kind, task, tmp_path):
    """In bfloat16 on CPUs trainings through fairseq's take longer."""
    arch, options = BACKBONES[kind]
    path = save_model(tmp_path / "b.pt", task, arch, **options)
    for site in SITES:
        model = make_variator(task, path, compression_site=site)
        assert not any(isinstance(module, FairseqAttention) for module in model.modules())


@pytest.mark.parametrize("site", SITES)
def test_an_encoder_alone(site, task, tmp_path):
    """RoBERTa: ratio 1 is the model itself, and a batch gives what its sentences give alone."""
    options = {
        **{"encoder_layers": 2, "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 48},
        **{"encoder_attention_heads": 2, "max_positions": 64},
    }
    path = save_model(tmp_path / "b.pt", task, "roberta", **options)
    backbone, _ = make_model(task, "roberta", **options)
    backbone.load_state_dict(torch.load(path, weights_only=True)["model"])
    backbone.eval()
    model = make_variator(task, path, compression_site=site, compression_ratio=3)
    lengths = [3, 7, 2, 6]
    tokens = make_batch(task, lengths)["target"]  # padded on the right

    def features(which, rows):
        with torch.no_grad():
            return which(rows, features_only=True)[0]

    with model.compression_ratio(1):
        assert torch.equal(features(model, tokens), features(backbone, tokens))
    model.double()
    together = features(model, tokens)
    for row, n, found in zip(tokens, lengths, together):
        alone = features(model, row[None, :n])[0]
        torch.testing.assert_close(found[:n], alone, rtol=1e-9, atol=1e-9)
        assert not torch.allclose(alone, features(backbone, row[None, :n])[0].double(), atol=1e-4)


@pytest.mark.parametrize("site", SITES)
def test_only_plugins_are_trained(site, task, tmp_path):
    path = save_model(tmp_path / "b.pt", task, attention_dropout=0.5, activation_dropout=0.5)
    model = make_variator(task, path, compression_site=site).train()
    batch = left_padded(task, [3, 7, 2, 6])
    first, second = model(**batch["net_input"])[0], model(**batch["net_input"])[0]
    assert torch.equal(first, second)  # no dropout, though the model is in training mode
    first.square().sum().backward()
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    assert trained == {n for n, p in model.named_parameters() if p.grad is not None}
    numbers = sum(p.numel() for p in model.parameters() if p.requires_grad)
    d, r, k = 64, 8, 4
    adapter = 0 if site == "attention-kv" else 3 * r * d + r + d
    assert numbers == 2 * (k * k * d + k + adapter)  # transformer_tiny has 2 encoder layers


def test_saves_plugins_only_and_loads_them(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    model = make_variator(task, path)
    state = model.state_dict()
    assert all(n.startswith("plugins.") or n == "backbone_hash" for n in state)
    again = make_variator(task, path, trained=False)
    batch = left_padded(task, [3, 7])
    assert not torch.equal(output(again, batch), output(model, batch))
    again.load_state_dict(dict(state), strict=True)
    assert torch.equal(output(again, batch), output(model, batch))


def save_plugins(path, model, cfg):
    save_state(path, model, argparse.Namespace(**vars(cfg)), {"_name": "translation"})
    return str(path)


def test_several_plugin_files_are_switched_per_call(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    batch = left_padded(task, [3, 7, 9])
    alone, files = {}, {}
    for ratio in (2, 4, 8):
        model = make_variator(task, path, compression_ratio=ratio)
        alone[ratio] = output(model, batch)
        files[ratio] = save_plugins(tmp_path / f"{ratio}.pt", model, model.cfg)
    both = make_variator(
        *(task, path, False), compression_ratio=2, plugin_path=f"{files[4]}:{files[8]}"
    )
    both.load_state_dict(torch.load(files[2], weights_only=True)["model"])
    assert both.ratios == [1, 2, 4, 8]
    for ratio in (8, 2, 4, 2):
        with both.compression_ratio(ratio):
            assert torch.equal(output(both, batch), alone[ratio])
    with pytest.raises(
        UserError, match=r"compression_ratio 16: the plugin files hold \[1, 2, 4, 8\]"
    ):
        both.set_compression_ratio(16)
    # as fairseq-generate does it with --model-overrides
    override = make_variator(task, path, False, compression_ratio=8, plugin_path=files[8])
    override.load_state_dict(torch.load(files[2], weights_only=True)["model"])
    assert torch.equal(output(override, batch), alone[8])
    without = make_variator(task, path, False, compression_ratio=8)
    with pytest.raises(UserError, match=r"compression_ratio 8: the plugin file holds \[2\]"):
        without.load_state_dict(torch.load(files[2], weights_only=True)["model"])


def test_plugins_of_the_checkpoints_ratio_in_another_form(task, tmp_path):
    """Its weights would run with the other file's options: the shapes do not tell them apart."""
    path = save_model(tmp_path / "b.pt", task)
    batch = left_padded(task, [3, 7, 9])
    plain = {"compression_ratio": 3, "adapter_activation": "none"}
    models = [make_variator(task, path, **options) for options in ({"compression_ratio": 3}, plain)]
    for parameter in models[1].plugins.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    files = [save_plugins(tmp_path / f"{i}.pt", model, model.cfg) for i, model in enumerate(models)]
    states = [torch.load(file, weights_only=True)["model"] for file in files]
    mixed = make_variator(task, path, False, compression_ratio=3, plugin_path=files[1])
    with pytest.raises(UserError, match=r"--plugin-path .*1.pt: holds plugins of ratio 3 in anot"):
        mixed.load_state_dict(states[0])
    # a training that goes on with the file saves its form, and starts again from that
    assert mixed.cfg.adapter_activation == "none"
    assert torch.equal(output(mixed, batch), output(models[1], batch))
    again = make_variator(task, path, False, plugin_path=files[1], **plain)
    again.load_state_dict(states[1])
    assert torch.equal(output(again, batch), output(models[1], batch))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_plugins_of_another_form_that_a_training_stored_beside_its_own(dtype, task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    batch = left_padded(task, [3, 7, 9])
    eight = {"compression_ratio": 8, "adapter_activation": "none", "bottleneck_dim": 5}
    alone = make_variator(task, path, **eight)
    file = save_plugins(tmp_path / "8.pt", alone, alone.cfg)
    both = make_variator(task, path, False, compression_ratio=2, plugin_path=file)
    state = {
        name: t.to(dtype) if t.is_floating_point() else t for name, t in both.state_dict().items()
    }
    again = make_variator(task, path, False, compression_ratio=8, plugin_path=file)
    again.load_state_dict(state)
    assert torch.allclose(output(again, batch), output(alone, batch), atol=1e-2)
    assert again.plugins[0]["8"].activation == "none"


def test_only_the_plugins_of_the_ratio_in_use_are_trained(task, tmp_path):
    """Not those of --plugin-path, nor those that a file holds beside."""
    path = save_model(tmp_path / "b.pt", task)
    eight = make_variator(task, path, compression_ratio=8)
    file = save_plugins(tmp_path / "8.pt", eight, eight.cfg)
    both = make_variator(task, path, compression_ratio=2, plugin_path=file)
    again = make_variator(task, path, compression_ratio=2)
    again.load_state_dict(both.state_dict())
    for model in (both, again):
        by_ratio = {name.split(".")[2]: [] for name, _ in model.plugins.named_parameters("plugins")}
        for name, parameter in model.plugins.named_parameters("plugins"):
            by_ratio[name.split(".")[2]].append(parameter.requires_grad)
        assert {k: set(v) for k, v in by_ratio.items()} == {"2": {True}, "8": {False}}


def test_a_changed_backbone_is_refused_by_name(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    state = make_variator(task, path).state_dict()
    other = save_model(tmp_path / "other.pt", task)
    model = make_variator(task, other)
    with pytest.raises(UserError, match=r"--backbone-path .*other.pt: not the file that"):
        model.load_state_dict(dict(state))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"compression_ratio": 0}, "--compression-ratio 0: give 2 or more"),
        ({"compression_ratio": -3}, "--compression-ratio -3: give 2 or more"),
        ({"bottleneck_dim": 0}, "--bottleneck-dim 0: give 1 or more"),
        ({"backbone_path": ""}, "--backbone-path: missing"),
        ({"backbone_path": "/none.pt"}, "--backbone-path /none.pt: no such file"),
    ],
)
def test_bad_options(options, message, task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    with pytest.raises(UserError, match=message):
        make_variator(task, options.pop("backbone_path", path), **options)


def test_plugins_for_another_width_or_site(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    plugins = make_variator(task, path)
    file = save_plugins(tmp_path / "p.pt", plugins, plugins.cfg)
    with pytest.raises(UserError, match="made for --compression-site ffn, not attention"):
        make_variator(task, path, compression_site="attention", plugin_path=file)
    wide = save_model(tmp_path / "w.pt", task, encoder_embed_dim=32, decoder_embed_dim=32)
    with pytest.raises(UserError, match=r"w.pt: not the file that .*p.pt was trained on"):
        make_variator(task, wide, plugin_path=file)
    with pytest.raises(UserError, match=r"b.pt: holds no plugins"):
        make_variator(task, path, plugin_path=path)
    with pytest.raises(UserError, match=r"p.pt: holds a compressed model, not a backbone"):
        make_variator(task, file)


def test_plugins_are_moved_to_another_backbone(task, tmp_path):
    before, after = (save_model(tmp_path / f"{name}.pt", task) for name in ("before", "after"))
    trained = make_variator(task, before)
    file = save_plugins(tmp_path / "p.pt", trained, trained.cfg)
    moved = tmp_path / "moved.pt"
    move_plugins(file, after, moved)
    state = torch.load(moved, weights_only=True)
    assert state["cfg"]["model"].backbone_path == after
    model = make_variator(task, after, trained=False)
    model.load_state_dict(state["model"])
    ours, theirs = model.plugins.state_dict(), trained.plugins.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    for options in ({"encoder_layers": 1}, {"encoder_layers": 3}, {"encoder_embed_dim": 32}):
        other = save_model(tmp_path / "other.pt", task, **options)
        with pytest.raises(UserError, match=r"PLUGINS .*p.pt: made for a model of another width"):
            move_plugins(file, other, tmp_path / "none.pt")
    with pytest.raises(UserError, match=r"PLUGINS .*after.pt: holds no plugins"):
        move_plugins(after, before, tmp_path / "none.pt")
    with pytest.raises(UserError, match=r"--backbone-path .*p.pt: holds a compressed model, not"):
        move_plugins(file, file, tmp_path / "none.pt")
    with pytest.raises(UserError, match=r"--backbone-path .*p.pt: holds a compressed model, not"):
        new_plugins(VariatorConfig(backbone_path=file), tmp_path / "none.pt")
    assert not (tmp_path / "none.pt").exists()


def test_plugins_without_parameters_need_no_training(task, tmp_path):
    backbone, file = save_model(tmp_path / "b.pt", task), tmp_path / "p.pt"
    options = {"compression": "mean", "decompression": "copy", "compression_ratio": 3}
    new_plugins(VariatorConfig(backbone_path=backbone, **options), file)
    state = torch.load(file, weights_only=True)
    assert list(state["model"]) == ["backbone_hash"]
    assert state["cfg"]["model"]["compression"] == "mean"
    model = make_variator(task, backbone, **options)
    batch = left_padded(task, [3, 7])
    before = output(model, batch)
    model.load_state_dict(state["model"])
    assert torch.equal(output(model, batch), before)
    for ratio in (0, 1):
        with pytest.raises(UserError, match=f"--compression-ratio {ratio}: give 2 or more"):
            new_plugins(VariatorConfig(backbone_path=backbone, compression_ratio=ratio), file)


def test_plugins_are_a_small_file(task, tmp_path):
    """At k 4, r 64, d 512 at most 1.5% of the model's bytes, though its dictionary is tiny here."""
    backbone = save_model(tmp_path / "b.pt", task, "transformer")
    new_plugins(VariatorConfig(backbone_path=backbone), tmp_path / "p.pt")
    sizes = [(tmp_path / name).stat().st_size for name in ("b.pt", "p.pt")]
    assert sizes[0] > 170e6 and sizes[1] < 0.015 * sizes[0]
