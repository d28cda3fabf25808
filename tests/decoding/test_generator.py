"""The fast generator against fairseq's own: the same hypotheses and scores."""

import random
from functools import partial

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig

from pet_fairseq.decoding.beams import repeats_ngram
from pet_fairseq.decoding.generator import FastGenerator
from pet_fairseq.decoding.incremental import IncrementalSteps
from pet_fairseq.decoding.task import PetTranslationConfig, PetTranslationTask
from pet_fairseq.decoding.transformer import TransformerSteps
from pet_fairseq.errors import UserError
from tests.decoding.setups import (
    assert_same,
    decisive,
    fairseq_generator,
    random_model,
    random_options,
    random_prefixes,
    random_sample,
    with_search,
)
from tests.helpers import build, dictionary


def compare(models, words, sample, options, **arguments):
    """Both generators on one batch; returns what ours found."""
    vocabulary = dictionary(words)
    theirs = fairseq_generator(models, vocabulary, **options).generate(models, sample, **arguments)
    generator = FastGenerator(models, vocabulary, **with_search(vocabulary, options))
    ours = generator.generate(models, sample, **arguments)
    assert_same(ours, theirs)
    return ours


@pytest.mark.parametrize("seed", range(60))
def test_finds_what_fairseq_finds(seed):
    rng = random.Random(seed)
    words = rng.choice((4, 8, 16, 60))
    models = [random_model(rng, words, seed + i) for i in range(rng.choice((1, 1, 1, 2, 3)))]
    sample = random_sample(rng, words, side=rng.choice(("left", "right")))
    arguments = {}
    if rng.random() < 0.3:
        count = len(sample["net_input"]["src_tokens"])
        arguments["prefix_tokens"] = random_prefixes(rng, words, count)
    if rng.random() < 0.2:
        arguments["bos_token"] = 5
    compare(models, words, sample, random_options(rng), **arguments)


def repeats(tokens, size):
    """Whether a text has some words in a row twice."""
    rows = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(rows)) < len(rows)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_texts_that_repeat_ngrams(size):
    """The start symbol is no word that a single one could repeat."""
    rng = random.Random(size)
    rows = [[2, *rng.choices(range(2, 9), k=rng.randint(0, 6))] for _ in range(300)]
    tokens = torch.tensor([row + [1] * (7 - len(row)) for row in rows])
    expected = [repeats(row[1:] if size == 1 else row, size) for row in rows]
    assert repeats_ngram(tokens, size, 1).tolist() == expected and any(expected) == (size < 5)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_prefixes_that_repeat_ngrams_are_refused(size, seed):
    """fairseq's search fails on them; all others are continued as fairseq does."""
    rng = random.Random(seed)
    models, options = [random_model(rng, 60, seed)], {"max_len_b": 12, "no_repeat_ngram_size": size}
    for _ in range(4):
        sample = random_sample(rng, 60, lengths=[3, 5])
        rows = [rng.choices((4, 5), k=rng.randint(1, 6)) for _ in range(2)]
        prefixes = torch.tensor([row + [1] * (6 - len(row)) for row in rows])
        if not any(repeats([2, *row], size) for row in rows):
            compare(models, 60, sample, options, prefix_tokens=prefixes)
            continue
        fairseqs = fairseq_generator(models, dictionary(60), **options)
        with pytest.raises(AssertionError):
            fairseqs.generate(models, sample, prefix_tokens=prefixes)
        message = f"^--prefix-size: the beginning .* --no-repeat-ngram-size {size} forbids; lower"
        generator = FastGenerator(models, dictionary(60), **options)
        with pytest.raises(UserError, match=message):
            generator.generate(models, sample, prefix_tokens=prefixes)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam", [1, 3, 10])
def test_large_vocabulary(seed, beam):
    """Where the best words are sought in groups."""
    rng = random.Random(seed)
    models = [decisive(build("transformer", seed=seed, words=9000))]
    options = {"beam_size": beam, "max_len_b": 12}
    compare(models, 9000, random_sample(rng, 9000), options)


