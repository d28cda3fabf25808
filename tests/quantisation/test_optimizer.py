"""`--optimizer quantised_adam` against Adam written out in float64, and what it leaves alone."""

import copy
import io
import math

import pytest
import torch
from fairseq.optim import OPTIMIZER_DATACLASS_REGISTRY, OPTIMIZER_REGISTRY
from torch import nn

from pet_fairseq.errors import UserError
from pet_fairseq.quantisation.optimizer import QuantisedAdam, QuantisedAdamConfig
from pet_fairseq.quantisation.rounding import fake_quantise
from tests.helpers import batch, build

LR, BETAS, EPS, DECAY = 0.05, (0.9, 0.98), 1e-8, 0.1


def config(bits=4, **options) -> QuantisedAdamConfig:
    usual = {"adam_betas": str(BETAS), "adam_eps": EPS, "weight_decay": DECAY, "lr": [LR]}
    usual |= {"fp16": False, "bf16": False, "use_bmuf": False, "tpu": False}
    return QuantisedAdamConfig(quantised_bits=bits, **{**usual, **options})


def optimise(model: nn.Module, bits=4) -> QuantisedAdam:
    return QuantisedAdam(config(bits), [p for p in model.parameters() if p.requires_grad])


def update(model, optimizer, net_input) -> None:
    optimizer.zero_grad()
    logits = model(**net_input)[0]
    logits.logsumexp(-1).sum().backward()
    optimizer.clip_grad_norm(1.0)
    optimizer.step()


def values(model) -> dict:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def adam(master: list[float], gradients: list[list[float]]) -> list[float]:
    """A flat parameter after one update with each of the gradients (decoupled weight decay)."""
    first, second = [0.0] * len(master), [0.0] * len(master)
    for t, gradient in enumerate(gradients, start=1):
        for i, g in enumerate(gradient):
            first[i] = BETAS[0] * first[i] + (1 - BETAS[0]) * g
            second[i] = BETAS[1] * second[i] + (1 - BETAS[1]) * g * g
            master[i] -= LR * DECAY * master[i]
            step = LR * math.sqrt(1 - BETAS[1] ** t) / (1 - BETAS[0] ** t)
            master[i] -= step * first[i] / (math.sqrt(second[i]) + EPS)
    return master


def test_masters_follow_adam_and_the_model_the_masters():
    torch.manual_seed(3)
    begin = torch.randn(3, 4, dtype=torch.float64)
    parameter = nn.Parameter(begin.clone())
    optimizer = QuantisedAdam(config(), [parameter])
    assert torch.equal(parameter.detach(), fake_quantise(begin, 4))  # before the first gradient
    gradients = torch.randn(3, 3, 4, dtype=torch.float64)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    expected = adam(begin.flatten().tolist(), gradients.flatten(1).tolist())
    (master,) = optimizer.masters
    torch.testing.assert_close(master.flatten(), torch.tensor(expected, dtype=torch.float64))
    assert torch.equal(parameter.detach(), fake_quantise(master, 4))
    assert not torch.equal(parameter.detach(), master)


@pytest.mark.parametrize("bits", [8, 4])
def test_a_model_with_shared_slots_is_on_the_grid(bits):
    model = build(share_all_embeddings=True).train()
    optimizer = optimise(model, bits)
    assert len(optimizer.masters) == len(list(model.parameters()))  # each once
    begin = values(model)
    for _ in range(3):
        update(model, optimizer, batch())
    assert model.encoder.layers[0].fc1.weight is model.encoder.layers[2].fc1.weight
    for name, value in values(model).items():
        assert torch.equal(value, fake_quantise(value, bits)), name
        if value.dim() == 2:
            assert all(len(row.unique()) < 2**bits for row in value), name
    assert any(not torch.equal(value, begin[name]) for name, value in values(model).items())


def test_small_gradients_add_up():
    """An update that rounds to nothing alone is kept in the master."""
    parameter = nn.Parameter(torch.tensor([[1.0, 0.5]]))
    optimizer = QuantisedAdam(config(weight_decay=0.0, lr=[1e-3]), [parameter])
    begin = parameter.detach().clone()
    moved = []
    for _ in range(200):
        parameter.grad = torch.tensor([[0.0, -1.0]])
        optimizer.step()
        moved.append(not torch.equal(parameter.detach(), begin))
    assert not moved[0] and moved[-1]


def test_padding_and_frozen_parameters_stay():
    model = build().train()
    model.encoder.layers[1].requires_grad_(False)
    padding = model.encoder.padding_idx
    with torch.no_grad():
        model.encoder.embed_tokens.weight[padding] = 0
    frozen = values(model.encoder.layers[1])
    optimizer = optimise(model)
    for _ in range(2):
        update(model, optimizer, batch())
    assert not model.encoder.embed_tokens.weight[padding].any()
    assert all(torch.equal(v, frozen[name]) for name, v in values(model.encoder.layers[1]).items())


def test_goes_on_from_its_saved_state():
    whole = build().train()
    optimizer = optimise(whole)
    for _ in range(2):
        update(whole, optimizer, batch())
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    half = copy.deepcopy(whole)
    again = optimise(half)  # from the quantised weights, as fairseq builds it before it loads
    again.load_state_dict(torch.load(file, weights_only=True), {"lr": LR})
    net_input = batch()
    for model, its in ((whole, optimizer), (half, again)):
        update(model, its, net_input)
    for name, value in values(whole).items():
        assert torch.equal(value, values(half)[name]), name
    assert all(torch.equal(*pair) for pair in zip(optimizer.masters, again.masters))


@pytest.mark.parametrize(
    "bits, options, message",
    [
        (5, {}, "--quantised-bits 5: give 8 or 4"),
        (8, {"fp16": True}, "--fp16: with --optimizer quantised_adam .* leave it out"),
        (8, {"bf16": True}, "--bf16: "),
        (8, {"use_bmuf": True}, "--use-bmuf: "),
    ],
)
def test_refuses(bits, options, message):
    with pytest.raises(UserError, match=message):
        QuantisedAdam(config(bits, **options), [nn.Parameter(torch.ones(2, 2))])


def test_refuses_parameters_in_one_row():
    with pytest.raises(UserError, match="no matrix is trained"):
        QuantisedAdam(config(), [nn.Parameter(torch.ones(12))])


def test_registered():
    assert OPTIMIZER_REGISTRY["quantised_adam"] is QuantisedAdam
    assert OPTIMIZER_DATACLASS_REGISTRY["quantised_adam"] is QuantisedAdamConfig
