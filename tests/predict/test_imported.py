"""Raw text to the classes of an imported model, in Python and as a command."""

import io
import json
import shutil
import sys
from argparse import Namespace

import pytest
import torch
from tokenizers import ByteLevelBPETokenizer

import pet_fairseq
from pet_fairseq import cli
from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.bpe import TokenizerJson
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.predict.classifier import Classifier
from tests.cli.processes import run
from tests.huggingface.bert import PIECES, write_bert
from tests.predict.imported import import_classifier, probabilities, read
from tests.predict.made import RATIOS, save_plugins

STRICT = ("--strict",)
LONG = "a bad film, a good film. bad films"
TEXTS = [
    "a good film.",
    "Bad FILMS, bad film",
    ("a good film", "films"),
    "unheard",
    f"{LONG} {LONG}",
    (LONG, "good film."),
    ("good.", LONG * 2),
    (LONG, LONG),
    ("a", "bad [SEP] film </s> film"),
]


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Its folder, which is no longer where it was written, and its tensors."""
    old = tmp_path_factory.mktemp("old")
    torch.manual_seed(1)
    folder, weights = import_classifier(old)
    new = tmp_path_factory.mktemp("new") / "bert"
    shutil.move(folder, new)
    shutil.rmtree(old)
    return new, weights


def expected(imported, text):
    folder, weights = imported
    ids, types, truncated = read(folder, *([text] if isinstance(text, str) else text))
    if "[SEP]" in str(text):  # what someone writes is a word
        place = len(ids) - 1 - ids[:-1][::-1].index(PIECES.index("[SEP]")) - 1
        ids[place] = PIECES.index("[UNK]")
    shares = pytest.approx(probabilities(weights, ids, types), abs=1e-5)
    answer = {"label": max(shares.expected, key=shares.expected.get), "probabilities": shares}
    return {**answer, "truncated": True} if truncated else answer


def test_answers_are_those_of_the_model_by_hand(imported):
    model = pet_fairseq.from_pretrained(str(imported[0]))
    assert isinstance(model, Classifier) and model.ratios == [1]
    wanted = [expected(imported, text) for text in TEXTS]
    assert sum("truncated" in answer for answer in wanted) == 4
    assert len({answer["label"] for answer in wanted}) > 1
    for max_tokens in (4096, 40, 1):
        assert model.predict(TEXTS, max_tokens=max_tokens) == wanted
    assert model.predict([]) == []


def test_half_precision(imported):
    model = pet_fairseq.from_pretrained(str(imported[0]))
    exact = model.predict(TEXTS)
    for answer, same in zip(model.to(torch.bfloat16).predict(TEXTS), exact):
        assert answer["probabilities"] == pytest.approx(same["probabilities"], abs=0.1)
        assert answer["probabilities"] != same["probabilities"]


def test_plugins_around_it(imported, tmp_path):
    """Their file names the backbone, beside which the tokenizer is."""
    _, task = load_model(str(imported[0] / "checkpoint.pt"), "FILE", str(imported[0]))
    backbone = str(imported[0] / "checkpoint.pt")
    made = save_plugins(tmp_path, "sentence_prediction", task, backbone)
    model = pet_fairseq.from_pretrained(made.path)
    assert model.ratios == [1, *RATIOS]
    assert model.predict(TEXTS, compression_ratio=1) == [expected(imported, t) for t in TEXTS]
    compressed = [model.predict(TEXTS, compression_ratio=k) for k in RATIOS]
    for answer, other, text in zip(*compressed, TEXTS):
        assert answer["probabilities"] != other["probabilities"]
        assert answer.get("truncated") == expected(imported, text).get("truncated")
    assert model.predict(TEXTS) == compressed[0]  # the first file's ratio


def predict(capsys, *words):
    """The status of `pet-fairseq predict`, what it prints, and its error."""
    try:
        status = cli.main(["predict", *map(str, words)])
    except SystemExit as stop:
        status = stop.code
    printed = capsys.readouterr()
    return status, [json.loads(line) for line in printed.out.splitlines()], printed.err


def test_the_command(imported, tmp_path, capsys, monkeypatch):
    wanted = [expected(imported, text) for text in TEXTS]
    lines = "".join(f"{text if isinstance(text, str) else chr(9).join(text)}\n" for text in TEXTS)
    (tmp_path / "texts").write_text(lines)
    cut = "pet-fairseq predict: 4 of 9 lines: 4 cut (lines 5, 6, 7, 8)\n"
    assert predict(capsys, imported[0], "--input", tmp_path / "texts") == (0, wanted, cut)
    monkeypatch.setattr(sys, "stdin", Namespace(buffer=io.BytesIO(lines.encode())))
    monkeypatch.setattr("pet_fairseq.predict.run.AT_ONCE", 2)
    small = ("--max-tokens", "20", "--input", "-")
    assert predict(capsys, imported[0] / "checkpoint.pt", "--data", imported[0], *small) == (
        *(0, wanted, cut),
    )
    records = [t if isinstance(t, str) else {"text": t[0], "pair": t[1]} for t in TEXTS]
    (tmp_path / "texts.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in records))
    assert predict(capsys, imported[0], "--input", tmp_path / "texts.jsonl") == (0, wanted, cut)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("none", None, (), "none: no such file"),
        ("t", b"a\n\nb\n", STRICT, "t, line 2: text: empty"),
        ("t", b"a\tb\tc\n", STRICT, "t, line 1: 3 fields between tabs"),
        ("t", b"a\na\t\n", STRICT, "t, line 2: pair: empty"),
        ("t", b"a\n\xff\n", STRICT, "t, line 2: not UTF-8 at byte 0"),
        ("t.jsonl", b'"a"\na\n', STRICT, "t.jsonl, line 2: not JSON; give --format text"),
        ("t.jsonl", b'"a"\n\n', STRICT, "t.jsonl, line 2: text: empty"),
        ("t.jsonl", b'{"text": "a", "pairs": "b"}', STRICT, "line 1: text: give a string, or {"),
        ("t.jsonl", b"[1, 2, 3]", STRICT, "line 1: text: a pair has 2 sentences, not 3"),
        ("t.jsonl", b"3", STRICT, "line 1: text: give a string"),
        ("t", b"a " * 20, ("--long-texts", "refuse"), "22 tokens, at most 16 are taken"),
        ("t", b"a", ("--ratio", "2"), "--ratio 2: the model works at [1]; give one of these"),
        ("t", b"a", ("--bpe", "tokenizer_json"), "--tokenizer-file is missing"),
        ("t", b"a", ("--what", "3"), "unrecognized arguments: --what 3"),
        ("t", b"a", ("--precision", "fp8"), "--precision: invalid choice: 'fp8'"),
        (
            *("t", b"a", ("--bpe", "tokenizer_json", "--tokenizer-file", "none.json")),
            "none.json: no such file",
        ),
        (
            *("t", b"a", ("--bpe", "tokenizer_json", "--tokenizer-file", ".")),
            ".: is a folder; give the tokenizer.json of the model",
        ),
        (
            *("t", b"a", ("--bpe", "sentencepiece", "--sentencepiece-model", "/tmp")),
            "/tmp: is a folder; give the SentencePiece model in it",
        ),
        ("t", b"a", ("--backbone-path", "x"), "CHECKPOINT: the first file holds no plugins"),
    ],
)
def test_wrong_input(name, content, options, message, imported, tmp_path, capsys):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    status, _, error = predict(capsys, imported[0], "--input", tmp_path / name, *options)
    assert status in (1, 2)
    assert message in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", 3], r"texts\[1\]: text: give a string"),
        ([("a", "")], r"texts\[0\]: pair: empty"),
        ([("a", "b", "c")], r"texts\[0\]: text: a pair has 2"),
        ("a", "texts: give a list of texts"),
    ],
)
def test_wrong_texts(texts, message, imported):
    with pytest.raises(UserError, match=message):
        pet_fairseq.from_pretrained(str(imported[0])).predict(texts)


def test_wrong_models(imported, tmp_path):
    with pytest.raises(UserError, match="compression_ratio 4: the model works at"):
        pet_fairseq.from_pretrained(str(imported[0])).predict(["a"], compression_ratio=4)
    with pytest.raises(UserError, match="max_source: this model has no such option"):
        pet_fairseq.from_pretrained(str(imported[0]), max_source=3)
    with pytest.raises(UserError, match=f"path {tmp_path}: has no checkpoint.pt"):
        pet_fairseq.from_pretrained(str(tmp_path))


def test_a_model_without_classes(tmp_path, capsys):
    write_bert(tmp_path / "hf", head=True)
    import_model(tmp_path / "hf", tmp_path / "out")
    with pytest.raises(UserError, match="--task masked_lm, which gives neither text nor classes"):
        pet_fairseq.from_pretrained(str(tmp_path / "out"))
    status, _, error = predict(capsys, tmp_path / "out", "--input", "-")
    assert status == 1 and len(error.splitlines()) == 1
    path = tmp_path / "out/checkpoint.pt"
    assert f"CHECKPOINT {path}: a model of the task MaskedLMTask, which has no head" in error


def test_as_a_user_types_it(imported):
    """From raw text to binary data, and to answers."""
    folder = imported[0]
    words = ("--bpe", "tokenizer_json", "--tokenizer-file", folder / "tokenizer.json")
    text = "Good films\n\na unheard film.\n"
    encoded = run("pet-fairseq", "encode", "--input", "-", *words, text_in=text)
    assert encoded.output == "good film ##s\n\na [UNK] film .\n"
    answers = run("pet-fairseq", "predict", folder, "--input", "-", text_in="good\tbad\n")
    assert json.loads(answers.output) == expected(imported, ("good", "bad"))
    wrong = run("pet-fairseq", "encode", "--input", "-", check=False)
    assert wrong.status == 1 and "--bpe: missing; give a way to segment" in wrong.output
    assert len(wrong.output.splitlines()) == 1


def test_older_files_of_tokenizers(tmp_path):
    """vocab.txt, and vocab.json with merges.txt, in the place of tokenizer.json."""

    def segmented(file, text):
        bpe = TokenizerJson(Namespace(tokenizer_file=str(file), tokenizer_newline=""))
        assert bpe.decode(bpe.encode(text))
        return bpe.encode(text)

    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    assert segmented(tmp_path / "vocab.txt", "Films, a films") == "film ##s , a film ##s"
    (tmp_path / "text").write_text("low lower lowest\n" * 9)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train([str(tmp_path / "text")], vocab_size=262, show_progress=False)
    tokenizer.save_model(str(tmp_path))
    text = "lowest low,"
    assert segmented(tmp_path / "vocab.json", text) == " ".join(tokenizer.encode(text).tokens)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(UserError, match=r"vocab\.json: not readable"):
        segmented(tmp_path / "vocab.json", text)
