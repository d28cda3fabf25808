"""Low-rank updates of the backbone, against a slow model with merged copies of it."""

import copy
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from pet_fairseq.errors import UserError
from pet_fairseq.nn.parameter_counts import count_parameters
from pet_fairseq.selfcp.bank import demonstrations
from pet_fairseq.selfcp.compressor import make_low_rank
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.options import SelfCpConfig
from pet_fairseq.selfcp.task import SelfCpTask, SelfCpTaskConfig
from tests.selfcp.test_model import (
    KINDS,
    LENGTHS,
    TINY,
    make_sample,
    make_selfcp,
    prefix_slowly,
    read_slowly,
)
from tests.selfcp.test_model import task as task  # fixture
from tests.translation import save_model, save_state

PLACES = ("compressor", "reader")
TRAINED = {"encoder.memory_tag", "encoder.connector.weight", "encoder.connector.bias"}


def make(task, tmp_path, kind="post-norm", place="reader", **options):
    """A model whose updates are not zero."""
    model = make_selfcp(task, tmp_path, kind, lora_rank=3, lora_on=place, **options)
    torch.manual_seed(2)
    with torch.no_grad():
        for up in model.encoder.low_rank.up:
            up.normal_(std=0.3)
    return model


# --- the reference --------------------------------------------------------------------------------


def plain_and_merged(task, tmp_path, model, kind):
    """Two models without updates: the frozen backbone, and one with W + alpha / r B A in it."""
    plain = make_selfcp(task, tmp_path, kind, prompt_strategy=model.cfg.prompt_strategy)
    for name in ("memory_tag", "connector"):
        setattr(plain.encoder, name, getattr(model.encoder, name))
    merged = copy.deepcopy(plain)
    updates = model.encoder.low_rank
    attentions = [layer.self_attn for layer in merged.decoder.inner.layers]
    weights = [a.get_submodule(n).weight for a in attentions for n in ("q_proj", "v_proj")]
    assert len(weights) == len(updates.up) == len(updates.down)
    with torch.no_grad():
        for weight, up, down in zip(weights, updates.up, updates.down):
            weight += model.cfg.lora_alpha / model.cfg.lora_rank * (up @ down)
    return plain, merged


def logits_slowly(models, place, sample, i):
    """R x V for one sentence alone: memory is made by one of the models, the rest by another."""
    plain, merged = models
    compressor, reader = (merged, plain) if place == "compressor" else (plain, merged)
    net_input = sample["net_input"]
    row = net_input["src_tokens"][i, : net_input["src_lengths"][i]].tolist()
    head = row.index(0)  # of <s>
    ratio = float(net_input["ratios"][i])
    vectors, embedded = prefix_slowly(compressor, row[:head], row[head + 1 :], ratio)
    response = net_input["prev_output_tokens"][i, 1:]
    inner = reader.decoder.inner
    states = read_slowly(inner, vectors + embedded(response[response != 1].tolist()))
    return inner.output_layer(states[len(vectors) - 1 :])


# --- tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["post-norm", "pre-norm", "llama", "qwen3"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("strategy", ["former", "recursive", "truncate"])
def test_logits_equal_those_of_merged_weights(kind, place, strategy, task, tmp_path):
    model = make(task, tmp_path, kind, place, prompt_strategy=strategy, lora_alpha=5)
    models = plain_and_merged(task, tmp_path, model, kind)
    sample = make_sample(task, LENGTHS)
    with torch.no_grad():
        found = model(**sample["net_input"])[0]
        without = models[0](**sample["net_input"])[0]
        for i in range(len(LENGTHS)):
            expected = logits_slowly(models, place, sample, i)
            torch.testing.assert_close(found[i, : len(expected)], expected)
    used = place == "reader" or strategy != "truncate"
    assert torch.allclose(found, without) != used


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_a_new_model_is_the_one_without_updates(kind, place, task, tmp_path):
    model = make_selfcp(task, tmp_path, kind, lora_rank=2, lora_on=place)
    without = make_selfcp(task, tmp_path, kind)
    sample = make_sample(task, LENGTHS)
    with torch.no_grad():
        found, expected = (m(**sample["net_input"])[0] for m in (model, without))
    assert torch.equal(found, expected)


