"""Plugins in a decoder-only model: only in the prompt, never over what is to be predicted."""

import argparse
import random

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from torch.testing import assert_close

from pet_fairseq.errors import UserError
from pet_fairseq.nn.attention import replace_fairseq_attention
from pet_fairseq.nn.freezing import freeze
from pet_fairseq.variator.criterion import VariatorDistillationCriterion
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.plugin_files import new_plugins
from pet_fairseq.variator.stack_wrappers import prompt_mask
from tests.translation import make_model, make_task, save_model
from tests.variator.layers import layers_by_hand
from tests.variator.test_model import make_variator

LLAMA = {
    **{"decoder_attention_heads": 4, "decoder_key_value_heads": 2, "decoder_head_dim": 6},
    **{"rms_norm_eps": 1e-5, "rope_theta": 10000.0},
}
KINDS = {
    "post-norm": ("transformer_lm", {}),
    "pre-norm": ("transformer_lm", {"decoder_normalize_before": True}),
    "gpt2": (
        "gpt2",
        {
            **{"decoder_normalize_before": True, "decoder_learned_pos": True},
            **{"no_scale_embedding": True, "activation_fn": "gelu_accurate"},
        },
    ),
    "llama": ("llama", {**LLAMA, "qkv_bias": True}),
    "qwen3": ("llama", {**LLAMA, "qk_norm": True}),
}
ACTIVATION = {"gpt2": "gelu", "llama": "swiglu", "qwen3": "swiglu"}
SITES = ["ffn", "attention", "attention-kv"]
TINY = {
    **{"decoder_layers": 2, "decoder_embed_dim": 16, "decoder_ffn_embed_dim": 24},
    **{"decoder_attention_heads": 2, "decoder_output_dim": 16, "decoder_input_dim": 16},
    **{
        "tokens_per_sample": 64,
        "max_target_positions": 64,
        "share_decoder_input_output_embed": True,
    },
}


@pytest.fixture
def task(tmp_path):
    dictionary = Dictionary()
    for word in ["<sep>", *(f"w{i}" for i in range(12))]:
        dictionary.add_symbol(word)
    dictionary.save(str(tmp_path / "dict.txt"))
    cfg = LanguageModelingConfig(data=str(tmp_path), tokens_per_sample=64)
    return LanguageModelingTask.setup_task(cfg)


def make_lm(task, tmp_path, kind="post-norm", **options):
    arch, sizes = KINDS[kind]
    path = save_model(tmp_path / "lm.pt", task, arch, **TINY | sizes)
    options = {"prompt_end": "<sep>", **options}
    return make_variator(task, path, **options).double()


def make_tokens(task, shapes, seed=0):
    """Rows of `prompt` symbols, the end symbol and `rest` more (None: no end), padded right."""
    draw = torch.Generator().manual_seed(seed)
    end = task.dictionary.index("<sep>")
    rows = []
    for prompt, rest in shapes:
        words = torch.randint(5, len(task.dictionary), (1 + prompt + (rest or 0),), generator=draw)
        words[0] = task.dictionary.eos()
        if rest is not None:
            words = torch.cat([words[: 1 + prompt], torch.tensor([end]), words[1 + prompt :]])
        rows.append(words)
    return torch.nn.utils.rnn.pad_sequence(rows, True, task.dictionary.pad())


def lone_output(model, tokens, activation="relu"):
    """One sentence through the decoder layer by layer, group by group and head by head."""
    decoder = model.stack.inner
    end = (tokens == model.stack.prompt_end_idx).nonzero()
    length = int(end[0]) + 1 if len(end) else 0
    x = decoder.embed_scale * decoder.embed_tokens(tokens)
    if decoder.embed_positions is not None:
        x = x + decoder.embed_positions(tokens[None])[0]
    x = layers_by_hand(model, x, length, activation)
    return decoder.output_layer(x[None])[0]


def test_prompt_mask():
    tokens = torch.tensor([[2, 5, 4, 6, 4, 1], [2, 4, 5, 5, 5, 5], [2, 5, 5, 5, 5, 5]])
    found = prompt_mask(tokens, end=4)
    assert found.tolist() == [[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0] * 6]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("ratio", [2, 3, 5])
