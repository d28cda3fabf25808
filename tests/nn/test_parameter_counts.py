"""Layer parameters of every kind of encoder-decoder, counted by hand."""

import pytest
import torch
from torch import nn

from pet_fairseq.nn.parameter_counts import count_parameters
from tests.kinds import KINDS, save_kind
from tests.translation import make_task

WORDS = 16  # of each dictionary, the four special ones included
POSITIONS = 40  # rows of fconv's tables


def linear(inputs, outputs, bias=True):
    return inputs * outputs + bias * outputs


def normalised(inputs, outputs):
    """A linear layer with weight norm: a length for each row beside the matrix."""
    return linear(inputs, outputs) + outputs


def convolution(inputs, outputs, kernel):
    """With weight norm over the output's channels."""
    return kernel * inputs * outputs + 2 * outputs


def lstm(inputs, hidden):
    """Four gates, each with two biases."""
    return 4 * hidden * (inputs + hidden + 2)


def fconv():
    """Two convolutions of width 16 and one of 20 on embeddings of 12; attention in every layer."""
    shapes = [(16, 16, 3), (16, 16, 3), (16, 20, 2)]
    stack = normalised(12, 16) + normalised(16, 20)  # to the first, and past the last
    stack += sum(convolution(i, 2 * o, kernel) for i, o, kernel in shapes)
    attention = sum(normalised(o, 12) + normalised(12, o) for _, o, _ in shapes)
    encoder = stack + normalised(20, 12)
    return encoder + stack + attention + normalised(20, 12)


def shallow_lstm():
    attention = linear(20, 20, bias=False) + linear(40, 20, bias=False)
    return lstm(12, 20) + lstm(12 + 20, 20) + attention + linear(20, 16)


def deep_lstm():
    """Two layers, the encoder in both directions, its states mapped to the decoder's width."""
    encoder = 2 * (lstm(12, 20) + lstm(40, 20))
    decoder = lstm(12 + 20, 20) + lstm(20, 20) + 2 * linear(40, 20)
    attention = linear(20, 40, bias=False) + linear(60, 20, bias=False)
    return encoder + decoder + attention + linear(20, 12)


def lightconv():
    """Each layer: a gated convolution of 2 heads and kernel 3, feed-forward, norms."""
    norm, feed_forward = 2 * 16, linear(16, 24) + linear(24, 16)
    part = linear(16, 32) + 2 * 3 + linear(16, 16)
    encoder = part + feed_forward + 2 * norm
    return 2 * encoder + 2 * (encoder + 4 * linear(16, 16) + norm)


def transformer():
    norm, attention = 2 * 16, 4 * linear(16, 16)
    feed_forward = linear(16, 24) + linear(24, 16)
    return 2 * (attention + feed_forward + 2 * norm) + 2 * (2 * attention + feed_forward + 3 * norm)


BY_HAND = {
    "fconv": fconv(),
    "fconv, tied": fconv(),
    "lstm": shallow_lstm(),
    "lstm, deep": deep_lstm(),
    "lightconv": lightconv(),
    "transformer_align": transformer(),
    "adaptive softmax": transformer(),
    "norms on embeddings": transformer(),
    "learned positions": transformer(),
    "layerdrop": transformer(),
    "roberta_enc_dec": transformer(),
}


@pytest.fixture
def build(tmp_path):
    """A builder of a kind's model."""
    task = make_task(tmp_path / "data")

    def build(kind):
        state = torch.load(save_kind(tmp_path / "kind.pt", task, KINDS[kind]))
        return task.build_model(state["cfg"]["model"])

    return build


@pytest.mark.parametrize("kind", BY_HAND)
def test_layers(kind, build):
    counts = count_parameters(build(kind))
    assert counts.layers == counts.unshared_layers == BY_HAND[kind]


def test_all_parameters(build):
    """What the layers' count leaves out: tables of words and positions, and the output layer."""
    embeddings = 2 * 12 * (WORDS + POSITIONS)
    assert count_parameters(build("fconv")).total == fconv() + embeddings + normalised(12, WORDS)
    assert count_parameters(build("fconv, tied")).total == fconv() + embeddings + WORDS
    output = linear(16, WORDS)
    assert count_parameters(build("lstm")).total == shallow_lstm() + 2 * 12 * WORDS + output
    assert count_parameters(build("lstm, deep")).total == deep_lstm() + 2 * 12 * WORDS


def test_no_encoder_and_decoder():
    with pytest.raises(AttributeError):
        count_parameters(nn.Linear(2, 2))
