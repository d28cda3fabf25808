"""Plugins around models of every type that `pet-fairseq import-hf` makes: they are built by --arch.

Language models are compared with a reference in test_decoder_only.py.
"""

import argparse
import random
from functools import partial

import pytest
import torch

from pet_fairseq.variator.costs import ffn_parameters
from pet_fairseq.variator.flops_table import measured_cost, shape_of
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.plugin_files import new_plugins
from tests.translation import make_batch, make_model, make_task, save_model, select
from tests.variator import test_decoder_only as language_models
from tests.variator.layers import layers_by_hand
from tests.variator.test_criterion import (
    HEAD,
    class_task,  # noqa: F401  fixture
    make_criterion,
    make_sentences,
    save_classifier,
)
from tests.variator.test_decoder_only import make_lm, make_tokens
from tests.variator.test_decoder_only import task as lm_task  # noqa: F401  fixture
from tests.variator.test_model import BACKBONES, SITES, make_variator

ENCODER = {
    **{"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24},
    **{"encoder_attention_heads": 2, "max_positions": 64},
}
DECODER = {
    **{"decoder_layers": 2, "decoder_embed_dim": 16, "decoder_ffn_embed_dim": 24},
    **{"decoder_attention_heads": 2},
}
CLASSIFIERS = {
    "bert": ("bert", ENCODER),
    "distilbert": ("bert", {**ENCODER, "token_types": 0, "pooler_activation_fn": "relu"}),
    "roberta": ("roberta", ENCODER),
}
TRANSLATORS = {
    "bart": BACKBONES["bart"],
    "marian": ("marian", {**ENCODER, **DECODER, "swish": True, "share_all_embeddings": True}),
}
T5 = {
    **{**ENCODER, **DECODER, "attention_head_dim": 6, "attention_dropout": 0.0},
    **{"relative_buckets": 8, "relative_max_distance": 6, "activation_dropout": 0.0},
}
GATED = {"gated_ffn": True, "activation_fn": "gelu_accurate", "relative_bias_per_layer": True}
TRANSLATORS |= {"t5": ("t5", {**T5, "share_all_embeddings": True}), "umt5": ("t5", T5 | GATED)}
WORDS_AROUND = {  # in front of a source sentence, and behind it
    "m2m_100": (["w3", "w1"], ["</s>"]),
    "mbart": ([], ["</s>", "w2", "w7"]),
    "bilingual_marian": (["w5"], ["</s>"]),
}
DECODER_STARTS = {"m2m_100": "</s> w3 w4", "mbart": "w6"}


def language_tokens(kind):
    before, behind = map(" ".join, WORDS_AROUND[kind])
    start = DECODER_STARTS.get(kind, "</s>")
    return {"source_prefix": before, "source_end": behind, "decoder_start": start}


MULTILINGUAL = {
    "m2m_100": ("bilingual_transformer", ENCODER | DECODER | {"share_all_embeddings": True}),
    "mbart": ("bilingual_bart", TRANSLATORS["bart"][1]),
    "bilingual_marian": ("bilingual_marian", TRANSLATORS["marian"][1]),
}
TRANSLATORS |= {
    kind: (arch, options | language_tokens(kind)) for kind, (arch, options) in MULTILINGUAL.items()
}
LANGUAGE_MODELS = ("gpt2", "llama", "qwen3")
ACTIVATION = {**dict.fromkeys((*CLASSIFIERS, "bart"), "erf"), "marian": "swish"}
ACTIVATION |= {"t5": "relu", "umt5": "gated gelu"}
ACTIVATION |= {"m2m_100": "relu", "mbart": "erf", "bilingual_marian": "swish"}


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


def as_read(kind, sentence, dictionary):
    """A sentence, 1 x n, with the words that the model of this kind reads around it."""
    before, behind = WORDS_AROUND.get(kind, ([], ["</s>"]))
    before, behind = ([dictionary.index(word) for word in words] for words in (before, behind))
    return torch.tensor([[*before, *sentence[0, :-1].tolist(), *behind]])


@pytest.mark.parametrize("kind", [*CLASSIFIERS, *TRANSLATORS])
@pytest.mark.parametrize("site", SITES)
def test_encoders_equal_the_reference(kind, site, task, tmp_path):
    draw = random.Random(f"{kind} {site}")
    ratio, lengths = draw.randrange(2, 6), [draw.randrange(2, 12) for _ in range(4)]
    arch, options = (CLASSIFIERS | TRANSLATORS)[kind]
    path = save_model(tmp_path / "b.pt", task, arch, **options)
    model = make_variator(task, path, compression_ratio=ratio, compression_site=site).double()
    encoder, source = model.stack, make_batch(task, lengths)["net_input"]["src_tokens"]
    with torch.no_grad():
        together = encoder(source)["encoder_out"][0]
        for i, n in enumerate(lengths):
            sentence = as_read(kind, source[i : i + 1, -n:], task.source_dictionary)
            x = encoder.inner.forward_embedding(sentence)[0][0]
            expected = layers_by_hand(model, x, len(x), ACTIVATION[kind], causal=False)
            # fairseq computes the activation in float32
            torch.testing.assert_close(together[: len(x), i], expected, rtol=1e-5, atol=1e-6)


def check_training_step(model, task, sample):
    """One update by the criterion: it changes the plugins, all of them, and nothing else."""
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.train()
    loss, _, _ = make_criterion(task)(model, sample)
    loss.backward()
    with_gradient = {n for n, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert with_gradient == {n for n in before if ".plugins." in n}
    torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3).step()
    changed = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert changed == with_gradient
    model.eval()


def frozen_backbone(path, task, arch, options):
    """The model itself; frozen, as torch chooses by that how to multiply."""
    backbone, _ = make_model(task, arch, **options)
    state = torch.load(path, weights_only=True)["model"]
    backbone.load_state_dict({n: t for n, t in state.items() if not n.startswith("classification")})
    return backbone.eval().requires_grad_(False)


def same_at_ratio_1(model, backbone, **net_input):
    with torch.no_grad(), model.compression_ratio(1):
        return torch.equal(model(**net_input)[0], backbone(**net_input)[0])


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("site", SITES)
def test_classifiers(kind, site, class_task, tmp_path):  # noqa: F811
    arch, options = CLASSIFIERS[kind]
    path = save_classifier(tmp_path / "b.pt", class_task, arch, **options)
    model = make_variator(class_task, path, compression_ratio=2, compression_site=site)
    sample = make_sentences(class_task, [3, 7, 2, 6])
    del sample["net_input"]["prev_output_tokens"]
    check_training_step(model, class_task, sample)
    net_input = sample["net_input"]
    assert same_at_ratio_1(model, frozen_backbone(path, class_task, arch, options), **net_input)
    with torch.no_grad():
        logits, _ = model(**net_input, features_only=True, classification_head_name=HEAD)
        assert logits.shape == (4, 3)
        for row, n, scores in zip(net_input["src_tokens"], (3, 7, 2, 6), logits):
            lone, _ = model(row[None, :n], features_only=True, classification_head_name=HEAD)
            torch.testing.assert_close(scores, lone[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", TRANSLATORS)
@pytest.mark.parametrize("site", SITES)
def test_translators(kind, site, task, tmp_path):
    arch, options = TRANSLATORS[kind]
    path = save_model(tmp_path / "b.pt", task, arch, **options)
    model = make_variator(task, path, compression_ratio=3, compression_site=site)
    lengths = [3, 7, 2, 6]
    batch = make_batch(task, lengths)
    check_training_step(model, task, batch)
    backbone = frozen_backbone(path, task, arch, options)
    assert same_at_ratio_1(model, backbone, **batch["net_input"])
    net_input = {n: t for n, t in batch["net_input"].items() if n != "prev_output_tokens"}
    generator = task.build_generator([model], argparse.Namespace(beam=2, max_len_b=6))
    found = task.inference_step(generator, [model], {"id": torch.arange(4), "net_input": net_input})
    for i, (n, hypotheses) in enumerate(zip(lengths, found)):
        tokens = hypotheses[0]["tokens"][None]
        alone = select(batch, [i], n)["net_input"]["src_tokens"]
        start = torch.full_like(tokens[:, :1], task.target_dictionary.eos())
        with torch.no_grad():
            output, _ = model(alone, None, torch.cat([start, tokens[:, :-1]], dim=1))
        scores = output.log_softmax(dim=-1).gather(2, tokens[..., None]).flatten()
        torch.testing.assert_close(hypotheses[0]["positional_scores"], scores, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", LANGUAGE_MODELS)
@pytest.mark.parametrize("site", SITES)
def test_language_models(kind, site, lm_task, tmp_path):  # noqa: F811
    """Generation with them is compared in test_decoder_only.py."""
    model = make_lm(lm_task, tmp_path, kind, compression_ratio=2, compression_site=site).float()
    text, pad = make_tokens(lm_task, [(5, 4), (8, 2), (3, 3)]), lm_task.dictionary.pad()
    inputs, target = text[:, :-1], text[:, 1:]
    sample = {
        **{"net_input": {"src_tokens": inputs, "src_lengths": inputs.ne(pad).sum(dim=1)}},
        **{"target": target, "ntokens": int(target.ne(pad).sum())},
    }
    check_training_step(model, lm_task, sample)
    arch, sizes = language_models.KINDS[kind]
    options = language_models.TINY | sizes
    backbone = frozen_backbone(tmp_path / "lm.pt", lm_task, arch, options)
    assert same_at_ratio_1(model, backbone, src_tokens=inputs)


@pytest.mark.parametrize("kind", MULTILINGUAL)
def test_plugins_without_training(kind, task, tmp_path):
    """They are made without the dictionary that has the language tokens."""
    arch, options = TRANSLATORS[kind]
    path, file = save_model(tmp_path / "b.pt", task, arch, **options), tmp_path / "p.pt"
    form = {"compression": "mean", "decompression": "copy"}
    new_plugins(VariatorConfig(backbone_path=path, **form), file)
    model = make_variator(task, path, trained=False, **form)
    model.load_state_dict(torch.load(file, weights_only=True)["model"])


def check_it_loads_what_it_saved(make, net_input):
    """`make` builds the model with plugins that have learned something, or with new ones."""
    first, again = make(trained=True), make(trained=False)
    with torch.no_grad():
        expected = first(**net_input)[0]
        assert not torch.equal(again(**net_input)[0], expected)
        again.load_state_dict(dict(first.state_dict()), strict=True)
        assert torch.equal(again(**net_input)[0], expected)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_saved_and_loaded_a_classifier_is_the_same(kind, class_task, tmp_path):  # noqa: F811
    arch, options = CLASSIFIERS[kind]
    path = save_classifier(tmp_path / "b.pt", class_task, arch, **options)
    net_input = make_sentences(class_task, [3, 7, 2, 6])["net_input"]
    del net_input["prev_output_tokens"]
    check_it_loads_what_it_saved(partial(make_variator, class_task, path), net_input)


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_saved_and_loaded_a_translator_is_the_same(kind, task, tmp_path):
    arch, options = TRANSLATORS[kind]
    path = save_model(tmp_path / "b.pt", task, arch, **options)
    net_input = make_batch(task, [3, 7, 2, 6])["net_input"]
    check_it_loads_what_it_saved(partial(make_variator, task, path), net_input)


@pytest.mark.parametrize("kind", LANGUAGE_MODELS)
def test_saved_and_loaded_a_language_model_is_the_same(kind, lm_task, tmp_path):  # noqa: F811
    arch, sizes = language_models.KINDS[kind]
    path = save_model(tmp_path / "lm.pt", lm_task, arch, **language_models.TINY | sizes)
    text = make_tokens(lm_task, [(5, 4), (8, 2), (3, 3)])
    make = partial(make_variator, lm_task, path, prompt_end="<sep>")
    check_it_loads_what_it_saved(make, {"src_tokens": text})


@pytest.mark.parametrize("kind", LANGUAGE_MODELS)
@pytest.mark.parametrize("site", SITES)
def test_costs_of_prompts(kind, site, lm_task, tmp_path):  # noqa: F811
    """By formula and as torch counts: a gate is a third matrix, shared keys are narrow."""
    model = make_lm(lm_task, tmp_path, kind, compression_ratio=3, compression_site=site).float()
    for ratio in (1, 3):
        with model.compression_ratio(ratio):
            for length in (12, 19):
                cost = model.encoder_cost(shape_of(model), length)
                assert cost == pytest.approx(measured_cost(model, length), rel=1e-9)


@pytest.mark.parametrize("kind", ["t5", "umt5"])
@pytest.mark.parametrize("site", SITES)
def test_costs_of_a_t5(kind, site, task, tmp_path):
    """By formula and as torch counts; its heads are together less wide than the model."""
    arch, options = TRANSLATORS[kind]
    path = save_model(tmp_path / "b.pt", task, arch, **options)
    model = make_variator(task, path, compression_ratio=3, compression_site=site)
    shape, layer = shape_of(model), frozen_backbone(path, task, arch, options).encoder.layers[0]
    assert ffn_parameters(shape) == layer.fc1.weight.numel() + layer.fc2.weight.numel()
    for ratio in (1, 3):
        with model.compression_ratio(ratio):
            cost = model.encoder_cost(shape_of(model), 19)
            assert cost == pytest.approx(measured_cost(model, 19), rel=1e-9)
