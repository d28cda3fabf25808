"""Perplexity of what follows prompts, against texts that are read word by word."""

import random

import pytest
import torch
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask

from pet_fairseq.errors import UserError
from pet_fairseq.results.score.prompts import prompt_scores
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.plugin_files import new_plugins
from tests.translation import make_task, save_model
from tests.variator.test_decoder_only import KINDS, TINY
from tests.variator.test_model import make_variator

WORDS = ["<sep>", *(f"w{i}" for i in range(12))]


@pytest.fixture
def folder(tmp_path):
    """Texts of a prompt, <sep> and a response as fairseq-preprocess writes them; one has no end."""
    dictionary = Dictionary()
    for word in WORDS:
        dictionary.add_symbol(word)
    dictionary.save(str(tmp_path / "dict.txt"))
    draw = random.Random(1)
    lines = [
        " ".join(
            [*draw.choices(WORDS[1:], k=draw.randrange(1, 9)), "<sep>", *draw.choices(WORDS, k=3)]
        )
        for _ in range(5)
    ]
    lines.insert(2, "w1 w2 w3")
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    binarizer = VocabularyDatasetBinarizer(dictionary, append_eos=True)
    FileBinarizer.multiprocess_dataset(
        str(tmp_path / "text"), "mmap", binarizer, str(tmp_path / "test"), num_workers=1
    )
    return tmp_path


def load_task(folder):
    cfg = LanguageModelingConfig(data=str(folder), tokens_per_sample=64)
    return LanguageModelingTask.setup_task(cfg)


def save_lm(folder, kind="llama", **options):
    """Its task reads blocks of many lines that begin with <s>: neither holds here."""
    arch, sizes = KINDS[kind]
    path = save_model(folder / "lm.pt", load_task(folder), arch, **TINY | sizes | options)
    state = torch.load(path)
    state["cfg"]["task"] = {
        **{"_name": "language_modeling", "data": str(folder), "tokens_per_sample": 64, "seed": 1},
        **{"add_bos_token": True, "dataset_impl": None, "batch_size": None, "tpu": False},
        **{"use_plasma_view": False, "plasma_path": ""},
    }
    torch.save(state, path)
    return path


