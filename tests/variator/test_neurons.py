"""Counts of active neurons against loops over groups and neurons."""

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.variator.neuron_report import report_neurons
from pet_fairseq.variator.neurons import NeuronCounts, count_neurons, watch_neurons
from tests.predict.made import make_classifier
from tests.results.score.test_classification import write_data
from tests.translation import make_batch, make_task, save_model
from tests.variator.layers import attended_by_hand, groups_by_hand
from tests.variator.test_decoder_only import make_lm, make_tokens
from tests.variator.test_decoder_only import task as lm_task  # noqa: F401  fixture
from tests.variator.test_model import make_variator


def count_by_hand(members, group, padding):
    numbers = [0] * 8
    groups, k, batch, neurons = members.shape
    for g in range(groups):
        for b in range(batch):
            real = [j for j in range(k) if padding is None or not padding[g, j, b]]
            if not real:
                continue
            sets = [{f for f in range(neurons) if members[g, j, b, f]} for j in real]
            union, both = set.union(*sets), set.intersection(*sets)
            compressed = {f for f in range(neurons) if group[g, b, f]}
            found = [
                *(sum(map(len, sets)), len(union), len(both), len(compressed)),
                *(len(compressed & union), len(compressed & both)),
                *(len(real) * neurons, neurons),
            ]
            numbers = [a + b for a, b in zip(numbers, found)]
    return numbers


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("padded", [False, True])
def test_counts(seed, padded):
    torch.manual_seed(seed)
    members, group = torch.randn(3, 4, 2, 5) > 0, torch.randn(3, 2, 5) > 0
    padding = torch.rand(3, 4, 2) < 0.5 if padded else None
    if padded:
        padding[1, :, 0] = True
    assert [int(n) for n in count_neurons(members, group, padding)] == count_by_hand(
        members, group, padding
    )


@pytest.mark.parametrize("ratio", [2, 3])
def test_a_model_is_watched_layer_by_layer(ratio, tmp_path):
    """The first layer's inputs are known: the embedded source through its self-attention."""
    task = make_task(tmp_path / "data")
    model = make_variator(task, save_model(tmp_path / "b.pt", task), compression_ratio=ratio)
    batches = [make_batch(task, [5, 6, 3]), make_batch(task, [7], seed=1)]
    found = watch_neurons(model, batches, ratio)
    assert all(len(numbers) == 2 for numbers in found)
    assert found.members.tolist() == [21 * 64.0] * 2  # 5 + 6 + 3 + 7 positions, 64 neurons
    numbers = [0] * 8
    for batch in batches:
        for tokens, n in zip(batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"]):
            numbers = [a + b for a, b in zip(numbers, first_layer(model, tokens[-n:], ratio))]
    assert [int(counts[0]) for counts in found] == numbers
    shares = NeuronCounts(*found).shares()
    # in the first layer the vectors are the same with and without plugins, later no more
    for name in ("compressed within union", "intersection within compressed"):
        assert shares[name][0] == 1 > shares[name][1] > 0.5


@torch.no_grad()
def first_layer(model, tokens, ratio):
    encoder = model.stack.inner
    layer, plugin = encoder.layers[0], model.site_modules[0].plugin
    x = encoder.forward_embedding(tokens[None])[0].transpose(0, 1)
    x = layer.self_attn_layer_norm(x + layer.self_attn(x, x, x)[0])[:, 0]
    first = layer.fc1.ffn.fc1
    numbers = [0] * 8
    for start in range(0, len(x), ratio):
        rows = x[start : start + ratio]
        filled = torch.cat([rows, rows.new_zeros(ratio - len(rows), x.size(1))])
        scores = plugin.group_scores(filled.flatten())[: len(rows)]
        merged = (scores.softmax(dim=0)[:, None] * rows).sum(dim=0)
        members = first(rows)[None, :, None] > 0
        found = count_by_hand(members, first(merged)[None, None] > 0, None)
        numbers = [a + b for a, b in zip(numbers, found)]
    return numbers


def as_samples(*batches):
    return [{"net_input": {"src_tokens": t, "src_lengths": t.ne(1).sum(dim=1)}} for t in batches]


@torch.no_grad()
def test_the_gate_tells_which_neurons_of_a_prompt_are_active(lm_task, tmp_path):  # noqa: F811
    """In the first layer, whose inputs are known; texts without a prompt are left out."""
    model = make_lm(lm_task, tmp_path, "llama", compression_ratio=3)
    shapes = [(5, 4), (3, 3)]
    tokens, without = make_tokens(lm_task, shapes), make_tokens(lm_task, [(6, None)])
    counts = watch_neurons(model, as_samples(tokens, without), 3)
    site, layer = model.site_modules[0], model.stack.layers[0]
    width = site.ffn.fc2.in_features
    gate = site.ffn.fc1.weight[:width]
    numbers = [0] * 8
    for row, (prompt, _) in zip(tokens, shapes):
        length = 1 + prompt + 1  # </s>, the words and <sep>
        x = model.stack.embed_tokens(row[:length])
        x = x + attended_by_hand(layer.self_attn, site, layer.self_attn_layer_norm(x), length, True)
        for _, merged, members in groups_by_hand(site.plugin, layer.final_layer_norm(x), length):
            active = [members @ gate.T > 0, merged @ gate.T > 0]
            found = count_by_hand(active[0][None, :, None], active[1][None, None], None)
            numbers = [a + b for a, b in zip(numbers, found)]
    assert [int(values[0]) for values in counts] == numbers
    with pytest.raises(UserError, match="--data: holds no prompt"):
        watch_neurons(model, as_samples(without), 3)


def test_refused(tmp_path):
    """A text that the model has no room for, and batches of no size."""
    made = make_classifier(tmp_path / "model")
    long = write_data(tmp_path / "long", ["w1 " * 41], [])
    options = {"subset": "test", "data": long}
    with pytest.raises(UserError, match="--subset test: a sentence has 43 tokens, and the model t"):
        report_neurons(made.plugins[0], **options)
    for number, message in ((0, "give 1 or more"), (-5, "give 1 or more"), (9, "give 43 or more")):
        with pytest.raises(UserError, match=f"--max-tokens {number}: .*{message}"):
            report_neurons(made.plugins[0], max_tokens=number, **options)