def test_equals_the_reference_in_ragged_batches(kind, site, ratio, task, tmp_path):
    model = make_lm(task, tmp_path, kind, compression_ratio=ratio, compression_site=site)
    draw = random.Random(f"{kind} {site} {ratio}")
    drawn = [(draw.randrange(1, 9), draw.randrange(5)) for _ in range(3)]
    near = 1e-5 if KINDS[kind][0] == "llama" else 1e-9  # its angles are float32
    for shapes in ([*drawn, (0, 4)], [*drawn, (0, 0), (3, None)], [(4, 0), (4, 0)]):
        tokens = make_tokens(task, shapes, seed=ratio)
        with torch.no_grad():
            outputs = model(tokens)[0]
            for row, output in zip(tokens, outputs):
                row = row[row != task.dictionary.pad()]
                expected = lone_output(model, row, ACTIVATION.get(kind, "relu"))
                torch.testing.assert_close(output[: len(row)], expected, rtol=near, atol=near)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("site", SITES)
def test_ratio_1_is_the_backbone(kind, site, task, tmp_path):
    model = make_lm(task, tmp_path, kind, compression_site=site)
    arch, sizes = KINDS[kind]
    backbone, _ = make_model(task, arch, **TINY | sizes)
    state = torch.load(tmp_path / "lm.pt", weights_only=True)["model"]
    backbone.load_state_dict(state)
    freeze(backbone.double().eval())  # by which torch chooses how to multiply
    tokens = make_tokens(task, [(5, 4), (9, 0)])
    with torch.no_grad(), model.compression_ratio(1):
        assert_close(model(tokens)[0], backbone(tokens)[0], rtol=1e-12, atol=1e-12)
        replace_fairseq_attention(backbone)  # fairseq's attention sums in another order
        assert torch.equal(model(tokens)[0], backbone(tokens)[0])
    without = make_tokens(task, [(5, None), (3, None)])
    with torch.no_grad():
        assert not torch.allclose(
            model(tokens)[0], model.stack.run_uncompressed(tokens)[0], atol=1e-3
        )
        uncompressed = model.stack.run_uncompressed(without)
        assert torch.equal(model(without)[0], uncompressed[0])


@pytest.mark.parametrize("kind", ["post-norm", "llama"])
@pytest.mark.parametrize("site", SITES)
def test_no_position_sees_what_it_predicts(kind, site, task, tmp_path):
    model = make_lm(task, tmp_path, kind, compression_ratio=4, compression_site=site)
    tokens = make_tokens(task, [(6, 6)])
    with torch.no_grad():
        before = model(tokens)[0]
        for t in range(8, tokens.size(1)):  # the response begins at 8
            changed = tokens.clone()
            changed[0, t] = 5 + (changed[0, t] - 4) % 12
            after = model(changed)[0]
            assert torch.equal(after[:, :t], before[:, :t])
            assert not torch.equal(after[:, t:], before[:, t:])


GENERATING = [
    *(("post-norm", "ffn", ratio) for ratio in (1, 3)),
    *((kind, site, 3) for kind in ("gpt2", "llama", "qwen3") for site in SITES),
    ("llama", "attention-kv", 1),
]


@pytest.mark.parametrize("kind, site, ratio", GENERATING)
def test_generation_equals_running_all_again_each_step(kind, site, ratio, task, tmp_path):
    model = make_lm(task, tmp_path, kind, compression_ratio=3, compression_site=site)
    model.set_compression_ratio(ratio)
    prompts = make_tokens(task, [(5, 0), (9, 0), (0, 0), (2, 0)])
    lengths = prompts.ne(task.dictionary.pad()).sum(dim=1)
    found = generate(task, model, prompts)
    for prompt, n, hypotheses in zip(prompts, lengths, found):
        assert len({tuple(h["tokens"].tolist()) for h in hypotheses}) == 3
        for hypothesis in hypotheses:
            tokens = torch.cat([prompt[:1], hypothesis["tokens"][:-1]])
            assert torch.equal(tokens[:n], prompt[:n])
            with torch.no_grad():
                logits = model(tokens[None])[0][0]
            scores = logits.log_softmax(dim=-1).gather(1, hypothesis["tokens"][:, None])[:, 0]
            found_scores = hypothesis["positional_scores"].double()
            torch.testing.assert_close(found_scores[n - 1 :], scores[n - 1 :], rtol=0, atol=1e-5)
            if ratio > 1:
                assert not found_scores[: n - 1].any()


def generate(task, model, prompts, beam=3):
    lengths = prompts.ne(task.dictionary.pad()).sum(dim=1)
    ids = torch.arange(len(prompts))
    sample = {"id": ids, "net_input": {"src_tokens": prompts, "src_lengths": lengths}}
    options = argparse.Namespace(beam=beam, max_len_a=0, max_len_b=16, nbest=beam)
    return task.inference_step(task.build_generator([model], options), [model], sample)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_prompt_without_its_end_gets_no_answer(beam, task, tmp_path):
    """The others of its batch get theirs."""
    model = make_lm(task, tmp_path, compression_ratio=3)
    eos, pad = task.dictionary.eos(), task.dictionary.pad()
    for shapes in ([(5, None)], [(5, 0), (9, 0), (3, None)], [(4, None), (8, None)]):
        prompts = make_tokens(task, shapes)
        for prompt, (_, rest), found in zip(prompts, shapes, generate(task, model, prompts, beam)):
            prompt = prompt[prompt.ne(pad)]
            tokens, score = found[0]["tokens"].tolist(), found[0]["score"]
            if rest is None:
                assert tokens == [*prompt[1:].tolist(), eos] and abs(score) < 1e-5
            else:
                assert len(tokens) > len(prompt) and score < -0.1


