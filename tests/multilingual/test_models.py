"""Models that put language tokens around sentences, against the same words given by hand."""

import random
from argparse import Namespace

import pytest
import torch

from pet_fairseq.decoding.generator import FastGenerator
from pet_fairseq.decoding.transformer import is_plain
from pet_fairseq.distillation.outputs import run_model
from pet_fairseq.errors import UserError
from pet_fairseq.multilingual.language_tokens import LanguageTokens, wrap_source
from pet_fairseq.nn.architectures import build_without_memory
from tests.decoding.setups import assert_same, decisive, fairseq_generator, random_sample
from tests.helpers import build, dictionary

PAD, END = 1, 2
CASES = {
    "m2m_100": LanguageTokens(("w0",), ("</s>",), ("</s>", "w1")),
    "mbart": LanguageTokens((), ("</s>", "w0"), ("w1",)),
    "bos_eos_replaced": LanguageTokens((), ("w0",), ("w1",)),
    "several": LanguageTokens(("w1", "w0"), ("</s>", "w1"), ("</s>", "w0", "w1")),
    "none": LanguageTokens(),
}
KINDS = {
    "bilingual_transformer": {},
    "bilingual_bart": {"layernorm_embedding": True, "task": "translation"},
}


def both_models(arch, words, **options):
    """A model that puts the words around sentences, and one with its weights that does not."""
    plain_arch = {"bilingual_transformer": "transformer", "bilingual_bart": "bart_large"}[arch]
    options = {**KINDS[arch], "max_source_positions": 40, "max_target_positions": 40, **options}
    ours = decisive(build(arch, **options, **words.options()))
    theirs = decisive(build(plain_arch, **options))
    theirs.load_state_dict(ours.state_dict(), strict=False)
    if options.get("share_all_embeddings"):
        theirs.encoder.embed_tokens.weight = ours.encoder.embed_tokens.weight
        theirs.decoder.embed_tokens.weight = ours.decoder.embed_tokens.weight
    return ours.double(), theirs.double()


def ragged(rows, side):
    width = max(map(len, rows))
    return torch.tensor(
        [
            [PAD] * (width - len(row)) + row if side == "left" else row + [PAD] * (width - len(row))
            for row in rows
        ]
    )


def by_hand(words, sources, targets):
    """The lists of indices that a model without language tokens has to be given."""
    known = dictionary()
    number = {word: known.index(word) for word in ("</s>", "w0", "w1")}
    before, behind, start = (
        [number[word] for word in some]
        for some in (words.source_prefix, words.source_end, words.decoder_start)
    )
    return [before + s[:-1] + behind for s in sources], [start + t[1:] for t in targets]