@pytest.mark.parametrize("words", [16, 9000])
@pytest.mark.parametrize("beam", [1, 4])
def test_ties_come_out_in_fairseqs_order(words, beam):
    """All words equally probable, or pairs of them."""
    rng = random.Random(1)
    for ends in (0, words // 2):
        model = build("transformer", words=words).eval()
        with torch.no_grad():
            weight = model.decoder.output_projection.weight
            weight.data = weight.data.clone()
            weight[: words // 2] = 0 if ends == 0 else weight[words // 2 : 2 * (words // 2)]
            if ends == 0:
                weight.zero_()
        options = {"beam_size": beam, "max_len_b": 5}
        compare([model], words, random_sample(rng, words), options)


def test_sentences_that_finish_at_different_times():
    """Finished ones are dropped in blocks; the others must not notice."""
    rng = random.Random(5)
    model = decisive(build("transformer", words=8))
    sample = random_sample(rng, 8, lengths=[rng.randint(1, 9) for _ in range(60)])
    options = {"beam_size": 3, "max_len_b": 25, "no_repeat_ngram_size": 2}  # these make it end
    found = compare([model], 8, sample, options)
    assert len({max(len(h["tokens"]) for h in hypotheses) for hypotheses in found}) > 3


def test_alone_or_in_a_batch():
    rng = random.Random(2)
    models = [decisive(build("pet_transformer", words=12))]
    sample = random_sample(rng, 12, lengths=[9, 1, 4])
    generator = FastGenerator(models, dictionary(12), beam_size=5, max_len_b=10)
    together = generator.generate(models, sample)
    for row, length in enumerate([9, 1, 4]):
        tokens = sample["net_input"]["src_tokens"][row : row + 1, 9 - length :]
        alone = {"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([length])}}
        assert_same(generator.generate(models, alone), together[row : row + 1])


def test_nan_gives_no_hypotheses():
    """As in fairseq, a model that is broken says nothing, and does not crash."""
    model = build("transformer").eval()
    with torch.no_grad():
        model.decoder.layers[0].fc1.bias.fill_(float("nan"))
    generator = FastGenerator([model], dictionary(), beam_size=3, max_len_b=5)
    assert generator.generate([model], random_sample(random.Random(1), 16, [3, 4])) == [[], []]


def test_source_lengths_may_be_missing():
    model = decisive(build("transformer"))
    sample = random_sample(random.Random(3), 16, [4, 7])
    del sample["net_input"]["src_lengths"]
    compare([model], 16, sample, {"beam_size": 2, "max_len_b": 8})


def test_weights_in_training_are_read_anew():
    """--eval-bleu keeps one generator while the weights change."""
    model = decisive(build("transformer"))
    sample = random_sample(random.Random(3), 16, [4, 7])
    options = {"beam_size": 2, "max_len_b": 8}
    generator = FastGenerator([model], dictionary(), **options)
    before = generator.generate([model], sample)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    after = generator.generate([model], sample)
    assert before[0][0]["score"] != after[0][0]["score"]
    assert_same(after, fairseq_generator([model], dictionary(), **options).generate([], sample))


def test_hypotheses_may_be_changed_in_place():
    """fairseq-generate does so."""
    model = decisive(build("transformer"))
    generator = FastGenerator([model], dictionary(), beam_size=2, max_len_b=8)
    best = generator.generate([model], random_sample(random.Random(3), 16, [4]))[0][0]
    doubled = best["positional_scores"] * 2
    assert torch.equal(best["positional_scores"].mul_(2), doubled)


@pytest.mark.parametrize("arch", ["transformer", "pet_transformer"])
def test_heads_filled_up_for_fused_kernels(arch, monkeypatch):
    """As on a GPU in half precision: heads of 4 and 5 become 8 wide."""
    monkeypatch.setattr("pet_fairseq.decoding.transformer.head_multiple", lambda _: 8)
    options = {"decoder_head_dim": 5, "decoder_kept_heads": "1,3/2,3/1,2/1,3"}
    model = decisive(build(arch, **(options if arch == "pet_transformer" else {})))
    sample = random_sample(random.Random(3), 16, [4, 6, 1])
    compare([model], 16, sample, {"beam_size": 3, "max_len_b": 8})
    (steps,) = FastGenerator([model], dictionary(), beam_size=1).steps
    steps.begin(sample["net_input"])
    assert steps.layers[0].self_qkv[0].size(0) == 3 * steps.layers[0].self_heads * 8


def test_half_precision():
    model = decisive(build("transformer"))
    sample = random_sample(random.Random(3), 16, [4, 6, 1])
    exact = FastGenerator([model], dictionary(), beam_size=2, max_len_b=8).generate([], sample)
    half = FastGenerator([model.bfloat16()], dictionary(), beam_size=2, max_len_b=8)
    for found, expected in zip(half.generate([], sample), exact):
        assert found[0]["score"] == pytest.approx(float(expected[0]["score"]), rel=0.1)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.decoder.layers[1].fc1.register_forward_hook(lambda *_: None),
        lambda m: setattr(m.decoder.dropout_module, "apply_during_inference", True),
        lambda m: setattr(m.decoder.layers[0], "forward", partial(m.decoder.layers[0].forward)),
    ],
)
def test_a_changed_decoder_decodes_itself(change):
    model = decisive(build("transformer"))
    options = {"beam_size": 3, "max_len_b": 8}
    (steps,) = FastGenerator([model], dictionary(), **options).steps
    assert isinstance(steps, TransformerSteps)
    change(model)
    (steps,) = FastGenerator([model], dictionary(), **options).steps
    assert isinstance(steps, IncrementalSteps)
    compare([model], 16, random_sample(random.Random(3), 16), options)


def test_activations_that_training_did_not_keep():
    """fairseq's --checkpoint-activations replaces the `forward` of layers, also to translate."""
    torch.manual_seed(1)
    model = decisive(build("transformer", checkpoint_activations=True))
    assert "forward" in vars(model.decoder.layers[0])
    options = {"beam_size": 3, "max_len_b": 8}
    (steps,) = FastGenerator([model], dictionary(), **options).steps
    assert isinstance(steps, TransformerSteps)
    compare([model], 16, random_sample(random.Random(3), 16), options)


def test_min_len_above_max_len():
    model = build("transformer")
    generator = FastGenerator([model], dictionary(), max_len_b=4, min_len=5)
    with pytest.raises(UserError, match=r"--min-len 5: above 4, .*--max-len-b"):
        generator.generate([model], random_sample(random.Random(3), 16, [4]))


def test_a_slow_model_is_named_once_whatever_is_built(caplog):
    """fairseq's interface for Python builds a generator for each call."""
    task = PetTranslationTask(PetTranslationConfig(), dictionary(), dictionary())
    model = build("transformer")
    model.decoder.layers[0].fc1.register_forward_hook(lambda *_: None)
    for _ in range(3):
        task.build_generator([model, build("transformer")], GenerationConfig())
        task.build_generator([model], GenerationConfig(sampling=True))
    assert [record.getMessage() for record in caplog.records] == [
        "transformer: decoding through fairseq's own steps, not the fast ones: a module of its "
        "decoder has a hook, or dropout that stays on",
        "--sampling: decoding with fairseq's generator, not the fast one",
    ]