def test_what_has_no_updates_is_the_frozen_model_bit_by_bit(task, tmp_path):
    model = make(task, tmp_path, place="compressor", prompt_strategy="truncate")
    without = make_selfcp(task, tmp_path, prompt_strategy="truncate")
    sample = make_sample(task, LENGTHS)
    with torch.no_grad():
        found, expected = (m(**sample["net_input"])[0] for m in (model, without))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("kind", ["pre-norm", "learned", "llama"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("beam", [1, 3])
def test_generation_equals_running_all_again_each_step(kind, place, beam, task, tmp_path):
    model = make(task, tmp_path, kind, place, prompt_strategy="latter").eval()
    models = plain_and_merged(task, tmp_path, model, kind)
    sample = make_sample(task, LENGTHS)
    generator = SequenceGenerator(
        [model], task.dictionary, beam_size=beam, max_len_a=0, max_len_b=6
    )
    for i, hypotheses in enumerate(generator.generate([model], sample)):
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            again = {k: v[i : i + 1] for k, v in sample["net_input"].items()}
            again["prev_output_tokens"] = torch.cat([torch.tensor([2]), tokens[:-1]])[None]
            with torch.no_grad():
                scores = logits_slowly(models, place, {"net_input": again}, 0).log_softmax(dim=-1)
            expected = scores.gather(1, tokens[:, None])[:, 0]
            found = hypothesis["positional_scores"].double()
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def trained_names(model):
    return {name for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["post-norm", "llama"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_reach_the_matrices_only(kind, place, recompute, task, tmp_path, monkeypatch):
    if recompute:  # the backbone was trained with --checkpoint-activations
        monkeypatch.setitem(KINDS[kind][1], "checkpoint_activations", True)
    model = make(task, tmp_path, kind, place, prompt_strategy="former").train()
    updates = {f"encoder.low_rank.{side}.{i}" for side in ("down", "up") for i in range(4)}
    assert trained_names(model) == TRAINED | updates
    sample = make_sample(task, [(2, 5), (1, 23)])
    real = sample["target"] != 1

    def loss():
        scores = model(**sample["net_input"])[0].log_softmax(dim=-1)
        return -scores.gather(2, sample["target"][..., None])[..., 0][real].sum()

    loss().backward()
    assert {n for n, p in model.named_parameters() if p.grad is not None} == TRAINED | updates
    for parameter in model.encoder.low_rank.parameters():
        flat, grad = parameter.detach().view(-1), parameter.grad.view(-1)
        for i in torch.randperm(len(flat))[:2].tolist():
            ends = []
            for step in (1e-6, -1e-6):
                flat[i] += step
                ends.append(float(loss().detach()))
                flat[i] -= step
            assert grad[i].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-6)


def test_updates_without_a_part_in_a_batch_get_zeros(task, tmp_path):
    """As processes that train together need it."""
    model = make(task, tmp_path, place="compressor", prompt_strategy="truncate").train()
    model(**make_sample(task, LENGTHS)["net_input"])[0].sum().backward()
    for name in trained_names(model):
        assert not model.get_parameter(name).grad.any(), name


@pytest.mark.parametrize("kind", ["post-norm", "llama"])
def test_saved_once_and_loaded_again(kind, task, tmp_path):
    model = make(task, tmp_path, kind)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    updates = {f"encoder.low_rank.{side}.{i}" for side in ("down", "up") for i in range(4)}
    assert set(state) == TRAINED | updates | {"backbone_hash", "dictionary_hash"}
    again = SelfCpModel.build_model(model.cfg, task).double()
    again.load_state_dict(dict(state), strict=True)
    sample = make_sample(task, LENGTHS)
    with torch.no_grad():
        assert torch.equal(again(**sample["net_input"])[0], model(**sample["net_input"])[0])
    for rank in (0, 2):
        other = make_selfcp(task, tmp_path, kind, lora_rank=rank)
        with pytest.raises(UserError, match=f"^--lora-rank {rank}: .* has updates of rank 3"):
            other.load_state_dict(dict(state))


def test_counted_once(task, tmp_path):
    model, without = make(task, tmp_path), make_selfcp(task, tmp_path)
    more = [a - b for a, b in zip(count_parameters(model), count_parameters(without))]
    assert more == 3 * [4 * 3 * (16 + 16)]  # 4 maps of 16 x 16 with rank 3


def test_training_goes_on_as_if_it_had_not_stopped(task, tmp_path):
    sample = make_sample(task, LENGTHS)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(**sample["net_input"])[0].square().mean().backward()
        optimizer.step()

    def start(state=None):
        model = make(task, tmp_path, place="compressor", prompt_strategy="former").train()
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
        if state is not None:
            model.load_state_dict(state[0])
            optimizer.load_state_dict(state[1])
        return model, optimizer

    model, optimizer = start()
    step(model, optimizer)
    resumed = start(copy.deepcopy((model.state_dict(), optimizer.state_dict())))
    for run in ((model, optimizer), resumed):
        step(*run)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, resumed[0].state_dict()[name]), name


NEWER = ("lora_rank", "lora_alpha", "lora_on", "memory_tags")  # options of the model


def test_checkpoints_from_before_these_options(task, tmp_path):
    model = make_selfcp(task, tmp_path).float()
    options = {k: v for k, v in vars(model.cfg).items() if k not in NEWER}
    model_options = Namespace(**{**options, "_name": "selfcp"})
    prompts = SelfCpTask.setup_task(SelfCpTaskConfig(data=str(tmp_path), seed=1))
    path = tmp_path / "old.pt"
    save_state(path, model, model_options, {**vars(prompts.cfg), "_name": "selfcp"})
    (again,), _ = checkpoint_utils.load_model_ensemble([str(path)], task=prompts)
    assert again.encoder.low_rank is None
    assert again.encoder.weights_hash == model.encoder.weights_hash
    updated = make_selfcp(task, tmp_path, lora_rank=2)  # a start from such a checkpoint
    updated.load_state_dict(dict(model.state_dict()))


def test_a_bank_is_that_of_the_updates(task, tmp_path):
    model = make(task, tmp_path, place="compressor")
    known = demonstrations.made_with(model.encoder)
    assert known == demonstrations.made_with(make(task, tmp_path, place="compressor").encoder)
    with torch.no_grad():
        model.encoder.low_rank.down[3][0, 0] += 1
    others = [
        model,
        make_selfcp(task, tmp_path, lora_rank=3),
        make_selfcp(task, tmp_path),
        make(task, tmp_path, place="compressor", lora_alpha=8),
        make(task, tmp_path, place="reader"),
    ]
    found = {demonstrations.made_with(other.encoder)["connector"] for other in others}
    assert len(found) == 5 and known["connector"] not in found


@pytest.mark.parametrize(
    "options, message",
    [
        ({"lora_rank": -1}, "--lora-rank -1: give 0 or more"),
        ({"lora_rank": 2, "lora_alpha": 0}, "--lora-alpha 0: give more than 0"),
        ({"lora_rank": 2, "lora_alpha": float("nan")}, "--lora-alpha nan: give more than 0"),
        ({"lora_rank": 2, "lora_on": "both"}, "--lora-on both: give one of compressor, reader"),
    ],
)
def test_bad_options(options, message, task, tmp_path):
    with pytest.raises(UserError, match=message):
        make_selfcp(task, tmp_path, **options)


def test_backbones_without_these_maps(task, tmp_path):
    decoder = nn.Module()
    decoder.layers = nn.ModuleList([nn.Linear(2, 2)])
    with pytest.raises(UserError, match=r"^--lora-rank 2: the backbone's layers have no attention"):
        make_low_rank(decoder, SelfCpConfig(lora_rank=2))
    convolutions = {
        **{"decoder_layers": 1, "decoder_kernel_size_list": [3], "decoder_embed_path": None},
        **{"decoder_conv_type": "lightweight", "weight_softmax": True, "decoder_glu": True},
        **{"attention_dropout": 0.0, "relu_dropout": 0.0, "input_dropout": 0.0},
        **{"no_token_positional_embeddings": False, "adaptive_input": False},
    }
    path = save_model(tmp_path / "conv.pt", task, "lightconv_lm", **{**TINY, **convolutions})
    with pytest.raises(UserError, match=r"conv.pt: not a decoder-only Transformer; give a transf"):
        SelfCpModel.build_model(SelfCpConfig(backbone_path=path, window=7, lora_rank=2), task)
