"""Plugins against loops over groups, in float64."""

import pytest
import torch

from pet_fairseq.variator.plugin import Plugin, group_padding

RATIOS = [2, 3, 4, 8, 16, 32]


def make_plugin(ratio, embed_dim=6, **options):
    plugin = Plugin(embed_dim, ratio, bottleneck_dim=5, **options).double()
    with torch.no_grad():
        for parameter in plugin.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return plugin


def padding_mask(lengths, left):
    time = max(lengths)
    mask = torch.ones(len(lengths), time, dtype=torch.bool)
    for row, n in zip(mask, lengths):
        row[time - n :] = False if left else row[time - n :]
        if not left:
            row[:n] = False
    return mask


def group_by_hand(plugin, vectors, real):
    """One group of one sentence: the members' list and flags -> the merged vector."""
    k = plugin.ratio
    width = len(vectors[0])
    filled = [v if r else torch.zeros(width).double() for v, r in zip(vectors, real)]
    filled += [torch.zeros(width).double()] * (k - len(filled))
    real = list(real) + [False] * (k - len(real))
    if not any(real):
        return torch.zeros(width).double(), filled
    if plugin.group_scores is None:
        return sum(filled) / sum(real), filled
    scores = plugin.group_scores.weight @ torch.cat(filled) + plugin.group_scores.bias
    powers = [s.exp() if r else torch.tensor(0.0).double() for s, r in zip(scores, real)]
    return sum(p / sum(powers) * v for p, v in zip(powers, filled)), filled


def expand_by_hand(plugin, output, member):
    if plugin.down is None:
        return output
    hidden = plugin.down.weight @ torch.cat([output, member]) + plugin.down.bias
    if plugin.activation == "tanh":
        hidden = torch.tanh(hidden)
    return output + plugin.up.weight @ hidden + plugin.up.bias


def by_hand(plugin, x, mask, part):
    """Sentence by sentence and group by group; `part` maps a merged vector to its output."""
    time, batch, _ = x.shape
    result = torch.zeros_like(x)
    for b in range(batch):
        for start in range(0, time, plugin.ratio):
            rows = range(start, min(start + plugin.ratio, time))
            real = [mask is None or not bool(mask[b, t]) for t in rows]
            merged, filled = group_by_hand(plugin, [x[t, b] for t in rows], real)
            for t, member in zip(rows, filled):
                result[t, b] = expand_by_hand(plugin, part(merged), member)
    return result


def run(plugin, x, mask, part):
    padding = group_padding(mask, x, plugin.ratio)
    members = plugin.members(x, padding)
    return plugin.decompress(part(plugin.compress(members, padding)), members, x.size(0))


PART = torch.nn.Linear(6, 6).double()


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("left", [None, True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"activation": "none"}, {"compression": "mean"}, {"decompression": "copy"}],
    ids=["paper", "linear", "mean", "copy"],
)
def test_equals_loops_over_groups(ratio, left, options):
    plugin = make_plugin(ratio, **options)
    lengths = [9, 5, 1, 7] if left is not None else [9] * 4
    x = torch.randn(9, 4, 6, dtype=torch.float64)
    mask = None if left is None else padding_mask(lengths, left)
    with torch.no_grad():
        found, expected = run(plugin, x, mask, PART), by_hand(plugin, x, mask, PART)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ratio", RATIOS)
def test_padding_content_changes_no_real_position(ratio):
    plugin = make_plugin(ratio)
    mask = padding_mask([9, 5, 1, 7], left=False)
    x = torch.randn(9, 4, 6, dtype=torch.float64)
    other = x.masked_fill(mask.T[..., None], 1e6)
    first, second = run(plugin, x, mask, PART), run(plugin, other, mask, PART)
    assert torch.equal(first[~mask.T], second[~mask.T])


@pytest.mark.parametrize("ratio", RATIOS)
def test_right_padded_batch_equals_its_sentences(ratio):
    plugin = make_plugin(ratio)
    lengths = [9, 5, 1, 7]
    x = torch.randn(9, 4, 6, dtype=torch.float64)
    together = run(plugin, x, padding_mask(lengths, left=False), PART)
    for b, n in enumerate(lengths):
        alone = run(plugin, x[:n, b : b + 1], None, PART)
        torch.testing.assert_close(together[:n, b : b + 1], alone, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ratio", RATIOS)
def test_number_of_parameters(ratio):
    d, r = 12, 7
    numbers = sum(p.numel() for p in Plugin(d, ratio, r).parameters())
    assert numbers == ratio * ratio * d + ratio + 3 * r * d + r + d
    bare = Plugin(d, ratio, r, compression="mean", decompression="copy")
    assert list(bare.parameters()) == []


def test_gradients_equal_finite_differences():
    plugin = make_plugin(3)
    mask = padding_mask([7, 4], left=False)
    x = torch.randn(7, 2, 6, dtype=torch.float64, requires_grad=True)
    parameters = list(plugin.parameters())

    def function(x, *_):
        return run(plugin, x, mask, PART)

    assert torch.autograd.gradcheck(function, (x, *parameters))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_finite(dtype):
    plugin = Plugin(6, 4, 5).to(dtype)
    mask = padding_mask([9, 5, 1, 7], left=False)
    x = 10 * torch.randn(9, 4, 6).to(dtype)
    padding = group_padding(mask, x, 4)
    members = plugin.members(x, padding)
    out = plugin.decompress(plugin.compress(members, padding), members, 9)
    assert out.dtype == dtype and torch.isfinite(out).all()
