"""The model against a slow one that reads each sentence alone, layer by layer."""

import random
import re
from contextlib import nullcontext

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask

from pet_fairseq.errors import UserError
from pet_fairseq.nn.hooks import forward_hooks
from pet_fairseq.selfcp.connector import rarest_word
from pet_fairseq.selfcp.dataset import PromptDataset, Texts
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.options import SelfCpConfig
from pet_fairseq.selfcp.segments import memory_length, split_prompt
from tests.translation import make_task as make_translation
from tests.translation import save_model

TINY = {
    **{"decoder_layers": 2, "decoder_embed_dim": 16, "decoder_ffn_embed_dim": 24},
    **{"decoder_attention_heads": 2, "decoder_output_dim": 16, "decoder_input_dim": 16},
    **{"tokens_per_sample": 64, "max_target_positions": 64},
    **{"share_decoder_input_output_embed": True},
}
KINDS = {
    "post-norm": ("transformer_lm", {}),
    "pre-norm": ("transformer_lm", {"decoder_normalize_before": True}),
    "learned": ("transformer_lm", {"decoder_learned_pos": True}),
    "llama": ("llama", {"decoder_key_value_heads": 1}),
    "qwen3": ("llama", {"qk_norm": True, "qkv_bias": True}),
}
LENGTHS = [(2, 5), (0, 9), (1, 14), (3, 23), (2, 0)]  # query and prompt, for a window of 7


@pytest.fixture
def task(tmp_path):
    dictionary = Dictionary()
    for i in range(14):
        dictionary.add_symbol(f"w{i}", n=20 - i)
    dictionary.save(str(tmp_path / "dict.txt"))
    cfg = LanguageModelingConfig(data=str(tmp_path), tokens_per_sample=64)
    return LanguageModelingTask.setup_task(cfg)


@pytest.fixture
def softmax_in_float64(monkeypatch):
    """fairseq's attention computes it in float32 when it has a cache, which here is too coarse."""
    monkeypatch.setattr("fairseq.utils.softmax", lambda x, dim, onnx_trace: x.softmax(dim))


def make_selfcp(task, tmp_path, kind="post-norm", **options):
    torch.manual_seed(5)
    arch, kind_options = KINDS[kind]
    path = save_model(tmp_path / "lm.pt", task, arch, **TINY, **kind_options)
    cfg = SelfCpConfig(backbone_path=path, **{"window": 7, "memory_ratio": 3, **options})
    return SelfCpModel.build_model(cfg, task).double()


def make_sample(task, lengths, response=4, seed=0, ratio=3.0):
    draw = torch.Generator().manual_seed(seed)
    pad, eos = task.dictionary.pad(), task.dictionary.eos()

    def words(n):
        return torch.randint(4, len(task.dictionary), (n,), generator=draw)

    start, between = torch.tensor([eos]), torch.tensor([task.dictionary.bos()])
    rows = [torch.cat([start, words(q), between, words(n)]) for q, n in lengths]
    answers = [words(1 + (response + i) % 5) for i in range(len(lengths))]
    pad_rows = torch.nn.utils.rnn.pad_sequence
    end = start
    return {
        "net_input": {
            "src_tokens": pad_rows(rows, True, pad),
            "src_lengths": torch.tensor([len(row) for row in rows]),
            "ratios": [ratio] * len(lengths),
            "prev_output_tokens": pad_rows([torch.cat([start, a]) for a in answers], True, pad),
        },
        "target": pad_rows([torch.cat([a, end]) for a in answers], True, pad),
    }


# --- the reference --------------------------------------------------------------------------------


