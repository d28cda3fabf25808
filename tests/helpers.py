"""Small vocabularies, models and batches for the tests; no expected value comes from here."""

from argparse import Namespace

import torch
from fairseq.data import Dictionary
from fairseq.models import build_model

WORDS = 16  # beside fairseq's four special words


def dictionary(words=WORDS):
    made = Dictionary()
    for i in range(words):
        made.add_symbol(f"w{i}")
    return made


def task(words=WORDS):
    """What building a model needs of a task; both sides have the same words."""
    made = dictionary(words)
    return Namespace(source_dictionary=made, target_dictionary=made)


def build(arch="pet_transformer", seed=1, words=WORDS, small=True, **options):
    """A model in which no bias is 0 and no layer norm the identity; small: 4 + 4 narrow layers."""
    defaults = dict(dropout=0.0)
    for stack in ("encoder", "decoder") if small else ():
        defaults |= {
            f"{stack}_embed_dim": 12,
            f"{stack}_ffn_embed_dim": 20,
            f"{stack}_layers": 4,
            f"{stack}_attention_heads": 3,
        }
    torch.manual_seed(seed)
    model = build_model(Namespace(arch=arch, **defaults | options), task(words))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def plain(**options):
    """A Transformer of fairseq's in which nothing is shared."""
    return build(arch="transformer", **options).eval()


def batch(source_lengths=(5, 2, 7, 4), target_lengths=(4, 6, 3, 6)):
    """Random ragged sentences: the source padded on the left, the target on the right."""
    words = dictionary()
    pad, eos = words.pad(), words.eos()

    def sentence(length):
        return torch.randint(words.nspecial, len(words), (length - 1,))

    source = torch.full((len(source_lengths), max(source_lengths)), pad)
    target = torch.full((len(target_lengths), max(target_lengths)), pad)
    for i, (s, t) in enumerate(zip(source_lengths, target_lengths)):
        source[i, -s:] = torch.cat([sentence(s), torch.tensor([eos])])
        target[i, :t] = torch.cat([torch.tensor([eos]), sentence(t)])
    return {
        "src_tokens": source,
        "src_lengths": torch.tensor(source_lengths),
        "prev_output_tokens": target,
    }


def values(model):
    """A copy of every parameter and buffer under each of its names, shared ones repeated."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]
    return {name: tensor.detach().clone() for name, tensor in named}
