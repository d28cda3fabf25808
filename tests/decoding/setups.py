"""Random models, batches and options for beam search, and fairseq's generator to compare with."""

import random

import torch
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.search import LengthConstrainedBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from tests.helpers import build, dictionary

TOLERANCE = 1e-4
ROUNDING = 1e-6  # of float32 scores: hypotheses that differ by less change places on another CPU
WIDTHS = {"encoder_embed_dim": 20, "encoder_attention_heads": 4, "decoder_embed_dim": 12}


class NGramsOfTheHypothesis(NGramRepeatBlock):
    """fairseq's blocker without its CPU fault: it looks at the room for tokens still to come."""

    def forward(self, tokens, lprobs, bsz, beam_size, step):
        return super().forward(tokens[:, : step + 1], lprobs, bsz, beam_size, step)


def with_search(words, options):
    """The options with the search that fairseq's task makes for them."""
    if not options.get("match_source_len"):
        return options
    search = LengthConstrainedBeamSearch(words, 1, 0, 1, 0)
    return {**options, "search_strategy": search}


def fairseq_generator(models, words, **options):
    generator = SequenceGenerator(models, words, **with_search(words, options))
    size = options.get("no_repeat_ngram_size", 0)
    if size:
        generator.repeat_ngram_blocker = NGramsOfTheHypothesis(size)
    return generator


def decisive(model, strength=3.0):
    """Sharper distributions, so that hypotheses of untrained models differ clearly."""
    projection = model.decoder.output_projection
    projection.weight = nn.Parameter(projection.weight.detach() * strength)
    return model.eval()


def random_model(rng: random.Random, words: int, seed: int):
    """A Transformer of random kind and options."""
    options = {}
    for stack in ("encoder", "decoder"):
        options[f"{stack}_layers"] = rng.choice((0, 2, 4) if stack == "encoder" else (1, 2, 4))
        options[f"{stack}_normalize_before"] = rng.random() < 0.5
        options[f"{stack}_learned_pos"] = rng.random() < 0.5
    options["activation_fn"] = rng.choice(("relu", "gelu"))
    options["layernorm_embedding"] = rng.random() < 0.3
    options["no_token_positional_embeddings"] = rng.random() < 0.1
    if rng.random() < 0.3:
        options |= WIDTHS
    elif rng.random() < 0.3:
        options |= {"decoder_output_dim": 8, "decoder_input_dim": 8}
    arch = rng.choice(("transformer", "pet_transformer", "can_transformer"))
    if arch == "can_transformer":
        options |= {"decoder_normalize_before": True, "decoder_ffn_embed_dim": 24}
    if arch == "pet_transformer":
        options["encoder_pairs"] = options["decoder_pairs"] = "none"
        if rng.random() < 0.5:
            options["decoder_head_dim"] = rng.choice((2, 5))
        if options["decoder_layers"] == 2:
            options["decoder_pairs"] = rng.choice(("pet", "qk", "kv"))
            options["decoder_kept_heads"] = rng.choice((None, "1,3/2,3"))
    return decisive(build(arch, seed=seed, words=words, **options))


def random_options(rng: random.Random):
    """Options of the generator; the longest output is bounded."""
    options = {
        "beam_size": rng.choice((1, 2, 3, 4, 5, 7, 10)),
        "max_len_a": rng.choice((0, 0.5, 1.5)),
        "max_len_b": rng.randint(3, 12),
        "min_len": rng.choice((0, 1, 1, 3)),
        "len_penalty": rng.choice((0.0, 0.6, 1.0, 1.5)),
        "unk_penalty": rng.choice((0.0, 0.0, 2.0, -2.0)),
        "temperature": rng.choice((1.0, 1.0, 0.7, 1.6)),
        "normalize_scores": rng.random() < 0.8,
        "no_repeat_ngram_size": rng.choice((0, 0, 2, 3)),
        "match_source_len": rng.random() < 0.15,
    }
    if rng.random() < 0.2:
        options["tokens_to_suppress"] = ("w1", "w3")
    return options


def random_sample(rng: random.Random, words: int, lengths=None, side="left"):
    """Sources of random lengths, empty ones too, padded on a side."""
    lengths = lengths or [rng.randint(1, 9) for _ in range(rng.randint(1, 12))]
    vocabulary = dictionary(words)
    tokens = torch.full((len(lengths), max(lengths)), vocabulary.pad())
    for row, length in zip(tokens, lengths):
        source = [*(rng.randrange(4, len(vocabulary)) for _ in range(length - 1)), vocabulary.eos()]
        place = slice(len(row) - length, None) if side == "left" else slice(length)
        row[place] = torch.tensor(source)
    return {"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor(lengths)}}


def random_prefixes(rng: random.Random, words: int, count: int):
    """Beginnings of different lengths, right-padded, without a word twice; some end a sentence."""
    vocabulary = dictionary(words)
    prefixes = torch.full((count, rng.randint(1, 4)), vocabulary.pad())
    for row in prefixes:
        length = rng.randint(0, len(row))
        row[:length] = torch.tensor(rng.sample(range(4, len(vocabulary)), length))
        if length > 1 and rng.random() < 0.2:  # fairseq fails on a prefix that only ends
            row[length - 1] = vocabulary.eos()
    return prefixes


def assert_same(ours, theirs):
    """The same hypotheses with the same scores, in the same order but for ties."""
    assert len(ours) == len(theirs)
    for found, expected in zip(ours, theirs):
        assert len(found) == len(expected)
        for hypothesis, other in zip(ties_in_order(found, expected), expected):
            assert hypothesis["tokens"].tolist() == other["tokens"].tolist()
            assert hypothesis.keys() == other.keys()
            for key in ("score", "positional_scores"):
                assert hypothesis[key].shape == other[key].shape
                torch.testing.assert_close(
                    hypothesis[key], other[key], atol=TOLERANCE, rtol=0, equal_nan=True
                )


def ties_in_order(found, expected):
    """The found hypotheses, where two of one score but for rounding stand as in `expected`."""
    found = list(found)
    for i, other in enumerate(expected):
        tied = [j for j, h in enumerate(found) if abs(h["score"] - found[i]["score"]) < ROUNDING]
        same = (j for j in tied if found[j]["tokens"].tolist() == other["tokens"].tolist())
        j = next(same, i)
        found[i], found[j] = found[j], found[i]
    return found