def random_batch(seed):
    rng = random.Random(seed)
    sentence = lambda n: [rng.randrange(4, 20) for _ in range(n)]  # noqa: E731
    sources = [[*sentence(rng.randint(0, 7)), END] for _ in range(5)]
    targets = [[END, *sentence(rng.randint(0, 7))] for _ in range(5)]
    return sources, targets


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("arch", KINDS)
def test_logits_of_plain_sentences(case, side, arch):
    """Batches with padding on either side against sentences one by one, without any padding."""
    words = CASES[case]
    for seed in range(3):
        ours, theirs = both_models(arch, words, seed=seed)
        sources, targets = random_batch(seed)
        lengths = torch.tensor([len(source) for source in sources])
        logits, _ = ours(ragged(sources, side), lengths, ragged(targets, "right"))
        features = run_model(
            ours,
            {
                "src_tokens": ragged(sources, side),
                "src_lengths": lengths,
                "prev_output_tokens": ragged(targets, "right"),
            },
        )
        assert logits.shape[:2] == features.features.shape[:2]
        for i, (source, target) in enumerate(zip(*by_hand(words, sources, targets))):
            source, target = torch.tensor([source]), torch.tensor([target])
            expected, _ = theirs(source, torch.tensor([source.size(1)]), target)
            expected = expected[0, -len(targets[i]) :]
            torch.testing.assert_close(logits[i, : len(targets[i])], expected)
            found = features.output_layer(features.features[i, : len(targets[i])])
            torch.testing.assert_close(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("arch", KINDS)
def test_search_starts_from_the_words(case, arch):
    """Both generators, against fairseq's on a model that is given the words and forced to begin."""
    words = CASES[case]
    known = dictionary()
    options = dict(beam_size=4, max_len_b=9, min_len=0, normalize_scores=False)
    for seed in range(3):
        ours, theirs = both_models(arch, words, seed=seed)
        ours, theirs = ours.float(), theirs.float()
        sample = random_sample(random.Random(seed), 16)
        found = FastGenerator([ours], known, **options).generate([ours], sample)
        assert_same(found, fairseq_generator([ours], known, **options).generate([ours], sample))
        expected = forced_search(theirs, words, sample, options)
        for hypotheses, best in zip(found, expected):
            assert hypotheses[0]["tokens"].tolist() == best


def forced_search(model, words, sample, options):
    """The best translations by fairseq's search, each sentence for itself and without padding."""
    known = dictionary()
    rows = [row[row.ne(PAD)].tolist() for row in sample["net_input"]["src_tokens"]]
    sources, (start,) = by_hand(words, rows, [[END]])
    first, *forced = start
    best = []
    for source in sources:
        tokens = torch.tensor([source])
        lone = {"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([len(source)])}}
        given = {"prefix_tokens": torch.tensor([forced])} if forced else {}
        length = options["max_len_b"] + len(forced)
        generator = fairseq_generator([model], known, **{**options, "max_len_b": length})
        ((hypothesis, *_),) = generator.generate([model], lone, bos_token=first, **given)
        best.append(hypothesis["tokens"][len(forced) :].tolist())
    return best


def test_the_words_take_positions():
    words = CASES["several"]
    ours, theirs = both_models("bilingual_transformer", words)
    assert theirs.max_positions() == (40, 40)
    assert ours.max_positions() == (37, 38)


def test_unknown_words():
    with pytest.raises(UserError, match="--source-prefix __xx__: no word of the dictionary"):
        build("bilingual_transformer", source_prefix="__xx__")
    with pytest.raises(UserError, match="--decoder-start __xx__: no word of the dictionary"):
        build("bilingual_transformer", decoder_start="</s> __xx__")


def test_shapes_only():
    """Without the words, as no number is computed; it reads as many positions as the real one."""
    words = CASES["several"].options()
    args = Namespace(arch="bilingual_transformer", max_source_positions=40, **words)
    model = build_without_memory(args, 10, 10)
    assert model.encoder.embed_tokens.weight.is_meta
    assert model.max_positions()[0] == 37


def test_fast_steps_are_not_taken_for_it():
    ours, theirs = both_models("bilingual_transformer", CASES["m2m_100"])
    assert is_plain(theirs) and not is_plain(ours)


def test_shared_embeddings_are_stored_once():
    ours, _ = both_models("bilingual_transformer", CASES["m2m_100"], share_all_embeddings=True)
    embeddings = [name for name in ours.state_dict() if "embed_tokens" in name]
    assert embeddings == ["encoder.embed_tokens.weight"]


def test_only_the_last_word_is_replaced():
    """A </s> within a sentence, as between the sentences of a document, stays."""
    tokens = torch.tensor([[PAD, 5, END, 6, END], [7, 8, 9, 10, END]])
    around = wrap_source(tokens, torch.tensor([20]), torch.tensor([21, 22]), PAD)
    assert around.tolist() == [[PAD, 20, 5, END, 6, 21, 22], [20, 7, 8, 9, 10, 21, 22]]


def test_padding_stays_on_its_side():
    tokens = torch.tensor([[5, 6, END, PAD, PAD], [PAD, 7, 8, 9, END], [END, PAD, PAD, PAD, PAD]])
    around = wrap_source(tokens, torch.tensor([20, 21]), torch.tensor([22]), PAD)
    assert around.tolist() == [
        [20, 21, 5, 6, 22, PAD, PAD],
        [PAD, 20, 21, 7, 8, 9, 22],
        [20, 21, 22, PAD, PAD, PAD, PAD],
    ]