def read_slowly(decoder, vectors):
    """Last states of one sentence whose vectors (T x C) are given without their positions."""
    time = len(vectors)
    x = torch.stack(vectors)[:, None]
    if decoder.embed_positions is not None:
        x = x + decoder.embed_positions(torch.full((1, time), 4)).transpose(0, 1)
    future = torch.full((time, time), -torch.inf, dtype=x.dtype).triu(1)
    for layer in decoder.layers:
        before = layer.normalize_before
        h = layer.self_attn_layer_norm(x) if before else x
        x = x + layer.self_attn(h, h, h, attn_mask=future)[0]
        x = x if before else layer.self_attn_layer_norm(x)
        h = layer.final_layer_norm(x) if before else x
        x = x + layer.fc2(layer.activation_fn(layer.fc1(h)))
        x = x if before else layer.final_layer_norm(x)
    return (x if decoder.layer_norm is None else decoder.layer_norm(x))[:, 0]


def tags_slowly(model, m):
    """The tags of m memory tokens."""
    tag = model.encoder.memory_tag
    return [tag] * m if model.cfg.memory_tags == 1 else [tag[i] for i in range(m)]


def prefix_slowly(model, head, prompt, ratio):
    """The vectors that the generator reads before the response, for one sentence."""
    decoder, cfg = model.decoder.inner, model.cfg

    def embedded(tokens):
        return [decoder.embed_scale * decoder.embed_tokens.weight[t] for t in tokens]

    vectors, memories = embedded(head), []
    for start, stop, compressed in split_prompt(
        len(prompt), cfg.window, cfg.prompt_strategy, ratio
    ):
        text = embedded(prompt[start:stop])
        if compressed:
            m = memory_length(stop - start, ratio)
            before = memories if cfg.prompt_strategy == "recursive" else []
            read = [*embedded(head), *before, *text, *tags_slowly(model, m)]
            text = list(model.encoder.connector(read_slowly(decoder, read)[-m:]))
            memories = [*memories, *text]
        vectors += text
    return vectors, embedded


def logits_slowly(model, sample, i):
    """B x R x V for one sentence alone."""
    net_input = sample["net_input"]
    row = net_input["src_tokens"][i, : net_input["src_lengths"][i]].tolist()
    head = row.index(0)  # of <s>
    ratio = float(net_input["ratios"][i])
    vectors, embedded = prefix_slowly(model, row[:head], row[head + 1 :], ratio)
    vectors += embedded(net_input.get("cue", []))
    response = net_input["prev_output_tokens"][i, 1:]
    response = response[response != 1].tolist()
    states = read_slowly(model.decoder.inner, vectors + embedded(response))
    return model.decoder.inner.output_layer(states[len(vectors) - 1 :])


# --- tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "strategy",
    [
        *("former", "latter", "concat", "recursive", "truncate", "truncate_latter", "full"),
        *("truncate_equal", "truncate_latter_equal"),
    ],
)
def test_logits_equal_the_reference(kind, strategy, task, tmp_path):
    model = make_selfcp(task, tmp_path, kind, prompt_strategy=strategy)
    sample = make_sample(task, LENGTHS)
    sample["net_input"]["ratios"] = [3.0, 2.0, 4.0, 2.5, 3.0]
    with torch.no_grad():
        found = model(**sample["net_input"])[0]
        for i in range(len(LENGTHS)):
            expected = logits_slowly(model, sample, i)
            torch.testing.assert_close(found[i, : len(expected)], expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["former", "recursive"])
def test_a_tag_for_each_memory_token_and_no_connector(
    kind, strategy, task, tmp_path, softmax_in_float64
):
    """As in AutoCompressors: logits and the tags' gradients are those of the slow reference."""
    alone = {"memory_tags": 5, "connector": "none", "prompt_strategy": strategy}
    model = make_selfcp(task, tmp_path, kind, **alone).train()
    with torch.no_grad():
        model.encoder.memory_tag += torch.randn_like(model.encoder.memory_tag)
    assert [name for name, p in model.named_parameters() if p.requires_grad] == [
        "encoder.memory_tag"
    ]
    sample = make_sample(task, LENGTHS)
    logits = model(**sample["net_input"])[0]
    gradients = []
    expected = [logits_slowly(model, sample, i) for i in range(len(LENGTHS))]
    found = [row[: len(other)] for row, other in zip(logits, expected)]
    torch.testing.assert_close(found, expected)
    for rows in (found, expected):
        model.zero_grad()
        sum(row.square().sum() for row in rows).backward()
        gradients.append(model.encoder.memory_tag.grad.clone())
    close = {"rtol": 1e-5, "atol": 1e-6} if model.encoder.has_rotary_positions else {}
    torch.testing.assert_close(*gradients, **close)
    used = gradients[0].abs().sum(dim=1).gt(0)
    assert used[0] and not torch.equal(gradients[0][0], gradients[0][1])


