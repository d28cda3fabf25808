"""Prompts in the pieces of a Hugging Face tokenizer, with text around their parts."""

import json
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from fairseq.data import Dictionary, data_utils
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.bpe import TokenizerJson, TokenizerJsonConfig
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.predict.hub import CompletedLines
from pet_fairseq.selfcp.binarise import make_prompts
from pet_fairseq.selfcp.choose import encode
from pet_fairseq.selfcp.task import SelfCpTask, SelfCpTaskConfig
from pet_fairseq.selfcp.template import Template, read_chat_template
from tests.huggingface.llama import byte_level_tokenizer, write_llama

RECORDS = [("ab c", "fab ab", "a"), ("", "a" * 20, "b a\nd"), ("e", "", "<|start|>f")]
PARTS = ("query", "prompt", "response")
CHAT = (
    "{% for m in messages %}<|start|>{{ m['role'][0] | replace('u', 'a') | replace('a', 'b') }}\n"
    "{{ m['content'] }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|start|>b\n{% endif %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    write_llama(folder / "hf")
    import_model(folder / "hf", folder / "lm")
    return folder / "lm"


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(dict(zip(PARTS, record))) + "\n" for record in RECORDS))
    return {"train": path}


def read(folder, part):
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    data = data_utils.load_indexed_dataset(str(folder / f"train.{part}"), dictionary, "mmap")
    return [dictionary.string(data[i]).split() for i in range(len(data))]


def pieces(text):
    """What the tokenizer itself makes of a text; no piece of it has a space in its name."""
    return byte_level_tokenizer().encode(text, add_special_tokens=False).tokens


def test_pieces_and_dictionary_are_the_models(model, records, tmp_path):
    out = tmp_path / "bin"
    said = make_prompts(records, [], out, tokenizer=model / "tokenizer.json")
    for name in ("dict.txt", "tokenizer.json"):
        assert (out / name).read_bytes() == (model / name).read_bytes()
    assert (out / "lm/dict.txt").read_bytes() == (model / "dict.txt").read_bytes()
    assert read(out, "query") == [pieces(query) for query, _, _ in RECORDS]
    prompts = [" fab ab", "a" * 20, ""]  # a space between a query and its prompt, if there are both
    assert read(out, "prompt") == [pieces(prompt) for prompt in prompts]
    assert read(out, "response") == [pieces(response) for _, _, response in RECORDS]
    assert read(out, "response")[2] == ["<|start|>", "f"]
    assert "<unk>" not in said and not (out / "spm.model").exists()


def test_text_around_the_parts(model, records, tmp_path):
    """No piece reaches over a border: `ab` is one piece, `a` and a cue `b` are two."""
    out = tmp_path / "bin"
    template = Template("<|start|>f ", "b  ", "<|end|>", between="c\n")
    make_prompts(records, [], out, template=template, tokenizer=model / "tokenizer.json")
    assert pieces("ab") == ["ab"] and (out / "cue.txt").read_text() == "b\n"
    expected = [
        [
            pieces(f"<|start|>f {query}"),
            pieces(f"c\n{prompt}" if prompt else ""),
            pieces(f"  {response}<|end|>"),
        ]
        for query, prompt, response in RECORDS
    ]
    found = [read(out, part) for part in PARTS]
    assert list(map(list, zip(*found))) == expected
    texts = data_utils.load_indexed_dataset(
        str(out / "lm/train"), Dictionary.load(str(out / "dict.txt")), "mmap"
    )
    assert len(texts) == 3 and len(texts[1]) == sum(map(len, expected[1])) + 2  # cue and </s>

    task = SimpleNamespace(cfg=SimpleNamespace(data=str(out)))
    dictionary = Dictionary.load(str(out / "dict.txt"))
    (candidate,) = encode(["a"], task)
    assert [dictionary[i] for i in candidate] == ["Ġ", "Ġa", "<|end|>"]


