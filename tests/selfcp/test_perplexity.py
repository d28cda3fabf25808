"""Dropping expected tokens, against a loop over them."""

import random

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.perplexity import CHUNK, keep_unexpected
from tests.selfcp.test_model import LENGTHS, make_sample, make_selfcp, task  # noqa: F401  fixture


def made_up_loss(context, token):
    """Depends on what was kept before, so that order and context matter."""
    return random.Random(hash((tuple(context), token))).random()


def losses(context, text):
    before = context.tolist()
    return torch.tensor(
        [made_up_loss(before + text[:i].tolist(), int(t)) for i, t in enumerate(text)]
    )


def keep_slowly(tokens, target, chunk):
    kept, seen = [], []
    for start in range(0, len(tokens), chunk):
        text = tokens[start : start + chunk]
        found = [torch.tensor(made_up_loss(kept + text[:i], t)) for i, t in enumerate(text)]
        seen += found
        place = max(len(seen) * target // len(tokens) - 1, 0)
        threshold = sorted(seen, reverse=True)[place]
        chosen = [t for i, (t, x) in enumerate(zip(text, found)) if x > threshold or start + i == 0]
        kept = kept + chosen
    return kept


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("chunk", [3, 10, 200])
def test_equals_the_loop(seed, chunk):
    draw = random.Random(seed)
    tokens = [draw.randrange(30) for _ in range(draw.randrange(20, 90))]
    target = draw.randrange(2, len(tokens))
    found = keep_unexpected(torch.tensor(tokens), target, losses, chunk).tolist()
    assert found == keep_slowly(tokens, target, chunk)
    assert found[0] == tokens[0]


@pytest.mark.parametrize("target", [12, 13])
def test_nothing_is_dropped_within_the_target(target):
    tokens = torch.arange(12)
    assert torch.equal(keep_unexpected(tokens, target, losses, CHUNK), tokens)


def test_about_as_many_as_wanted():
    tokens = torch.arange(1000)
    assert len(keep_unexpected(tokens, 250, losses, CHUNK)) == pytest.approx(250, abs=40)


def test_the_losses_are_the_backbones(task, tmp_path):  # noqa: F811
    """The model with this strategy reads what the rule keeps by its own log-probabilities."""
    model = make_selfcp(task, tmp_path, prompt_strategy="perplexity").eval()
    net_input = make_sample(task, LENGTHS)["net_input"]
    del net_input["prev_output_tokens"]
    rows = model.encoder.read(**net_input)
    assert not rows.is_vector.any()
    inner = model.decoder.inner
    for i, (query, length) in enumerate(LENGTHS):
        row = net_input["src_tokens"][i, : 2 + query + length]
        head, prompt = row[: 1 + query], row[2 + query :]
        row = torch.cat([head, prompt])
        expected = prompt
        if length > 7:
            with torch.no_grad():
                scores = inner(row[None])[0][0].log_softmax(dim=-1)
            loss = -scores[query:-1].gather(1, prompt[:, None])[:, 0].float()
            place = 7 - 1
            chosen = loss > loss.sort(descending=True).values[place]
            chosen[0] = True
            expected = prompt[chosen]
        assert torch.equal(rows.tokens[i, : rows.lengths[i]], torch.cat([head, expected]))


@pytest.mark.parametrize("kind", ["post-norm", "learned"])
@pytest.mark.parametrize("length", [60, 64, 70, 300])
def test_prompts_longer_than_the_models_positions(kind, length, task, tmp_path):  # noqa: F811
    """The model sees as much of what was kept before as it has positions for: 64."""
    model = make_selfcp(task, tmp_path, kind, prompt_strategy="perplexity", window=50).eval()
    net_input = make_sample(task, [(3, length)])["net_input"]
    del net_input["prev_output_tokens"]
    read = model.encoder.read(**net_input)
    assert 20 < read.lengths.item() <= 64
    with pytest.raises(UserError, match="--prompt-strategy perplexity: a query has 64 tokens"):
        model.encoder.read(**prompts_of(make_sample(task, [(63, length)])))


def prompts_of(sample):
    return {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}


def test_equal_budget(task, tmp_path):  # noqa: F811
    """About as many tokens as SelfCP reads: 10, and 30 / 3 memory tokens."""
    model = make_selfcp(task, tmp_path, prompt_strategy="perplexity_equal", window=10).eval()
    sample = prompts_of(make_sample(task, [(2, 40)] * 20))
    lengths = model.encoder.read(**sample).lengths - 3
    assert lengths.float().mean().item() == pytest.approx(20, abs=2)