def test_as_many_tags_as_memory_tokens(task, tmp_path):
    model = make_selfcp(task, tmp_path, memory_tags=2, prompt_strategy="concat")
    with pytest.raises(UserError, match=r"^--memory-tags 2: a segment becomes 3 memory"):
        model(**make_sample(task, [(2, 21)])["net_input"])
    state = dict(model.state_dict())
    assert state["encoder.memory_tag"].shape == (2, 16)
    model.load_state_dict(dict(state))
    for tags, stored in ((1, state), (3, state), (2, make_selfcp(task, tmp_path).state_dict())):
        has = 1 if stored is not state else 2
        with pytest.raises(UserError, match=f"^--memory-tags {tags}: the checkpoint has {has}; "):
            make_selfcp(task, tmp_path, memory_tags=tags).load_state_dict(dict(stored))


@pytest.mark.parametrize("kind", ["post-norm", "llama"])
def test_a_cue_is_read_after_each_prompt(kind, task, tmp_path):
    model = make_selfcp(task, tmp_path, kind, prompt_strategy="latter").eval()
    sample = make_sample(task, LENGTHS)
    net_input = sample["net_input"]
    with torch.no_grad():
        without = model(**net_input)[0]
        net_input["cue"] = torch.tensor([7, 5])
        found, _ = model(**net_input)
        for i in range(len(LENGTHS)):
            expected = logits_slowly(model, sample, i)
            torch.testing.assert_close(found[i, : len(expected)], expected)
    assert not torch.allclose(found, without)
    generator = SequenceGenerator([model], task.dictionary, beam_size=2, max_len_a=0, max_len_b=5)
    for i, hypotheses in enumerate(generator.generate([model], sample)):
        tokens = hypotheses[0]["tokens"]
        again = {k: v if k == "cue" else v[i : i + 1] for k, v in net_input.items()}
        again["prev_output_tokens"] = torch.cat([torch.tensor([2]), tokens[:-1]])[None]
        with torch.no_grad():
            scores = logits_slowly(model, {"net_input": again}, 0).log_softmax(dim=-1)
        expected = scores.gather(1, tokens[:, None])[:, 0]
        torch.testing.assert_close(
            hypotheses[0]["positional_scores"].double(), expected, rtol=0, atol=1e-5
        )


@pytest.mark.parametrize("most", [1, 20, 40, 10_000])
def test_batches_of_the_compressor_change_nothing(most, task, tmp_path):
    model = make_selfcp(task, tmp_path, prompt_strategy="concat", max_compressor_tokens=most)
    whole = make_selfcp(task, tmp_path, prompt_strategy="concat")
    sample = make_sample(task, LENGTHS)
    with torch.no_grad():
        found, expected = (m(**sample["net_input"])[0] for m in (model, whole))
    real = sample["target"] != task.dictionary.pad()
    torch.testing.assert_close(found[real], expected[real])