@pytest.mark.parametrize(
    "before, space",
    [
        *[("", ""), ("", " "), ("<|start|>f a", " "), ("b\nc", " ")],
        *[("b\nc ", ""), ("b\nc ", " "), ("a: ", " ")],
    ],
)
@pytest.mark.parametrize("kind", ["tokenizer", "sentencepiece"])
def test_lines_of_interactive_are_read_as_records(kind, before, space, model, tmp_path):
    records = [("ab c", "fab ab", "a"), ("", "a" * 20, "b a"), ("fa b ab", "c", "e")]
    file, out = tmp_path / "train.jsonl", tmp_path / "bin"
    file.write_text("".join(json.dumps(dict(zip(PARTS, record))) + "\n" for record in records))
    given = {"template": Template(before)} if before else {}
    if kind == "tokenizer":
        symbol = "<|end|>"
        make_prompts({"train": file}, [], out, tokenizer=model / "tokenizer.json", **given)
        bpe = TokenizerJson(TokenizerJsonConfig(tokenizer_file=str(out / "tokenizer.json")))
    else:
        symbol = "<prompt>"
        make_prompts({"train": file}, [], out, vocab_size=105, **given)
        bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(out / "spm.model")))
    cfg = SelfCpTaskConfig(data=str(out), seed=1, prompt_symbol=symbol)
    task = SelfCpTask.setup_task(cfg)
    task.load_dataset("train")
    lines = [
        f"{query}{space}{symbol} {prompt}" if query else prompt for query, prompt, _ in records
    ]
    tokens, lengths = task.get_interactive_tokens_and_lengths(lines, bpe.encode)
    asked, trained = task.build_dataset_for_inference(tokens, lengths), task.dataset("train")
    for i in range(len(records)):
        for name in ("src_tokens", "query_lengths"):
            found, expected = (data.collater([data[i]])["net_input"] for data in (asked, trained))
            assert found[name].tolist() == expected[name].tolist()
    noted, task.template_tokens = task.template_tokens, []
    assert [t.tolist() for t in map(hub_of(task, bpe).encode, lines)] == [
        t.tolist() for t in tokens
    ]
    assert task.template_tokens == noted


def hub_of(task, bpe):
    """The interface of `from_pretrained`, without a model."""
    hub = CompletedLines.__new__(CompletedLines)
    torch.nn.Module.__init__(hub)
    hub.task, hub.src_dict, hub.tokenizer, hub.bpe = task, task.dictionary, None, bpe
    return hub


def test_a_tokenizer_that_puts_a_space_before_every_text(tmp_path):
    """Of the space between two parts and of its own, one is left."""
    for name in ("prepended", "metaspace"):
        folder = tmp_path / name
        folder.mkdir()
        tokenizer = Tokenizer(models.BPE({"\u2581": 0, "a": 1, "b": 2}, []))
        if name == "prepended":  # as in Llama 2
            steps = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
            tokenizer.normalizer = normalizers.Sequence(steps)
        else:  # as in T5
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "dict.txt").write_text("\u2581 1\na 1\nb 1\n")
        record = {"query": "a", "prompt": "b a", "response": "b"}
        (folder / "train.jsonl").write_text(json.dumps(record) + "\n")
        make_prompts(
            *({"train": folder / "train.jsonl"}, [], folder / "bin"),
            template=Template(cue="a "),
            tokenizer=folder / "tokenizer.json",
        )
        found = [read(folder / "bin", part) for part in PARTS]
        assert found == [[list("\u2581a")], [list("\u2581b\u2581a")], [list("\u2581b")]]