def by_hand(model, folder, cut=1):
    """Perplexity and the mean length of prompts, text by text."""
    dictionary = load_task(folder).source_dictionary
    losses, lengths = [], []
    for line in (folder / "text").read_text().splitlines():
        if "<sep>" not in line:
            continue
        words = dictionary.encode_line(line, add_if_not_exist=False).tolist()
        end = words.index(dictionary.index("<sep>")) + 1
        prompt, response = words[:end], words[end:]
        lengths.append(1 + len(prompt))
        prompt = [dictionary.eos(), *prompt[len(prompt) - -(-len(prompt) // cut) :]]
        for i, word in enumerate(response):
            tokens = torch.tensor([prompt + response[:i]])
            losses.append(-model(tokens)[0][0, -1].log_softmax(dim=-1)[word])
    return float(torch.stack(losses).mean().exp()), sum(lengths) / len(lengths)


@pytest.mark.parametrize("cut", [1, 2, 20])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@torch.no_grad()
def test_a_language_model(kind, cut, folder):
    path = save_lm(folder, kind)
    scores = prompt_scores(path, str(folder), "<sep>", cut=cut, device="cpu")
    model = make_variator(load_task(folder), path, compression_ratio=1, prompt_end="<sep>")
    perplexity, length = by_hand(model, folder, cut)
    assert scores["perplexity"] == pytest.approx(perplexity, rel=1e-5)
    assert scores["prompt_length"] == round(length, 1) and scores["texts"] == 5
    assert scores["prompt_ms"] > 0 and scores["cut"] == cut


@pytest.mark.parametrize("site", ["ffn", "attention", "attention-kv"])
@torch.no_grad()
def test_plugins(site, folder):
    cfg = VariatorConfig(
        backbone_path=save_lm(folder),
        prompt_end="<sep>",
        compression_ratio=3,
        compression_site=site,
        bottleneck_dim=8,
    )
    new_plugins(cfg, folder / "plugins.pt")
    scores = prompt_scores(str(folder / "plugins.pt"), str(folder), "<sep>", device="cpu")
    model = make_variator(
        load_task(folder),
        cfg.backbone_path,
        trained=False,
        compression_ratio=1,
        compression_site=site,
        prompt_end="<sep>",
        plugin_path=str(folder / "plugins.pt"),
    )
    assert by_hand(model, folder)[0] != pytest.approx(scores["perplexity"], rel=1e-4)
    model.set_compression_ratio(3)
    assert by_hand(model, folder)[0] == pytest.approx(scores["perplexity"], rel=1e-5)


def test_what_is_right_word_for_word(folder):
    """A model whose most probable word is always </s>, and texts that end after their prompts."""
    path = save_lm(folder)
    state = torch.load(path)
    state["model"]["decoder.output_projection.bias"][2] = 100.0
    torch.save(state, path)
    assert prompt_scores(path, str(folder), "<sep>", device="cpu")["exact_match"] == 0
    write_texts(folder, ["w1 <sep>", "w2 w3 <sep>", "w1 <sep> w4"])
    scores = prompt_scores(path, str(folder), "<sep>", device="cpu")
    assert scores["exact_match"] == pytest.approx(200 / 3)


def write_texts(folder, lines):
    (folder / "text").write_text("".join(f"{line}\n" for line in lines))
    FileBinarizer.multiprocess_dataset(
        str(folder / "text"),
        "mmap",
        VocabularyDatasetBinarizer(load_task(folder).source_dictionary, append_eos=True),
        str(folder / "test"),
        num_workers=1,
    )


@torch.no_grad()
def test_closed_answers(folder):
    """The chosen answer is the one with the lowest mean loss of its words and </s>."""
    answers = ("w1", "w2 w3", "w4 w5 w6")
    draw = random.Random(2)
    pairs = [(draw.choices(WORDS[1:], k=4), draw.choice(answers)) for _ in range(40)]
    write_texts(folder, [f"{' '.join(prompt)} <sep> {answer}" for prompt, answer in pairs])
    path = save_lm(folder)
    model = make_variator(load_task(folder), path, compression_ratio=1, prompt_end="<sep>")
    dictionary = load_task(folder).source_dictionary

    def loss(prompt, answer):
        words = [dictionary.index(word) for word in answer.split()] + [dictionary.eos()]
        read = [dictionary.eos(), *(dictionary.index(word) for word in [*prompt, "<sep>"])]
        nats = 0.0
        for word in words:
            nats -= float(model(torch.tensor([read]))[0][0, -1].log_softmax(dim=-1)[word])
            read.append(word)
        return nats / len(words)

    chosen = [min(answers, key=lambda answer: loss(prompt, answer)) for prompt, _ in pairs]
    right = sum(answer == choice for (_, answer), choice in zip(pairs, chosen))
    assert 0 < right < 40
    scores = prompt_scores(path, str(folder), "<sep>", closed_answers=True, device="cpu")
    assert scores["accuracy"] == pytest.approx(100 * right / 40)
    assert "accuracy" not in prompt_scores(path, str(folder), "<sep>", device="cpu")


@pytest.mark.parametrize("number", [1, 101])
def test_answers_that_are_no_closed_set(number, folder):
    numbers = [f"{WORDS[1 + i // 12 % 12]} {WORDS[1 + i % 12]}" for i in range(number)]
    write_texts(folder, [f"w1 <sep> {text}" for text in numbers])
    with pytest.raises(
        UserError, match=f"the texts have {number} different responses; .* 2 to 100"
    ):
        prompt_scores(
            save_lm(folder), str(folder), "<sep>", texts=999, closed_answers=True, device="cpu"
        )


def test_refused(folder, tmp_path):
    path, data = save_lm(folder), str(folder)
    for options, message in (
        ({"prompt_end": "<end>"}, "--prompt-end '<end>': not in the dictionary"),
        ({"prompt_end": "</s>", "texts": 0}, "--texts 0: give 1 or more"),
        ({"prompt_end": "<sep>", "cut": 0}, "--cut 0: give 1 or more"),
        ({"prompt_end": "<sep>", "subset": "valid"}, "--subset valid: not in"),
        ({"prompt_end": "<s>"}, "--prompt-end '<s>': in no text of test"),
    ):
        with pytest.raises(UserError, match=message):
            prompt_scores(path, data, device="cpu", **options)
    adaptive = {"adaptive_softmax_cutoff": "5,10", "share_decoder_input_output_embed": False}
    path = save_lm(folder, "post-norm", **adaptive)
    with pytest.raises(UserError, match=r"CHECKPOINT .*lm.pt: the model has an adaptive softmax"):
        prompt_scores(path, data, "<sep>", device="cpu")
    other = make_task(tmp_path / "translation")
    path = save_model(tmp_path / "t.pt", other)
    with pytest.raises(UserError, match="not a language model; give a decoder-only one"):
        prompt_scores(path, str(tmp_path / "translation"), "<sep>", device="cpu")