@pytest.mark.parametrize("kind", KINDS)
def test_within_the_window_it_is_the_backbone(kind, task, tmp_path):
    model = make_selfcp(task, tmp_path, kind).float()
    sample = make_sample(task, [(2, 5), (1, 7), (0, 3)])
    net_input, responses = sample["net_input"], sample["target"].size(1)
    with torch.no_grad():
        found = model(**net_input)[0]
    rows = []
    for row, n, previous in zip(
        *(net_input[k] for k in ("src_tokens", "src_lengths", "prev_output_tokens"))
    ):
        row = row[:n][row[:n] != 0]  # without the <s> between query and prompt
        rows.append(torch.cat([row, previous[1:][previous[1:] != 1]]))
    inner, ends = model.decoder.inner, net_input["src_lengths"] - 2
    # as much padding and as many logits as the model has: other shapes may be summed up otherwise
    tokens = torch.full((3, net_input["src_tokens"].size(1) - 1 + responses - 1), 1)
    for filled, row in zip(tokens, rows):
        filled[: len(row)] = row
    with torch.no_grad():
        states = inner(tokens, features_only=True)[0]
        asked = states[torch.arange(3)[:, None], ends[:, None] + torch.arange(responses)]
        expected, whole = inner.output_layer(asked), inner(tokens)[0]
    for i, end in enumerate(ends.tolist()):
        real = int((sample["target"][i] != 1).sum())
        assert torch.equal(found[i, :real], expected[i, :real])
        torch.testing.assert_close(found[i, :real], whole[i, end : end + real])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("strategy", "recompute"),
    [("former", False), ("latter", False), ("recursive", False), ("former", True)],
)
def test_gradients_equal_the_reference(
    kind, strategy, recompute, task, tmp_path, monkeypatch, softmax_in_float64
):
    if recompute:  # the backbone was trained with --checkpoint-activations
        monkeypatch.setitem(KINDS[kind][1], "checkpoint_activations", True)
    model = make_selfcp(task, tmp_path, kind, prompt_strategy=strategy).train()
    sample = make_sample(task, LENGTHS, seed=3)
    sample["net_input"]["ratios"] = [3.0, 2.0, 4.0, 2.5, 3.0]
    logits, _ = model(**sample["net_input"])
    expected = [logits_slowly(model, sample, i) for i in range(len(LENGTHS))]
    found = [row[: len(other)] for row, other in zip(logits, expected)]
    torch.testing.assert_close(found, expected)
    weights = [torch.randn_like(rows) for rows in expected]

    def gradients(rows):
        model.zero_grad()
        sum((w * r).sum() for w, r in zip(weights, rows)).backward()
        return [p.grad for p in model.parameters() if p.requires_grad]

    # a text's rotary positions begin later, behind its padding, and their angles are in float32
    close = {"rtol": 1e-5, "atol": 1e-6} if model.encoder.has_rotary_positions else {}
    torch.testing.assert_close(gradients(found), gradients(expected), **close)


