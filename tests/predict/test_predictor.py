"""Answers against the models themselves, and what cannot be loaded."""

import contextlib
import shutil
from argparse import Namespace

import pytest
import torch
from fairseq.data import ListDataset, RollDataset
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import build_model
from torch.nn.utils.parametrize import is_parametrized

import pet_fairseq
from pet_fairseq import cli
from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.cli import parse
from pet_fairseq.errors import UserError
from pet_fairseq.nn.hooks import forward_hooks
from pet_fairseq.predict.classifier import Classifier
from pet_fairseq.predict.load_model import load
from pet_fairseq.predict.sentences import TextError, TextTooLongError
from pet_fairseq.predict.translator import Translator
from pet_fairseq.variator.competitors.fine_tuned import FineTunedConfig
from pet_fairseq.variator.competitors.narrow_ffn import NarrowModel
from pet_fairseq.variator.plugin_files import load_variator
from tests.predict.made import (
    HEAD,
    LABELS,
    RATIOS,
    make_bart,
    make_classifier,
    make_translator,
    save_low_rank,
    save_with_task,
    write_dictionary,
)
from tests.results.score.test_prompts import folder as lm_folder  # noqa: F401  fixture
from tests.results.score.test_prompts import save_lm
from tests.translation import WORDS, make_model, make_task
from tests.variator.test_model import make_variator

TEXTS = ["w1 w2 w3", "w5 w4 w3 w2 w1 w0 w9", "w7", "w2 w2 w8 w9 unknown w1"]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return make_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    return make_bart(tmp_path_factory.mktemp("bart"))


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return make_translator(tmp_path_factory.mktemp("translator"))


def answering(made, *words, path=None, **limits):
    """The model as `pet-fairseq predict` loads it."""
    command = ["predict", path or made.path, "--input", "-", "--device", "cpu"]
    _, args = parse([*command, *words])
    return load(args, args.rest, **limits)


def encode(model, *sentences):
    """The tokens of a text that is short enough."""
    tokens, truncated = model.encode(sentences)
    assert not truncated
    return tokens


def plain(made):
    """The backbone as it is in its file, without Variator."""
    state = torch.load(made.backbone, weights_only=True)
    model = build_model(state["cfg"]["model"], made.task)
    if hasattr(model, "register_classification_head"):
        model.register_classification_head(HEAD, num_classes=len(LABELS))
    model.load_state_dict(state["model"])
    return model.eval()


def direct(made, ratio):
    """The model that the server should use at a ratio, made by other means."""
    if ratio == 1:
        return plain(made)
    model = make_variator(made.task, made.backbone, False, compression_ratio=ratio)
    state = torch.load(made.plugins[RATIOS.index(ratio)], weights_only=True)
    model.load_state_dict(state["model"])
    return model.eval()


def numbers(made, text):
    """Places in the dictionary, one by one."""
    dictionary = made.task.source_dictionary
    return [dictionary.index(word) for word in text.split()] + [dictionary.eos()]


