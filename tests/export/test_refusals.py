"""What `export --to huggingface` refuses: in one line, and nothing is left behind."""

import json

import pytest

from pet_fairseq.cli import main
from tests.export.translators import (
    PRE_NORM,
    SHARED,
    TIED,
    json_pieces,
    make,
    marian_pieces,
    sentence_pieces,
)

ENCODER_PRE_NORM = {"encoder_normalize_before": True}
NARROW = {"decoder_embed_dim": 8}


@pytest.fixture
def refused(tmp_path, capsys):
    """A check that an export fails in one line with some texts and leaves nothing behind."""

    def check(made, *texts, options=()):
        capsys.readouterr()  # of what made the files
        before = sorted(tmp_path.rglob("*"))
        words = ["export", made.checkpoint, "--data", made.data, "--to", "huggingface"]
        assert main([*words, "--out", str(tmp_path / "out"), *options]) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("pet-fairseq export: error: ")
        for text in texts:
            assert text in line
        assert sorted(tmp_path.rglob("*")) == before

    return check


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch, options, texts",
    [
        (
            "transformer",
            PRE_NORM | TIED,
            ("M2M100, ", "--share-all-embeddings on data of", "give "),
        ),
        ("transformer", {}, ("FSMT, ", "--share-decoder-input-output-embed, or give --to ")),
        ("transformer", TIED | NARROW, ("room for --decoder-embed-dim 8 beside --encoder-embed",)),
        ("transformer", SHARED | ENCODER_PRE_NORM, ("alone; give --to onnx or",)),
        (
            "transformer",
            SHARED | {"encoder_learned_pos": True},
            ("never has room for --encoder-l",),
        ),
        (
            "transformer",
            SHARED | {"decoder_output_dim": 8},
            ("room for --decoder-output-dim 8 beside", "; give --to fairseq"),
        ),
        (
            "transformer",
            {"activation_fn": "tanh"},
            ("room for --activation-fn tanh; give --to fairseq",),
        ),
        (
            "transformer",
            SHARED | {"activation_fn": "tanh"},
            ("room for --activation-fn tanh; give --to fairseq",),
        ),
        (
            "transformer",
            SHARED | {"layernorm_embedding": True},
            ("room for --layernorm-embedding; give --to ctranslate2",),
        ),
        (
            "transformer",
            SHARED | {"no_token_positional_embeddings": True},
            ("room for --no-token-positional-embeddings; give --to fairseq",),
        ),
        (
            "transformer",
            SHARED | PRE_NORM | {"no_decoder_final_norm": True},
            ("M2M100, ", "never has room for --no-decoder-final-norm; give --to fairseq"),
        ),
        ("can_transformer", PRE_NORM | SHARED, ("holds can_transformer: a plain Transformer has",)),
    ],
)
def test_models_that_no_form_holds(arch, options, texts, tmp_path, refused):
    refused(make(tmp_path / "data", arch, **options), *texts)


def test_marian_before_its_layers(tmp_path, refused):
    made = make(tmp_path / "data", "marian", pieces=marian_pieces, **SHARED, **PRE_NORM)
    refused(made, "MarianMT never has room for --encoder-normalize-before")


def test_language_tokens(tmp_path, refused):
    options = dict(source_prefix=["a"], **SHARED, **PRE_NORM)
    made = make(tmp_path / "data", "bilingual_transformer", **options)
    message = "holds bilingual_transformer: it puts language tokens around sentences"
    refused(made, message, "give --to ctranslate2 or --to onnx, or distil it")


def test_subword_models(tmp_path, refused):
    folder = tmp_path / "data"
    made = make(folder, "transformer", **TIED)
    segmentation = lambda name: ("--segmentation", str(folder / name))  # noqa: E731
    refused(made, "--segmentation", "/no: no such file; give", options=segmentation("no"))
    codes = folder / "bpe.codes"
    lines = codes.read_text().splitlines()
    (folder / "old").write_text("\n".join(["#version: 0.1", *lines[1:]]))
    refused(made, "old: its first line is not '#version: 0.2'", options=segmentation("old"))
    (folder / "cut").write_text("#version: 0.2\na\n")
    refused(made, "cut: has a line without two pieces", options=segmentation("cut"))
    (folder / "tokenizer.json").write_text("{}")
    refused(made, "tokenizer.json: not readable", options=segmentation("tokenizer.json"))
    codes.unlink()
    (folder / "tokenizer.json").unlink()
    refused(made, "--segmentation: the model's words are pieces, and there is no bpe.codes or spm")


def test_a_tokenizer_json(tmp_path, refused):
    """It has one vocabulary, and pieces that are built of others."""
    made = make(tmp_path / "data", "transformer", json_pieces, separate=True, **TIED)
    refused(made, "source and target have dictionaries of their own; give --to ctranslate2 or")
    made = make(tmp_path / "fewer", "transformer", lambda f: json_pieces(f)[20:], **SHARED)
    refused(made, "pieces that the model's dictionary lacks, such as ", "of which its words are")
    file = tmp_path / "data/tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["model"] = {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1}, "unk_token": "<unk>"}
    file.write_text(json.dumps(content))
    refused(made, "pieces of the type WordLevel", options=("--segmentation", str(file)))


def test_words_that_are_whole(tmp_path, refused):
    made = make(tmp_path / "data", "transformer", pieces=lambda folder: ["cat", "mat"], **TIED)
    refused(made, "the model has no subword model")


def test_two_words_of_one_name(tmp_path, refused):
    made = make(tmp_path / "data", "transformer", **TIED)
    for side in ("de", "en"):
        file = tmp_path / f"data/dict.{side}.txt"
        words = file.read_text().split("\n")
        words[0], words[1] = "cat 1", "cat</w>@@ 1"
        file.write_text("\n".join(words))
    refused(made, "two words of the dictionary are 'cat</w>' in the tokenizer's file")


def test_other_options(tmp_path, refused):
    made = make(tmp_path / "data", "transformer", pieces=sentence_pieces, **TIED)
    refused(made, "--precision: only for --to ctranslate2", options=("--precision", "fp16"))
    (tmp_path / "there").mkdir()
    refused(made, "there: is there already; give a new", options=("--out", str(tmp_path / "there")))
    options = ("--to", "fairseq", "--segmentation", "spm.model")
    refused(made, "--segmentation: only for --to huggingface", options=options)