@pytest.mark.parametrize("kind", KINDS)
def test_no_graph_is_kept_of_a_text_in_front_of_tags(kind, task, tmp_path, softmax_in_float64):
    model = make_selfcp(task, tmp_path, kind, max_compressor_tokens=60).train()
    compressor, decoder = model.encoder, model.decoder.inner
    lengths, numbers = torch.randint(1, 25, (7,)).tolist(), torch.randint(1, 6, (7,)).tolist()
    texts = [torch.randint(4, len(task.dictionary), (n,)) for n in lengths]
    kept = []  # length of what a layer made, and whether a graph of it is kept

    def watch(module, args, output):
        kept.append((len(output[0]), output[0].requires_grad))

    with forward_hooks(*((layer, watch) for layer in decoder.layers)):
        found = compressor.compress([[text] for text in texts], numbers)
    assert max(time for time, _ in kept) == max(lengths)
    assert {graph for time, graph in kept if time > max(numbers)} == {False}
    assert [graph for _, graph in kept] == [False, False, True, True] * (len(kept) // 4)
    for text, m, memory in zip(texts, numbers, found):
        words = [decoder.embed_scale * decoder.embed_tokens.weight[t] for t in text]
        states = read_slowly(decoder, words + [compressor.memory_tag] * m)[-m:]
        torch.testing.assert_close(memory, compressor.connector(states))


@pytest.mark.parametrize(
    ("options", "graph", "in_turn"),
    [
        ({}, True, True),
        ({}, False, False),  # two passes would only take longer
        ({"lora_rank": 2, "lora_on": "reader"}, True, True),
        ({"lora_rank": 2, "lora_on": "compressor"}, True, False),
    ],
)
def test_when_texts_are_read_without_a_graph(options, graph, in_turn, task, tmp_path):
    compressor = make_selfcp(task, tmp_path, **options).encoder
    text = torch.tensor([5, 6])
    with torch.set_grad_enabled(graph):
        assert compressor.only_tags_are_trained([[text], [text]]) == in_turn
        memory = compressor.compress([[text]], [2])[0]
        assert not (graph and compressor.only_tags_are_trained([[text], [text, memory]]))


def test_gradients_reach_the_tag_through_the_frozen_model(task, tmp_path, softmax_in_float64):
    model = make_selfcp(task, tmp_path, prompt_strategy="recursive").train()
    sample = make_sample(task, [(2, 5), (1, 23)])
    real = sample["target"] != 1

    def loss():
        scores = model(**sample["net_input"])[0].log_softmax(dim=-1)
        return -scores.gather(2, sample["target"][..., None])[..., 0][real].sum()

    loss().backward()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert set(trained) == {
        "encoder.memory_tag",
        "encoder.connector.weight",
        "encoder.connector.bias",
    }
    assert all(p.grad is None for n, p in model.named_parameters() if n not in trained)
    step = 1e-6
    for parameter in trained.values():
        flat, grad = parameter.detach().view(-1), parameter.grad.view(-1)
        for i in torch.randperm(len(flat))[:5].tolist():
            ends = []
            for sign in (1, -1):
                flat[i] += sign * step
                ends.append(float(loss().detach()))
                flat[i] -= sign * step
            assert grad[i].item() == pytest.approx(
                (ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-6
            )


def test_training_halves_what_fits_into_the_window(task, tmp_path):
    model = make_selfcp(task, tmp_path).train()
    net_input = make_sample(task, [(2, 5), (1, 7)])["net_input"]
    norms = []
    for draws in ({}, {"latter": [True, False]}):
        model.zero_grad()
        model(**net_input, **draws)[0].square().sum().backward()
        norms.append(float(model.encoder.memory_tag.grad.norm()))
    assert norms[0] == 0 and norms[1] > 0


def test_rarest_word():
    dictionary = Dictionary()
    for word, count in (("<a>", 1), ("b", 3), ("c", 2), ("d", 0), ("e", 2), ("[PAD]", 1)):
        dictionary.add_symbol(word, n=count)
    assert dictionary[rarest_word(dictionary)] == "e"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["former", "latter", "concat", "full"])
@pytest.mark.parametrize("beam", [1, 3])
def test_generation_equals_running_all_again_each_step(kind, strategy, beam, task, tmp_path):
    model = make_selfcp(task, tmp_path, kind, prompt_strategy=strategy).eval()
    sample = make_sample(task, LENGTHS)
    generator = SequenceGenerator(
        [model], task.dictionary, beam_size=beam, max_len_a=0, max_len_b=6
    )
    for i, hypotheses in enumerate(generator.generate([model], sample)):
        assert len(hypotheses) == beam
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            again = {k: v[i : i + 1] for k, v in sample["net_input"].items()}
            again["prev_output_tokens"] = torch.cat([torch.tensor([2]), tokens[:-1]])[None]
            alone = {"net_input": again}
            with torch.no_grad():
                scores = logits_slowly(model, alone, 0).log_softmax(dim=-1)
            expected = scores.gather(1, tokens[:, None])[:, 0]
            found = hypothesis["positional_scores"].double()
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["post-norm", "learned", "llama"])
def test_responses_end_where_the_model_has_no_positions_left(kind, task, tmp_path):
    model = make_selfcp(task, tmp_path, kind, prompt_strategy="full").eval()
    lengths = [(0, 60), (0, 62), (2, 20)]
    sample = make_sample(task, lengths)
    generator = SequenceGenerator([model], task.dictionary, beam_size=2, max_len_a=0, max_len_b=30)
    for (query, prompt), hypotheses in zip(lengths, generator.generate([model], sample)):
        for hypothesis in hypotheses:
            # </s>, query, prompt and all of the response but its </s> have positions
            assert 1 + query + prompt + len(hypothesis["tokens"]) - 1 <= 64
    sample = make_sample(task, [(0, 63)])
    with pytest.raises(UserError, match=r"come to 65 tokens, but the backbone has 64 positions"):
        generator.generate([model], sample)