@pytest.mark.parametrize("ratio", [1, *RATIOS])
def test_classes(classifier, ratio):
    served = answering(classifier)
    model = direct(classifier, ratio)
    encoded = [encode(served, text) for text in TEXTS]
    together = served.answer(encoded, ratio)
    for text, tokens, answer in zip(TEXTS, encoded, together):
        row = torch.tensor([[0, *numbers(classifier, text)]])
        with torch.no_grad():
            logits, _ = model(row, features_only=True, classification_head_name=HEAD)
        expected = dict(zip(LABELS, logits[0].softmax(dim=0).tolist()))
        assert served.answer([tokens], ratio) == [
            {"label": max(expected, key=expected.get), "probabilities": expected}
        ]
        assert answer["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert len({str(a) for a in together}) == len(TEXTS)


@pytest.mark.parametrize("ratio", [1, *RATIOS])
def test_classes_of_a_model_with_a_decoder(bart, ratio):
    """The decoder reads the text behind its end, as in fairseq's own batches."""
    served = answering(bart)
    model = direct(bart, ratio)
    encoded = [encode(served, text) for text in TEXTS]
    dataset = RollDataset(ListDataset(encoded, [len(tokens) for tokens in encoded]), 1)
    for i, answer in enumerate(served.answer(encoded, ratio)):
        row = [0, *numbers(bart, TEXTS[i])]
        previous = torch.tensor([[row[-1], *row[:-1]]])
        assert torch.equal(previous[0], dataset[i])
        source = torch.tensor([row])
        with torch.no_grad():
            logits, _ = model(
                *(source, torch.tensor([len(row)]), previous), classification_head_name=HEAD
            )
        expected = dict(zip(LABELS, logits[0].softmax(dim=0).tolist()))
        assert answer["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert len({str(a) for a in served.answer(encoded, ratio)}) == len(TEXTS)


@pytest.mark.parametrize("ratio", [None, 1, *RATIOS])
def test_from_python(classifier, ratio):
    """With the plugins of several files; without a ratio, at the first file's."""
    model = pet_fairseq.from_pretrained(classifier.path)
    answers = model.predict(TEXTS, compression_ratio=ratio)
    served = answering(classifier)
    expected = served.answer([encode(served, text) for text in TEXTS], ratio or RATIOS[0])
    for answer, same in zip(answers, expected):
        assert answer["probabilities"] == pytest.approx(same["probabilities"], abs=1e-6)
    with pytest.raises(UserError, match=r"compression_ratio 3: the model works at \[1, 2, 4\]"):
        model.predict(TEXTS, compression_ratio=3)


@pytest.mark.parametrize("kind", ["classifier", "translator"])
def test_low_rank_updates_are_merged(kind, request, tmp_path):
    """Merged or not, the answers are the same, and those of the backbone are others."""
    made = request.getfixturevalue(kind)
    name = "translation" if kind == "translator" else "sentence_prediction"
    path = save_low_rank(made, name, tmp_path)
    served = answering(made, path=path)
    assert not any(is_parametrized(module) for module in served.model.modules())
    model, _ = load_model(path, "CHECKPOINT")
    assert any(is_parametrized(module) for module in model.modules())
    encoded = [encode(served, text) for text in TEXTS]
    found = served.answer(encoded, None)
    assert found != answering(made).answer(encoded, 1)
    served.model = model
    for answer, same in zip(found, served.answer(encoded, None)):
        answer, same = (a.get("probabilities", a) for a in (answer, same))
        assert answer == pytest.approx(same, abs=1e-5)


def test_options_from_python(classifier, tmp_path):
    moved = shutil.copy(classifier.backbone, tmp_path / "moved.pt")
    options = {"backbone_path": str(moved), "compression_ratio": 1}
    model = pet_fairseq.from_pretrained(classifier.path, **options)
    assert model.model.cfg.backbone_path == str(moved)
    plain = pet_fairseq.from_pretrained(classifier.backbone)
    assert model.predict(TEXTS) == plain.predict(TEXTS)
    (tmp_path / "bpe.codes").write_text("#version: 0.2\nw 3</w>\n")
    codes = pet_fairseq.from_pretrained(classifier.backbone, segmentation=f"{tmp_path}/bpe.codes")
    assert codes.text.encode("w3, w4") == "w3 , w@@ 4"  # divided by Moses first


def test_the_word_for_the_end_is_a_word(bart):
    """A decoder's state at </s> is classified, so a text must have one."""
    served = answering(bart)
    tokens = encode(served, "w1 </s> w2 </s>")
    assert tokens.tolist().count(served.dictionary.eos()) == 1
    alone = served.answer([tokens], 1)
    both = served.answer([tokens, encode(served, TEXTS[1])], 1)
    assert both[0]["probabilities"] == pytest.approx(alone[0]["probabilities"], abs=1e-5)


@pytest.mark.parametrize("ratio", [1, *RATIOS])
def test_translations(translator, ratio):
    served = answering(translator, "--beam", "3")
    model = direct(translator, ratio)
    options = GenerationConfig(beam=3, max_len_b=20)
    generator = translator.task.build_generator([model], options)
    served.generator.max_len_b = 20
    words = translator.task.target_dictionary
    expected = []
    for text in TEXTS:
        row = torch.tensor([numbers(translator, text)])
        net_input = {"src_tokens": row, "src_lengths": torch.tensor([row.size(1)])}
        best = generator.generate([model], {"net_input": net_input})[0][0]["tokens"]
        expected.append({"text": " ".join(words[i] for i in best.tolist() if i != words.eos())})
    encoded = [encode(served, text) for text in TEXTS]
    assert served.answer(encoded, ratio) == expected
    assert served.answer(encoded[2:3], ratio) == expected[2:3]
    assert len({str(a) for a in expected}) > 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["classifier", "bart", "translator"])
def test_half_precision(kind, dtype, request):
    """As with --precision fp16 on a GPU and bf16."""
    made = request.getfixturevalue(kind)
    exact = answering(made)
    options = ("--precision", "bf16") if dtype == torch.bfloat16 else ()
    half = answering(made, *options).to(dtype)
    assert {p.dtype for p in half.model.parameters()} == {dtype}
    for model in (exact, half):
        if isinstance(model, Translator):
            model.generator.max_len_b = 4
    for ratio in (1, *RATIOS):
        for answer, wanted in zip(half.predict(TEXTS, ratio), exact.predict(TEXTS, ratio)):
            if kind != "translator":
                wanted["probabilities"] = pytest.approx(wanted["probabilities"], abs=0.02)
            assert answer == wanted


def test_rehearsals_translate_to_as_many_words(translator):
    """Whatever the words, and without a trace."""
    served = answering(translator, "--beam", "2")
    served.generator.max_len_b = 30
    steps = []

    def count_steps(module, inputs, output):
        steps.append(module)

    texts = [encode(served, "w1 w2 w3 w4 w5"), encode(served, "w7")]
    before = served.answer(texts, 2)
    with forward_hooks((served.model.decoder.layers[0], count_steps)):
        for ratio in (1, 2, 4):
            served.warm_up(texts, ratio)
            assert len(steps) == 7  # six words and the end
            steps.clear()
    assert served.answer(texts, 2) == before


def test_tokenizer_works_both_ways(translator):
    served = answering(translator, "--bpe", "characters")
    assert isinstance(served, Translator)
    dictionary = served.dictionary
    assert encode(served, "ab").tolist() == [dictionary.unk()] * 2 + [dictionary.eos()]
    assert decode(served, dictionary.index("w3"), dictionary.eos()) == "w3"
    served = answering(translator, "--bpe", "subword_nmt", "--bpe-codes", write_codes(translator))
    assert decode(served, dictionary.index("w3"), dictionary.index("w4")) == "w3 w4"


def decode(served, *tokens):
    return served.text.decode(served.spell(torch.tensor(tokens)))


def write_codes(made):
    file = made.backbone + ".codes"
    with open(file, "w") as codes:
        codes.write("#version: 0.2\nw 3</w>\n")
    return file


def test_the_padding_word_is_a_word(classifier):
    served = answering(classifier)
    assert isinstance(served, Classifier)
    pad, unk = served.dictionary.pad(), served.dictionary.unk()
    tokens = encode(served, "<pad> w1 <pad>")
    assert pad not in tokens and tokens.tolist().count(unk) == 2
    alone = served.answer([tokens], 2)
    both = served.answer([tokens, encode(served, TEXTS[1])], 2)
    assert both[0]["probabilities"] == pytest.approx(alone[0]["probabilities"], abs=1e-5)


@pytest.mark.parametrize("most", [40, 9])
def test_long_texts_are_refused(classifier, most):
    """The model has 40 positions; a limit below is not reached by cutting."""
    options = ("--long-texts", "refuse") if most == 40 else ()
    served = answering(classifier, *options, max_tokens=most)
    words = most - 2  # and the marks of begin and end
    assert len(encode(served, "w1 " * words)) == most
    with pytest.raises(TextTooLongError, match=f"{most + 1} tokens, at most {most}"):
        served.encode(("w1 " * (words + 1),))


def test_long_words_and_texts(classifier):
    served = answering(classifier, max_word_chars=50, max_chars=90)
    assert len(encode(served, "w" * 50)) == 3
    for text, message in (("w" * 51, "a word of 51 characters"), ("w " * 46, "92 characters")):
        with pytest.raises(TextTooLongError, match=message):
            served.encode((text,))


def test_a_model_that_computes_nonsense(classifier):
    """As a half-precision model does that overflows: no answer is better than a wrong one."""
    served = answering(classifier)
    with torch.no_grad():
        served.model.encoder.sentence_encoder.embed_tokens.weight.fill_(torch.inf)
    with pytest.raises(UserError, match="not finite"):
        served.answer([encode(served, TEXTS[0])], 1)


def test_nothing_left(classifier):
    served = answering(classifier)
    with pytest.raises(TextError, match="text: nothing is left"):
        served.encode((" \n",))
    with pytest.raises(TextError, match="pair: nothing is left"):
        served.encode(("w1", " \n"))


def test_plain_checkpoints_have_ratio_1_only(classifier):
    served = answering(classifier, path=classifier.backbone)
    assert served.ratios == [1]
    tokens = [encode(served, TEXTS[0])]
    assert served.answer(tokens, 1) == answering(classifier).answer(tokens, 1)


def test_a_moved_backbone(classifier, tmp_path):
    moved = shutil.copy(classifier.backbone, tmp_path / "moved.pt")
    served = answering(classifier, "--backbone-path", str(moved))
    assert served.model.cfg.backbone_path == str(moved)


@pytest.mark.parametrize(
    "options, message",
    [
        (("--ratio", "3"), r"--ratio 3: the model works at \[1, 2, 4\]; give one of these"),
        (("--data", "/none"), "--data /none: no such folder"),
        (("--backbone-path", "/none.pt"), "--backbone-path /none.pt: no such file"),
        (("--precision", "fp16"), "--precision fp16: is for GPUs; give --device cuda too, or --pr"),
        pytest.param(
            ("--device", "cuda"),
            "--device cuda: torch finds no GPU here; give --device cpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_bad_options(classifier, options, message):
    with pytest.raises(UserError, match=message):
        answering(classifier, *options)


@pytest.mark.parametrize(
    "path, message",
    [
        ("/none.pt", "CHECKPOINT /none.pt: no such file"),
        ("", "has no checkpoint.pt or model.pt; give a checkpoint, or a folder that pet-fairseq"),
    ],
)
def test_bad_paths(classifier, path, message, tmp_path):
    with pytest.raises(UserError, match=message):
        answering(classifier, path=path or str(tmp_path))


@pytest.mark.parametrize(
    "file, message",
    [
        ("checkpoint_best.pt", r"is a folder of trained checkpoints; give \S+/checkpoint_best.pt"),
        ("training/checkpoint_best.pt", r"give \S+/training/checkpoint_best.pt$"),
        ("model.bin", "is a model for CTranslate2, which pet-fairseq translate runs; give the"),
        ("onnx/encoder_model_quantized.onnx", "is a model for ONNX Runtime, which"),
        ("bergamot.yml", "is a model for Bergamot, which"),
    ],
)
def test_folders_that_hold_no_checkpoint_of_ours(classifier, file, message, tmp_path):
    """The line says what they are, and what to give."""
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    with pytest.raises(UserError, match=message):
        answering(classifier, path=str(tmp_path))


def test_two_files_of_one_ratio(classifier, tmp_path):
    """The first one's weights would run with the second one's options."""
    model = make_variator(
        *(classifier.task, classifier.backbone), compression_ratio=2, adapter_activation="none"
    )
    options = Namespace(**vars(model.cfg))
    path = tmp_path / "other.pt"
    other = save_with_task(path, "sentence_prediction", model, options, classifier.task)
    two, four = classifier.plugins
    message = f"{two} and {other} both hold ratio 2; give one file for each ratio"
    with pytest.raises(UserError, match=f"CHECKPOINT: {message}"):
        answering(classifier, path=f"{two}:{four}:{other}")
    with pytest.raises(UserError, match=f"path: {message}"):
        pet_fairseq.from_pretrained(two, plugin_path=other)
    with pytest.raises(UserError, match=f"CHECKPOINT: {message}"):
        load_variator(f"{two}:{other}", "CHECKPOINT")


def test_plugins_trained_beside_others(classifier, tmp_path):
    """With --plugin-path: the file holds both ratios, and names the other file."""
    four = classifier.plugins[1]
    options = {"compression_ratio": 2, "plugin_path": four}
    model = make_variator(classifier.task, classifier.backbone, **options)
    path = tmp_path / "both.pt"
    cfg = Namespace(**vars(model.cfg))
    both = save_with_task(path, "sentence_prediction", model, cfg, classifier.task)
    assert answering(classifier, path=both).ratios == [1, 2, 4]
    with pytest.raises(UserError, match=f"{both} and {four} both hold ratio 4"):
        answering(classifier, path=f"{both}:{four}")


def test_the_moved_backbone_of_a_model_without_plugins(classifier, tmp_path):
    task = classifier.task
    backbone = shutil.copy(classifier.backbone, tmp_path / "moved.pt")
    cfg = FineTunedConfig(backbone_path=str(backbone), compression_ratio=2)
    cfg._name = "narrow_ffn"
    model = NarrowModel.build_model(cfg, task)
    stored = Namespace(**{**vars(cfg), "backbone_path": "gone.pt"})
    path = tmp_path / "narrow.pt"
    narrow = save_with_task(path, "sentence_prediction", model, stored, task)
    served = answering(classifier, "--backbone-path", str(backbone), path=narrow)
    assert served.model.cfg.backbone_path == str(backbone)


def test_data_with_other_dictionaries(classifier, tmp_path):
    """Of as many words: nothing else would notice."""
    folders = {"words": (WORDS[::-1], LABELS), "labels": (WORDS, LABELS[::-1])}
    for name, entries in folders.items():
        for part, words in zip(("input0", "label"), entries):
            write_dictionary(tmp_path / name / part, words)
    for path in (classifier.path, classifier.backbone):
        for name, message in (("words", "another dictionary"), ("labels", "other classes")):
            with pytest.raises(
                UserError, match=f"CHECKPOINT .*: made with {message}: .* differ: entry"
            ):
                answering(classifier, "--data", str(tmp_path / name), path=path)
    with pytest.raises(UserError, match=r"path .*: made with other classes: "):
        pet_fairseq.from_pretrained(classifier.backbone, str(tmp_path / "labels"))


def test_rehearsals_of_a_decoder_with_few_positions(tmp_path):
    task = make_task(tmp_path / "data")
    model, options = make_model(task, max_target_positions=6)
    options._name = "transformer_tiny"
    path = save_with_task(tmp_path / "b.pt", "translation", model, options, task)
    served = answering(None, path=path)
    served.warm_up([served.random_text(30)], 1)


def test_a_language_model_answers_no_texts(lm_folder):  # noqa: F811
    path = save_lm(lm_folder)
    with pytest.raises(
        UserError, match=r"CHECKPOINT \S+lm.pt: a model of the task LanguageModelingTask, wh"
    ):
        answering(None, path=path)


def test_plugins_for_a_plain_model(classifier):
    with pytest.raises(UserError, match="the first file holds no plugins"):
        answering(classifier, path=f"{classifier.backbone}:{classifier.plugins[0]}")


@pytest.mark.parametrize(
    "words, message",
    [
        (("--max-tokens", "0"), "--max-tokens 0: give 1 or more"),
        (("--max-tokens", "-5"), "--max-tokens -5: give 1 or more"),
        (("--lenpen", "nan"), "argument --lenpen: nan: give a finite number"),
        (("--lenpen", "inf"), "argument --lenpen: inf: give a finite number"),
    ],
)
def test_bad_numbers(words, message, classifier, capsys):
    with contextlib.suppress(SystemExit):
        assert cli.main(["predict", classifier.backbone, "--input", "-", *words]) == 1
    assert message in capsys.readouterr().err