def test_chat_template(tmp_path):
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": CHAT, "eos_token": "<|end|>"}))
    template = read_chat_template(config)
    # the model's end of text is left to the </s> that ends every response
    assert template == Template("<|start|>b\n", "<|end|>\n<|start|>b\n", "")
    # where config.json names another one, that has become </s>, and this one is a word like others
    assert read_chat_template(config, ["<|end|>"]) == template._replace(after="<|end|>\n")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside/chat_template.jinja").write_text(CHAT)
    assert read_chat_template(tmp_path / "beside/chat_template.jinja").after == "<|end|>\n"
    (tmp_path / "beside/tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    assert read_chat_template(tmp_path / "beside/chat_template.jinja") == template
    alone = tmp_path / "chat_template.jinja"
    alone.write_text("[{{ messages[0].content }}]{{ bos_token }}{% for m in messages[1:] %}"
                     "{{ m.content }}!{% endfor %}")  # fmt: skip
    assert read_chat_template(alone) == Template("[", "]", "!")


def test_a_chat_template_beside_its_options(tmp_path):
    """As transformers 5 writes them; and several templates in one file, as 4 did."""
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"eos_token": "<|end|>"}')
    (tmp_path / "chat_template.jinja").write_text(CHAT)
    expected = Template("<|start|>b\n", "<|end|>\n<|start|>b\n", "")
    assert read_chat_template(config) == expected
    named = [{"name": "tools", "template": "no"}, {"name": "default", "template": CHAT}]
    config.write_text(json.dumps({"chat_template": named, "eos_token": "<|end|>"}))
    (tmp_path / "chat_template.jinja").unlink()
    assert read_chat_template(config) == expected
    config.write_text(json.dumps({"chat_template": named[:1]}))
    with pytest.raises(UserError, match=r"has no chat_template, and there is no chat_template\."):
        read_chat_template(config)


@pytest.mark.parametrize(
    ("answer", "cue"),
    [
        # Qwen3's answers follow an empty thought, for which the model is not asked
        ("<a>{{ '<think></think>' if loop.last }}{{ m.content }}.", "</q><a><think></think>"),
        # Mistral's follow a space, and Zephyr-like templates ask for no answer at all
        (" {{ m.content }}.", "</q> "),
        # transformers' own tags
        ("<a>{% generation %}{{ m.content }}.{% endgeneration %}{% break %}", "</q><a>"),
    ],
)
def test_what_stands_before_an_answer(answer, cue, tmp_path):
    file = tmp_path / "chat_template.jinja"
    file.write_text(
        "{% for m in messages %}{% if m.role == 'user' %}<q>{{ m.content }}</q>{% else %}"
        + answer
        + "{% endif %}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
    )
    assert read_chat_template(file) == Template("<q>", cue, ".")


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{{ messages | length }}", "has no place for a question"),
        ("{{ messages[0].content }}", "has no place for an answer"),
        ("{{ messages[0].content", "give --cue in its place"),
        ("{{ raise_exception('Only text') }}", "Only text; give --cue in its place"),
        ("{{ ''.__class__.__mro__ }}", "give --cue in its place"),
    ],
)
def test_templates_that_are_none(text, reason, tmp_path):
    file = tmp_path / "it.jinja"
    file.write_text(text)
    with pytest.raises(UserError, match=f"--chat-template {file}: .*{reason}"):
        read_chat_template(file)


def test_files_that_are_none(tmp_path):
    for name, text in (("a.json", "{"), ("b.json", "[]"), ("c.json", "{}")):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=f"{name}: (not readable|has no chat_template)"):
            read_chat_template(tmp_path / name)
    (tmp_path / "chat_template.jinja").write_text(CHAT)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(UserError, match=r"--chat-template .*tokenizer_config\.json: not readable"):
        read_chat_template(tmp_path / "chat_template.jinja")


def test_a_dictionary_of_another_model(model, records, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    words = (model / "dict.txt").read_text().splitlines(keepends=True)
    (other / "dict.txt").write_text("".join(w for w in words if not w.startswith("c ")))
    with pytest.raises(UserError, match=r"the dict\.txt beside it lacks 'c'; give a folder of pet"):
        make_prompts(records, [], tmp_path / "bin", tokenizer=other / "tokenizer.json")
    assert not (tmp_path / "bin").exists()
    (other / "dict.txt").unlink()
    with pytest.raises(UserError, match=r"other/tokenizer\.json: has no dict\.txt beside it; give"):
        make_prompts(records, [], tmp_path / "bin", tokenizer=other / "tokenizer.json")