def test_a_query_may_hold_the_symbol_that_ends_it(task, tmp_path):
    """Llama 2's queries begin with its <s>."""
    reader = make_selfcp(task, tmp_path).encoder
    queries = [torch.tensor(words) for words in ([0, 5, 6], [5, 0], [])]
    prompts = [torch.tensor(words) for words in ([7, 8], [9], [7, 0, 8])]
    dataset = PromptDataset(Texts(queries), Texts(prompts), None, task.dictionary)
    net_input = dataset.collater([dataset[i] for i in range(3)])["net_input"]
    names = ("src_tokens", "src_lengths", "query_lengths")
    found = reader.split(*(net_input[name] for name in names))
    assert [query.tolist() for query in found[0]] == [[2, 0, 5, 6], [2, 5, 0], [2]]
    assert [prompt.tolist() for prompt in found[1]] == [[7, 8], [9], [7, 0, 8]]


def test_greedy_takes_the_best_token_each_time(task, tmp_path):
    model = make_selfcp(task, tmp_path).eval()
    sample = make_sample(task, LENGTHS)
    generator = SequenceGenerator([model], task.dictionary, beam_size=1, max_len_a=0, max_len_b=5)
    for i, (hypothesis,) in enumerate(generator.generate([model], sample)):
        tokens = hypothesis["tokens"].tolist()
        for t in range(min(len(tokens), 5)):
            again = {k: v[i : i + 1] for k, v in sample["net_input"].items()}
            again["prev_output_tokens"] = torch.tensor([[2, *tokens[:t]]])
            with torch.no_grad():
                scores = logits_slowly(model, {"net_input": again}, 0)[-1]
            scores[1] = -torch.inf  # padding is never generated
            assert int(scores.argmax()) == tokens[t]


def test_saves_tag_and_connector_only(task, tmp_path):
    model = make_selfcp(task, tmp_path)
    state = model.state_dict()
    names = {"encoder.memory_tag", "encoder.connector.weight", "encoder.connector.bias"}
    assert set(state) == names | {"backbone_hash", "dictionary_hash"}
    with torch.no_grad():
        for parameter in (model.encoder.memory_tag, model.encoder.connector.weight):
            parameter.add_(1)
    changed = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    again = SelfCpModel.build_model(model.cfg, task).double()
    again.load_state_dict(dict(changed), strict=True)
    sample = make_sample(task, LENGTHS)
    with torch.no_grad():
        assert torch.equal(again(**sample["net_input"])[0], model(**sample["net_input"])[0])
    path = save_model(tmp_path / "o.pt", task, "transformer_lm", **TINY)
    other = SelfCpConfig(backbone_path=path, window=7)
    with pytest.raises(UserError, match=r"o.pt: not the file that the memory tag and connector"):
        SelfCpModel.build_model(other, task).load_state_dict(dict(state))


