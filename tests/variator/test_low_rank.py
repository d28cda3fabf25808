"""The model `low_rank` against copies of its backbone whose weights are changed by hand."""

import copy
from argparse import Namespace

import pytest
import torch
from torch.nn.functional import cross_entropy

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.nn.attention import replace_fairseq_attention
from pet_fairseq.variator.low_rank import LowRankConfig, LowRankModel
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.plugin_files import new_plugins
from tests.translation import make_batch, make_model, make_task, save_model, save_state
from tests.variator.test_criterion import HEAD, make_criterion, make_sentences
from tests.variator.test_criterion import class_task as class_task  # fixture
from tests.variator.test_decoder_only import KINDS, TINY, make_tokens
from tests.variator.test_decoder_only import task as lm_task  # noqa: F401  fixture
from tests.variator.test_imported import CLASSIFIERS, ENCODER, TRANSLATORS
from tests.variator.test_model import BACKBONES

ENCODER_DECODERS = {k: v for k, v in (TRANSLATORS | BACKBONES).items() if k != "pet"}
CONVOLUTIONS = {
    **{"encoder_layers": "[(8, 3)]", "decoder_layers": "[(8, 3)]"},
    **{"max_source_positions": 64, "max_target_positions": 64},
}
PARTS = ("self_attn", "encoder_attn")


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


def make(task, path, filled=True, **options):
    """A model in eval mode, with updates that are not zero."""
    cfg = LowRankConfig(backbone_path=str(path), **{"lora_rank": 3, "lora_alpha": 5.0, **options})
    cfg._name = "low_rank"
    model = LowRankModel.build_model(cfg, task)
    torch.manual_seed(2)
    with torch.no_grad():
        for up in model.low_rank.up if filled else ():
            up.normal_(std=0.3)
    return model.eval()


def load_plainly(task, path, kind):
    """The backbone in the file, without any wrapper, in eval mode."""
    arch, options = kind
    backbone, _ = make_model(task, arch, **options)
    backbone.load_state_dict(load_checkpoint(str(path), "--backbone-path")["model"])
    replace_fairseq_attention(backbone)  # fairseq's takes a softmax in float32
    return backbone.eval()


def merge_slowly(backbone, model):
    """Add alpha / r B A to the maps of queries and values, layer by layer."""
    layers = []
    for stack in (getattr(backbone, "encoder", None), getattr(backbone, "decoder", None)):
        layers += getattr(getattr(stack, "sentence_encoder", stack), "layers", [])
    attentions = [getattr(layer, part, None) for layer in layers for part in PARTS]
    attentions = [attention for attention in attentions if attention is not None]
    updates, cfg = model.low_rank, model.cfg
    assert len(updates.up) == len(updates.down) == 2 * len(attentions) > 0
    changes = iter(zip(updates.up, updates.down))
    with torch.no_grad():
        for attention in attentions:
            for name in ("q_proj", "v_proj"):
                up, down = next(changes)
                attention.get_submodule(name).weight += cfg.lora_alpha / cfg.lora_rank * (up @ down)