def test_task_loss_leaves_out_what_the_groups_show(task, tmp_path):
    model = make_lm(task, tmp_path)
    criterion = VariatorDistillationCriterion(task, False, 0.5, "x", False)
    text = make_tokens(task, [(5, 4), (3, 3)])
    pad = task.dictionary.pad()
    inputs, target = text[:, :-1], text[:, 1:]
    ntokens = int(target.ne(pad).sum())
    sample = {
        **{"net_input": {"src_tokens": inputs, "src_lengths": inputs.ne(pad).sum(dim=1)}},
        **{"target": target, "ntokens": ntokens},
    }
    loss, size, log = criterion(model, sample)
    assert log["total"] == 4 + 3 and size == ntokens  # the responses only
    with torch.no_grad():
        scores = model(inputs)[0].log_softmax(dim=-1)
    rows = [(0, 6 + i) for i in range(4)] + [(1, 4 + i) for i in range(3)]
    expected = -sum(scores[b, t, target[b, t]] for b, t in rows) / 7
    assert log["task_loss"].item() / 7 == pytest.approx(expected.item())
    loss.backward()
    assert all(p.grad is not None for p in model.plugins.parameters())


@pytest.mark.parametrize(
    "options, message",
    [
        ({"prompt_end": ""}, "--prompt-end '': not in the dictionary"),
        ({"prompt_end": "<end>"}, "--prompt-end '<end>': not in the dictionary"),
        ({"compression_stack": "encoder"}, "--compression-stack encoder: .* is decoder-only"),
    ],
)
def test_refused(options, message, task, tmp_path):
    with pytest.raises(UserError, match=message):
        make_lm(task, tmp_path, **options)


def save_adaptive(task, path, **options):
    """A language model of few words that are often used and many that are not."""
    options |= {"share_decoder_input_output_embed": False}
    return save_model(path, task, "transformer_lm", **TINY | options)


def test_an_adaptive_softmax_is_refused(task, tmp_path):
    """Its decoder gives features in the place of logits."""
    path = save_adaptive(task, tmp_path / "lm.pt", adaptive_softmax_cutoff="5,10")
    message = "lm.pt: the model has an adaptive softmax, which gives no logits; give a"
    with pytest.raises(UserError, match=message):
        make_variator(task, path, prompt_end="<sep>")


def test_an_adaptive_input_is_refused_where_there_is_no_data(task, tmp_path):
    options = {"adaptive_input": True, "adaptive_input_cutoff": "5,10"}
    path = save_adaptive(task, tmp_path / "lm.pt", **options)
    assert make_variator(task, path, prompt_end="<sep>").ratios == [1, 4]
    cfg = VariatorConfig(backbone_path=path, prompt_end="<sep>")
    with pytest.raises(UserError, match=r"lm.pt: a model with --adaptive-input cannot be built"):
        new_plugins(cfg, tmp_path / "plugins.pt")


def test_new_plugins_need_the_end_of_a_prompt(task, tmp_path):
    path = save_model(tmp_path / "lm.pt", task, "transformer_lm", **TINY)
    with pytest.raises(UserError, match="--prompt-end: missing"):
        new_plugins(VariatorConfig(backbone_path=path), tmp_path / "plugins.pt")
    assert not (tmp_path / "plugins.pt").exists()


def test_probabilities_of_a_compressed_prompt_are_refused(task, tmp_path):
    model = make_lm(task, tmp_path)
    tokens = make_tokens(task, [(5, 4)])
    output = model(tokens)
    with pytest.raises(UserError, match="for probabilities of whole texts set it to 1"):
        model.get_normalized_probs(output, log_probs=True)
    with model.compression_ratio(1):
        found = model.get_normalized_probs(model(tokens), log_probs=False)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones_like(found[..., 0]))


def test_the_decoder_of_an_encoder_decoder_is_refused(tmp_path):
    task = make_task(tmp_path / "data")
    path = save_model(tmp_path / "b.pt", task)
    with pytest.raises(UserError, match=r"--compression-stack decoder: .* show it its future"):
        make_variator(task, path, compression_stack="decoder")