def test_words_in_another_order(task, tmp_path):
    """Refused, though the language model's own dictionary is gone and the sizes are equal."""
    model = make_selfcp(task, tmp_path)
    state = dict(model.state_dict())
    (tmp_path / "other").mkdir()
    words = task.dictionary.symbols[4:]
    text = "".join(f"{word} 1\n" for word in [*words[1:], words[0]])
    (tmp_path / "other/dict.txt").write_text(text)
    (tmp_path / "dict.txt").unlink()
    cfg = LanguageModelingConfig(data=str(tmp_path / "other"), tokens_per_sample=64)
    other = SelfCpModel.build_model(model.cfg, LanguageModelingTask.setup_task(cfg)).double()
    with pytest.raises(UserError, match=r"other/dict.txt: not the dictionary that the memory tag"):
        other.load_state_dict(dict(state))
    del state["dictionary_hash"]  # a checkpoint from before it was noted
    other.load_state_dict(state)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"memory_ratio": 0.5}, "--memory-ratio 0.5: give 1 or more"),
        ({"memory_ratio": float("nan")}, "--memory-ratio nan: give 1 or more"),
        ({"memory_ratio": float("inf")}, "--memory-ratio inf: give 1 or more, but not inf"),
        ({"prompt_strategy": "half"}, "--prompt-strategy half: give one of auto, former"),
        ({"connector": "norm"}, "--connector norm: give one of linear, linear_norm"),
        ({"memory_tags": 0}, "--memory-tags 0: give 1 or more"),
        ({"connector": "none", "standardise_on": 4}, "--standardise-on 4: there is no connector"),
        ({"window": 0}, "--window 0: give 1 or more"),
        ({"window": 64}, "--window 64: the backbone has 64 positions"),
        ({"max_compressor_tokens": 0}, "--max-compressor-tokens 0: give 1 or more"),
    ],
)
def test_bad_options(options, message, task, tmp_path):
    with pytest.raises(UserError, match=message):
        make_selfcp(task, tmp_path, **options)


def test_other_models_and_long_texts(task, tmp_path):
    translation = make_translation(tmp_path / "data")
    path = save_model(tmp_path / "t.pt", translation)
    with pytest.raises(UserError, match=r"t.pt: not a decoder-only Transformer"):
        SelfCpModel.build_model(SelfCpConfig(backbone_path=path, window=7), translation)
    for strategy, query, remedy in (
        ("full", 0, r"--prompt-strategy full: .* give a strategy that reads less or shorter"),
        ("former", 70, r"--window 7: .* give a smaller window, .* or shorter queries"),
    ):
        model = make_selfcp(task, tmp_path, prompt_strategy=strategy)
        sample = make_sample(task, [(query, 70 - query)])
        with pytest.raises(UserError, match=r"come to 71 tokens, but the backbone has 64") as error:
            model(**sample["net_input"])
        assert re.search(remedy, str(error.value))


UNTIED = {"share_decoder_input_output_embed": False}
ADAPTIVE = {"adaptive_input": True, "adaptive_input_cutoff": "8"}


@pytest.mark.parametrize(
    ("arch", "options", "message"),
    [
        ("transformer_lm", UNTIED | {"adaptive_softmax_cutoff": "8"}, "has an adaptive softmax"),
        ("transformer_lm", UNTIED | ADAPTIVE, "without --adaptive-input"),
        ("transformer_lm", UNTIED | {"character_embeddings": True}, "--character-embeddings"),
        ("transformer_lm", UNTIED | {"decoder_input_dim": 8}, "whose --decoder-input-dim is its"),
    ],
)
def test_backbones_that_cannot_read_vectors(arch, options, message, task, tmp_path):
    path = save_model(tmp_path / "other.pt", task, arch, **TINY | options)
    with pytest.raises(UserError, match=message) as error:
        SelfCpModel.build_model(SelfCpConfig(backbone_path=path, window=7), task)
    assert str(error.value).startswith(f"--backbone-path {path}: ")


def test_a_backbone_of_another_width_inside(task, tmp_path):
    """As `--arch transformer_lm --decoder-embed-dim` makes them: 512 outside by default."""
    widths = {"decoder_input_dim": 24, "decoder_output_dim": 24}
    path = save_model(tmp_path / "other.pt", task, "transformer_lm", **TINY | widths)
    model = SelfCpModel.build_model(SelfCpConfig(backbone_path=path, window=7), task).eval()
    sample = make_sample(task, [(3, 20), (1, 14)])
    logits, _ = model(**sample["net_input"])
    assert logits.size(2) == len(task.source_dictionary) and logits.isfinite().all()