def check_merging(model, plain, run):
    """The model, the model merged, and a model changed by hand give the same in float64."""
    model.double(), plain.double()
    unchanged = run(plain)
    merge_slowly(plain, model)
    with torch.no_grad():
        found, expected = run(model), run(plain)
        assert not torch.allclose(expected, unchanged, atol=1e-3)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        merged = model.merge()
        assert set(merged.state_dict()) == set(plain.state_dict())
        torch.testing.assert_close(run(merged), expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(run(model), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ENCODER_DECODERS)
def test_encoder_decoders(kind, task, tmp_path):
    arch, options = ENCODER_DECODERS[kind]
    path = save_model(tmp_path / "b.pt", task, arch, **options)
    plain = load_plainly(task, path, (arch, options))
    net_input = make_batch(task, [3, 7, 2, 6])["net_input"]
    check_merging(make(task, path), plain, lambda model: model(**net_input)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_language_models(kind, lm_task, tmp_path):  # noqa: F811
    arch, sizes = KINDS[kind]
    path = save_model(tmp_path / "lm.pt", lm_task, arch, **TINY | sizes)
    plain = load_plainly(lm_task, path, (arch, TINY | sizes))
    tokens = make_tokens(lm_task, [(5, 4), (3, 3)])
    check_merging(make(lm_task, path), plain, lambda model: model(tokens)[0])


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_new_head_is_trained_and_merged(kind, class_task, tmp_path):
    arch, options = CLASSIFIERS[kind]
    path = save_model(tmp_path / "b.pt", class_task, arch, **options)  # pre-trained: no head

    def build():
        model = make(class_task, path)
        model.register_classification_head(HEAD, num_classes=3)
        return model

    def run(model):
        return model(**net_input, features_only=True, classification_head_name=HEAD)[0]

    net_input = make_sentences(class_task, [3, 7, 2, 6])["net_input"]
    del net_input["prev_output_tokens"]
    model, again = build(), build()
    assert {n for n, p in model.named_parameters() if p.requires_grad} >= {
        f"backbone.classification_heads.{HEAD}.out_proj.weight"
    }
    with torch.no_grad():
        model.heads[HEAD].out_proj.weight.normal_()
    expected = run(model)
    assert not torch.equal(run(again), expected)
    again.load_state_dict(copy.deepcopy(model.state_dict()), strict=True)
    assert torch.equal(run(again), expected)
    merged = model.merge()
    assert f"classification_heads.{HEAD}.out_proj.weight" in merged.state_dict()
    torch.testing.assert_close(run(merged), expected)


def test_a_head_for_other_classes_is_made_anew(class_task, tmp_path):
    path = save_model(tmp_path / "b.pt", class_task, *CLASSIFIERS["roberta"][:1], **ENCODER)
    model = make(class_task, path)
    for classes in (3, 2, 2):
        before = dict(model.heads).get(HEAD)
        model.register_classification_head(HEAD, num_classes=classes)
        assert model.heads[HEAD].out_proj.out_features == classes
    assert model.heads[HEAD] is before  # the third time it was there


def test_only_the_updates_are_trained_and_saved(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    model, other = make(task, path, dropout=0.0).train(), make(task, path, filled=False)
    maps = len(model.low_rank.up)
    names = {f"low_rank.{side}.{i}" for side in ("down", "up") for i in range(maps)}
    assert {n for n, p in model.named_parameters() if p.requires_grad} == names
    assert set(model.state_dict()) == names | {"backbone_hash"}
    batch = make_batch(task, [3, 7, 2])
    logits = model(**batch["net_input"])[0]
    cross_entropy(logits.flatten(0, 1), batch["target"].flatten(), ignore_index=1).backward()
    assert all(p.grad is not None and p.grad.any() for p in model.low_rank.parameters())
    assert all(p.grad is None for n, p in model.named_parameters() if n not in names)
    other.load_state_dict(copy.deepcopy(model.state_dict()), strict=True)
    model.eval()
    with torch.no_grad():
        found, expected = (m(**batch["net_input"])[0] for m in (other, model))
    assert torch.equal(found, expected)


def test_without_training_it_is_its_backbone(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    plain = load_plainly(task, path, ("transformer_tiny", {}))
    net_input = make_batch(task, [3, 7, 2])["net_input"]
    with torch.no_grad():
        model = make(task, path, filled=False)
        assert torch.equal(model(**net_input)[0], plain(**net_input)[0])


@pytest.mark.parametrize("checkpointing", ["checkpoint_activations", "offload_activations"])
def test_a_backbone_with_checkpointed_activations(checkpointing, task, tmp_path):
    """The gradients are those of the same model without that option, and none is zero."""
    path = save_model(tmp_path / "b.pt", task)
    state = torch.load(path, weights_only=False)
    vars(state["cfg"]["model"]).update({"checkpoint_activations": True, checkpointing: True})
    torch.save(state, tmp_path / "c.pt")
    net_input = make_batch(task, [3, 7, 2])["net_input"]
    gradients = []
    for file in (path, tmp_path / "c.pt"):
        torch.manual_seed(1)
        model = make(task, file).train()
        model(**net_input)[0].square().mean().backward()
        gradients.append({n: p.grad for n, p in model.low_rank.named_parameters()})
    assert all(gradient.any() for gradient in gradients[0].values())
    torch.testing.assert_close(*gradients)


def test_dropout(task, tmp_path):
    """The model's own, where nothing else is said: it is trained as any other model."""
    path = save_model(tmp_path / "b.pt", task, dropout=0.4)
    net_input = make_batch(task, [3, 7, 2])["net_input"]
    for options, same in (({}, False), ({"dropout": 0.0}, True), ({"dropout": 0.3}, False)):
        model = make(task, path, **options).train()
        assert torch.equal(*(model(**net_input)[0] for _ in range(2))) is same


def test_dropout_in_a_new_head(class_task, tmp_path):
    path = save_model(tmp_path / "b.pt", class_task, "roberta", **ENCODER, pooler_dropout=0.4)
    for options, expected in (({}, 0.4), ({"dropout": 0.2}, 0.2)):
        model = make(class_task, path, **options)
        model.register_classification_head(HEAD, num_classes=3)
        assert model.heads[HEAD].dropout.p == expected


def test_plugins_stand_around_a_merged_model_only(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    model, args = make(task, path), make_model(task)[1]
    args._name = "transformer_tiny"
    options = {**vars(task.cfg), "_name": "translation"}
    save_state(tmp_path / "low_rank.pt", model, Namespace(**vars(model.cfg)), options)
    message = (
        "low_rank.pt: holds changes of a model; merge it first by pet-fairseq export --to fair"
    )
    with pytest.raises(UserError, match=f"^--backbone-path .*{message}"):
        new_plugins(
            VariatorConfig(backbone_path=str(tmp_path / "low_rank.pt")), tmp_path / "plugins.pt"
        )
    save_state(tmp_path / "merged.pt", model.merge(), args, options)
    new_plugins(VariatorConfig(backbone_path=str(tmp_path / "merged.pt")), tmp_path / "plugins.pt")


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"lora_rank": 0}, "--lora-rank 0: give 1 or more"),
        ({"lora_alpha": -1.0}, "--lora-alpha -1: give more than 0, but not inf"),
        ({"dropout": 1.0}, r"--dropout 1.0: give 0 or more, less than 1"),
        ({"path": ""}, "--backbone-path: missing; give the checkpoint"),
    ],
)
def test_bad_options(options, message, task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    with pytest.raises(UserError, match=f"^{message}"):
        make(task, **{"path": path, **options})


def test_backbones_that_cannot_be_updated(task, tmp_path):
    path = save_model(tmp_path / "conv.pt", task, "fconv", **CONVOLUTIONS)
    with pytest.raises(
        UserError, match=r"^--lora-rank 3: the backbone's layers have no attention "
    ):
        make(task, path)
    path = save_model(tmp_path / "pet.pt", task, *BACKBONES["pet"][:1])
    with pytest.raises(UserError, match=r"^--lora-rank 3: the backbone's layers share weights of"):
        make(task, path)


def test_files_that_do_not_fit(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    state = make(task, path).state_dict()
    with pytest.raises(UserError, match=r"^--lora-rank 2: the checkpoint has updates of rank 3;"):
        make(task, path, lora_rank=2).load_state_dict(copy.deepcopy(state))
    torch.manual_seed(9)
    other = save_model(tmp_path / "other.pt", task)
    with pytest.raises(
        UserError, match=r"^--backbone-path .*other.pt: not the file that the check"
    ):
        make(task, other).load_state_dict(copy.deepcopy(state))


def test_it_has_no_teacher(task, tmp_path):
    model = make(task, save_model(tmp_path / "b.pt", task))
    message = (
        "^--arch: variator_distillation trains first_layers, narrow_ffn, token_pruning, variator "
    )
    with pytest.raises(UserError, match=message):
        make_criterion(task)(model, make_batch(task, [3, 7]))
