"""Token pruning against loops over sentences."""

import math

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.variator.competitors.fine_tuned import FineTunedConfig
from pet_fairseq.variator.competitors.token_pruning import (
    TokenPruningModel,
    chosen_tokens,
    received_attention,
)
from tests.translation import make_batch, make_model, make_task, save_model, select
from tests.variator.test_plugin import padding_mask


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


def make_pruned(task, path, ratio, **options):
    cfg = FineTunedConfig(backbone_path=str(path), compression_ratio=ratio, **options)
    return TokenPruningModel.build_model(cfg, task).eval()


@pytest.mark.parametrize("left", [True, False, None])
def test_scores_equal_loops(left):
    weights = torch.rand(3, 7, 7, dtype=torch.float64)
    mask = None if left is None else padding_mask([7, 3, 5], left)
    found = received_attention(weights, mask)
    for b in range(3):
        real = [t for t in range(7) if mask is None or not mask[b, t]]
        for i in range(7):
            if i in real:
                expected = sum(weights[b, j, i].item() for j in real) / len(real)
                assert found[b, i].item() == pytest.approx(expected)
            else:
                assert found[b, i] == -math.inf


@pytest.mark.parametrize("ratio", [1, 2, 3, 4, 8])
def test_chosen_are_the_best_of_each_sentence(ratio):
    mask = padding_mask([7, 3, 5], left=True)
    scores = torch.rand(3, 7).masked_fill(mask, -math.inf)
    positions, counts = chosen_tokens(scores, mask, ratio)
    for b, n in enumerate((7, 3, 5)):
        chosen = {int(p) for p, c in zip(positions[:, b], counts[:, b]) if c}
        best = sorted(range(7), key=lambda t: -scores[b, t])[: math.ceil(n / ratio)]
        assert chosen == set(best)


def encoder_by_hand(backbone, tokens, ratio):
    """One sentence without padding through a post-norm encoder, layer by layer."""
    encoder = backbone.encoder
    x = encoder.forward_embedding(tokens)[0].transpose(0, 1)
    for layer in encoder.layers:
        attended, weights = layer.self_attn(x, x, x, need_weights=True)
        x = layer.self_attn_layer_norm(x + attended)
        score = weights[0].mean(dim=0)
        keep = score.topk(math.ceil(len(score) / ratio)).indices.tolist()
        rows = []
        for t in range(x.size(0)):
            row = x[t, 0]
            if t in keep:
                row = row + layer.fc2(torch.relu(layer.fc1(row)))
            rows.append(layer.final_layer_norm(row))
        x = torch.stack(rows)[:, None]
    return x


@pytest.mark.parametrize("ratio", [1, 2, 4])
def test_encoder_equals_loops_also_in_batches(ratio, task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    backbone, _ = make_model(task)
    backbone.load_state_dict(torch.load(path, weights_only=True)["model"])
    backbone.double().eval()
    model = make_pruned(task, path, ratio).double()
    lengths = [3, 7, 2, 6]
    batch = make_batch(task, lengths)
    with torch.no_grad():
        found = model.encoder(batch["net_input"]["src_tokens"])["encoder_out"][0]
        for i, n in enumerate(lengths):
            tokens = select(batch, [i], n)["net_input"]["src_tokens"]
            expected = encoder_by_hand(backbone, tokens, ratio)
            torch.testing.assert_close(found[-n:, i : i + 1], expected, rtol=1e-9, atol=1e-9)


def test_everything_is_trained_but_the_teacher(task, tmp_path):
    model = make_pruned(task, save_model(tmp_path / "b.pt", task), 2).train()
    batch = make_batch(task, [3, 7])
    model(**batch["net_input"])[0].square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    with model.frozen() as teacher:
        assert not teacher.training and not any(p.requires_grad for p in teacher.parameters())
    assert not any("teacher" in name for name in model.state_dict())


@pytest.mark.parametrize("arch", ["transformer_tiny", "pet_transformer_tiny"])
def test_a_checkpoint_has_its_old_names_and_loads(arch, task, tmp_path):
    """Also that of a model whose layers share parameters, each stored once."""
    path = save_model(tmp_path / "b.pt", task, arch)
    model, again = make_pruned(task, path, 2), make_pruned(task, path, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    prefix = "backbone.encoder.layers.0."
    assert {n.removeprefix(prefix).rpartition(".")[0] for n in state if n.startswith(prefix)} == {
        *("fc1.inner", "fc2.inner", "self_attn_layer_norm", "final_layer_norm"),
        *(f"self_attn.inner.{part}_proj" for part in ("q", "k", "v", "out")),
    }
    again.load_state_dict(state)
    net_input = make_batch(task, [3, 7])["net_input"]
    with torch.no_grad():
        assert torch.equal(again(**net_input)[0], model(**net_input)[0])


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["transformer", "pet_transformer_tiny"])
def test_dropout(arch, task, tmp_path):
    path = save_model(tmp_path / "b.pt", task, arch)
    net_input = make_batch(task, [3, 7])["net_input"]

    def changes(**options):
        model = make_pruned(task, path, 2, **options).train()
        return not torch.equal(model(**net_input)[0], model(**net_input)[0])

    assert changes(dropout=0.5) and not changes(dropout=0.0)


def test_bad_options(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    with pytest.raises(UserError, match="--compression-ratio 0: give 1 or more"):
        make_pruned(task, path, 0)
    with pytest.raises(UserError, match="--backbone-path: missing"):
        make_pruned(task, "", 2)


@pytest.mark.parametrize("arch", ["transformer_tiny", "pet_transformer_tiny"])
def test_scores_know_no_dropout(arch, task, tmp_path):
    """In training, attention dropout does not change which tokens the first layer chooses."""
    path = save_model(tmp_path / "b.pt", task, arch, attention_dropout=0.6)
    model = make_pruned(task, path, 3)
    tokens = make_batch(task, [9, 8, 9])["net_input"]["src_tokens"]
    choice = model.encoder.layers[0].self_attn.choice

    def chosen():
        model.encoder(tokens)
        return choice.positions.clone()

    expected = chosen()
    model.train()
    assert all(torch.equal(chosen(), expected) for _ in range(5))