@pytest.mark.parametrize("strategy", ["former", "latter", "concat", "recursive"])
def test_a_drawn_ratio_is_larger_where_the_model_has_no_positions_for_it(strategy, task, tmp_path):
    """64 positions: 120 tokens at ratio 2 would be 7 tokens and 57 memory tokens."""
    model = make_selfcp(task, tmp_path, prompt_strategy=strategy)
    sample = make_sample(task, [(3, 120), (1, 14)], ratio=2.0)
    responses = sample["net_input"]["prev_output_tokens"].size(1) - 1
    with torch.no_grad():
        output, more = model(**sample["net_input"])
    assert output.isfinite().all()
    read = more["read"].tolist()
    assert read[0] + responses <= 64
    # the short one as drawn: </s>, a word, 7 tokens and ceil(7 / 2) memory tokens
    assert read[1] == 2 + 7 + 4
    del sample["net_input"]["ratios"]  # in use nothing is changed in silence
    model.cfg.memory_ratio = 2
    with pytest.raises(UserError, match="but the backbone has 64 positions"):
        model(**sample["net_input"])


@pytest.mark.parametrize("strategy", ["auto", "latter", "concat", "recursive", "truncate", "full"])
@pytest.mark.parametrize("segment", [0, 3, 40])
def test_positions_needed(strategy, segment, task, tmp_path):
    """As the model finds out when it reads a record alone and gives its response."""
    model = make_selfcp(task, tmp_path, prompt_strategy=strategy, segment_tokens=segment).float()
    draw = random.Random(f"{strategy} {segment}")
    fits = []
    for cue in (0, 3) * 20:
        query, prompt = draw.choice([2, 10, 60]), draw.randint(0, 130)
        model.cfg.memory_ratio = ratio = draw.choice([1.5, 3, 8])
        sample = make_sample(task, [(query, prompt)])["net_input"]
        del sample["ratios"]
        response = sample["prev_output_tokens"].size(1) - 1
        needed = model.encoder.positions_needed(1 + query, prompt, cue + response, ratio)
        fits.append(needed <= 64)
        refused = pytest.raises(UserError, match="but the backbone has 64 positions")
        with nullcontext() if fits[-1] else refused, torch.no_grad():
            model(**sample, cue=torch.full((cue,), 5))
    assert set(fits) == {True, False}


@pytest.mark.parametrize("strategy", ["former", "latter", "concat", "recursive"])
def test_segments_of_other_prompts(strategy, task, tmp_path):
    """The control: memory of another prompt in its place, all else as it is."""
    model = make_selfcp(task, tmp_path, prompt_strategy=strategy)
    lengths = [(2, 23), (1, 20)]
    sample, other = (make_sample(task, lengths, seed=seed)["net_input"] for seed in (0, 1))
    rows = [other["src_tokens"][0, 4:27], other["src_tokens"][1, 3:18]]  # the second is too short
    pad = torch.nn.utils.rnn.pad_sequence(rows, True, 1)
    given = {"others": pad, "other_lengths": torch.tensor([23, 15])}
    prompts = {k: v for k, v in sample.items() if k != "prev_output_tokens"}
    with torch.no_grad():
        control, own = model.encoder.read(**prompts, **given), model.encoder.read(**prompts)
    assert torch.equal(control.is_vector, own.is_vector)
    assert torch.equal(control.tokens, own.tokens)
    # the same memory as of a prompt that is the other one, over and over, behind this query
    mixed = sample["src_tokens"].clone()
    mixed[0, 4:27] = rows[0]
    mixed[1, 3:23] = torch.cat([rows[1], rows[1]])[:20]
    with torch.no_grad():
        expected = model.encoder.read(**{**prompts, "src_tokens": mixed})
    torch.testing.assert_close(control.vectors, expected.vectors)
    assert not torch.allclose(control.vectors, own.vectors)
