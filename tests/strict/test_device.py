"""The strict device itself: it computes, refuses and counts."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.strict_device import DEVICE, StrictTensor, move, strict_device, to_cpu, waits_of


@pytest.fixture(autouse=True)
def waits():
    with strict_device() as waits:
        yield waits


def test_makes_tensors_in_every_way():
    made = [
        torch.zeros(2, 3, device=DEVICE),
        torch.full((2,), 7, device=DEVICE),
        torch.arange(5, device=DEVICE),
        torch.tensor([1.0, 2.0], device=DEVICE),
        torch.ones(3).to(DEVICE).new_zeros(4),
        torch.zeros_like(torch.ones(3).to(DEVICE)),
        torch.empty(2, device=DEVICE, dtype=torch.float16).fill_(3),
    ]
    assert all(isinstance(x, StrictTensor) and x.device == torch.device(DEVICE) for x in made)
    assert [to_cpu(x).sum().item() for x in made] == [0, 14, 10, 3, 0, 0, 6]
    assert torch.zeros(2).device.type == "cpu"


def test_draws_what_the_cpu_draws():
    torch.manual_seed(3)
    expected = torch.rand(4), nn.functional.dropout(torch.ones(8), 0.5)
    torch.manual_seed(3)
    drawn = torch.rand(4, device=DEVICE), nn.functional.dropout(torch.ones(8).to(DEVICE), 0.5)
    assert_close(to_cpu(drawn), expected)


def test_gradients_and_an_optimizer():
    def train(device):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Embedding(9, 4), nn.LayerNorm(4), nn.Linear(4, 9)).to(device)
        model[2].weight = model[0].weight
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.arange(6, device=device)).square().mean().backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    trained = train(DEVICE)
    assert all(isinstance(p, StrictTensor) for p in trained)
    assert_close(to_cpu(trained), train("cpu"))


def test_tied_parameters_stay_tied_and_modules_can_be_copied():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    for moved in (model.to(DEVICE), copy.deepcopy(model), model.half(), model.to("cpu")):
        assert moved[0].weight is moved[1].weight
    assert not isinstance(model[0].weight, StrictTensor)


def test_inference_mode():
    linear = nn.Linear(3, 2).to(DEVICE)
    x = torch.ones(4, 3).to(DEVICE)
    with torch.inference_mode():
        y = linear(x)
        y[:, 0] = 1
        y = torch.cat([y.transpose(0, 1), y.new_zeros(2, 1)], dim=1).view(-1)
    assert y.is_inference() and to_cpu(y)[0] == 1


def test_views_share_memory_and_in_place_operations_work():
    x = torch.zeros(3, 4, device=DEVICE)
    x[1].add_(2)
    x.view(-1)[0] = 5
    x.t()[3, 2] = 7
    row = x[1]
    row.unsqueeze_(0)
    assert row.shape == (1, 4)
    expected = torch.zeros(3, 4)
    expected[1], expected[0, 0], expected[2, 3] = 2, 5, 7
    assert_close(to_cpu(x), expected)


@pytest.mark.parametrize(
    "meet",
    [
        lambda x, y: x + y,
        lambda x, y: y + x,
        lambda x, y: x @ y,
        lambda x, y: torch.cat([x, y]),
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: x.index_select(0, y[0].long()),
        lambda x, y: nn.functional.linear(x, y),
        lambda x, y: y[x.long()],
        lambda x, y: x.index_put_((x > 0,), y[0]),
        lambda x, y: torch.stack([x.sum(), y.sum()]),
        lambda x, y: y * x.sum(),  # only the CPU's scalars travel
        lambda x, y: nn.Linear(2, 2)(x),
    ],
)
def test_refuses_to_meet_the_cpu(meet):
    with pytest.raises(RuntimeError, match="same device"):
        meet(torch.ones(2, 2).to(DEVICE), torch.ones(2, 2))


def test_meets_the_cpus_scalars_and_indices():
    x, cpu = torch.ones(2, 2).to(DEVICE), torch.tensor(3.0)
    met = [x * cpu, cpu + x, torch.where(x > 0, cpu, x), x.masked_fill(x > 0, cpu)]
    met += [x[torch.tensor([0])], x.clamp(max=cpu)]
    assert all(isinstance(y, StrictTensor) for y in met)


@pytest.mark.parametrize(
    ("wait", "operation"),
    [
        (lambda x: x.sum().item(), "item"),
        (lambda x: float(x.sum()), "item"),
        (lambda x: bool((x > 0).any()), "item"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: x.nonzero(), "nonzero"),
        (lambda x: torch.where(x > 0), "nonzero"),
        (lambda x: x[x > 0], "boolean index"),
        (lambda x: x.clone().index_put_((x[:, 0] > 0,), x), "boolean index"),
        (lambda x: x.clone().index_put_((x[0].long(),), torch.tensor(3.0)), "number to the device"),
        (lambda x: x.__setitem__(x[0].long(), 3.0), "number to the device"),
        (lambda x: x.masked_select(x > 0), "masked_select"),
        (lambda x: torch.equal(x, x), "equal"),
        (lambda x: x.unique(), "unique"),
        (lambda x: x.cpu(), "copy to the CPU"),
        (lambda x: torch.zeros(2, 2).copy_(x), "copy to the CPU"),
        (lambda x: torch.tensor([1, 2], device=x.device), "copy to the device"),
        (lambda x: x.copy_(torch.zeros(2, 2)), "copy to the device"),
        (lambda x: torch.bincount(x[0].long()), "bincount"),
        (lambda x: x.repeat_interleave(x[0].long(), dim=0), "repeat_interleave"),
        (lambda x: torch.split(x, x[0].long().tolist()), "tolist"),
        (lambda x: f"{x}", "repr"),
    ],
)
def test_counts_waits(wait, operation, waits):
    x = move(torch.ones(2, 2))
    assert waits == []
    wait(x)
    assert [w.operation for w in waits] == [operation]
    assert waits[0].package == "tests" and waits[0].file == "tests/strict/test_device.py"
    assert waits_of(waits, "tests")[0].startswith("tests/strict/test_device.py:")


def test_does_not_count_what_goes_on(waits):
    x = move({"x": [torch.ones(2, 2)]})["x"][0]
    x[x > 0] = 2.0
    y = x.masked_fill(x > 1, 0).to(torch.float16).softmax(-1).index_select(0, x[0].long() * 0)
    y.topk(1), y.sort(), y.cumsum(0), y.sum(), y.nan_to_num_(), y.clone().fill_(1.0), y.to(DEVICE)
    torch.zeros(2, device=DEVICE).add_(1).mul(2.0)[:1].expand(3)
    x[x[0].long() * 0] = x.new_full((2, 2), 3.0)
    x.gather(1, x.long() * 0).scatter_(1, x.long() * 0, x)
    assert waits == []


def test_numpy_is_refused():
    with pytest.raises(TypeError, match="numpy"):
        torch.ones(2).to(DEVICE).numpy()


def test_nothing_picks_the_device_by_itself():
    """Registering is for ever in a process: other tests must not notice."""
    assert not torch.accelerator.is_available() and not torch.cuda.is_available()
    loader = torch.utils.data.DataLoader([torch.ones(1)], pin_memory=True)
    assert not isinstance(next(iter(loader)), StrictTensor)


def test_counts_nothing_outside(waits):
    with strict_device() as inner:
        torch.ones(1).to(DEVICE).item()
    torch.ones(1).to(DEVICE).item()
    assert (len(inner), len(waits)) == (2, 4)
