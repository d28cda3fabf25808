"""The connector, which SelfCP trains beside the memory tag, and the word that the tag starts as."""

import re

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from pet_fairseq.huggingface.vocabulary import is_unnamed

CONNECTORS = ("linear", "linear_norm", "none")
MARK = re.compile(r"<.+>|\[.+\]")  # such as <|endoftext|> and [PAD]


def make_connector(kind: str, embed_dim: int) -> nn.Module:
    """The map from the model's last states to vectors that it reads (SelfCP, eq. 2).

    linear: the paper's map, d x d, with a bias as in the released code. linear_norm: a layer norm
    after it, also as in that code. none: the states are read as they are, as in AutoCompressors
    and ICAE.
    """
    if kind == "none":
        return nn.Identity()
    linear = nn.Linear(embed_dim, embed_dim)
    return linear if kind == "linear" else nn.Sequential(linear, nn.LayerNorm(embed_dim))


@torch.no_grad()
def standardise(connector: nn.Module, states: Tensor, words: Tensor) -> None:
    """Start a new connector so that memory tokens differ as the texts do, at the size of words.

    A model's last states are nearly one vector, whatever it has read: what they have in common
    takes all of a linear map's first updates. So the map W begins as W diag(1 / deviation), and its
    bias as what takes the mean of the states to 0. The connector keeps its form.

    Args:
        connector: linear or linear_norm, as initialised. states: N x C, what it is to read.
        words: V x C, embeddings as the model reads them; memory tokens get their root mean square.
    """
    linear, norm = connector, None
    if isinstance(connector, nn.Sequential):
        linear, norm = connector
    assert isinstance(linear, nn.Linear), "check_options refuses a connector without one"
    states = states.to(linear.weight)
    mean, deviation = states.mean(dim=0), states.std(dim=0)
    linear.weight.div_(deviation.clamp(min=1e-3 * float(deviation.mean())))
    linear.bias.copy_(-linear.weight @ mean)
    size = words.square().mean().sqrt()
    if norm is not None:
        norm.weight.fill_(size)
        return
    scale = size / linear(states).square().mean().sqrt()
    linear.weight.mul_(scale)
    linear.bias.mul_(scale)


def rarest_word(dictionary: Dictionary) -> int:
    """The word with the lowest count above 0, of equal ones the last; marks such as <s> are none.

    Where all counts are equal, as in an imported vocabulary, the last words are the rarest: byte
    pair encoding and SentencePiece put them in the order in which they were worth having. Behind
    them an imported model may have spare rows, which it was never trained with.
    """

    def is_word(text: str) -> bool:
        return not MARK.fullmatch(text) and not is_unnamed(text)

    words = range(dictionary.nspecial, len(dictionary))
    used = [i for i in words if dictionary.count[i] > 0 and is_word(dictionary[i])]
    return min(reversed(used), key=lambda i: dictionary.count[i], default=dictionary.nspecial)
