"""examples/cpp/translate.cc: the same lines as `pet-fairseq translate --beam 1`."""

import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from pet_fairseq.predict.onnx_model import PIECES
from tests.packages import ONNX, need

need(*ONNX, "tokenizers")

from pet_fairseq.export.export import export  # noqa: E402
from tests.cli.processes import in_process  # noqa: E402
from tests.export.test_tokenizer_json import ODD, SENTENCES, pieces_in, train  # noqa: E402
from tests.export.translators import PRE_NORM, make, marian_pieces  # noqa: E402

CPP = Path(__file__).parents[2] / "examples/cpp"
ORT = "ONNXRUNTIME"  # names a folder with `include` and `lib`, as the README's command does
HEADERS = "#include <nlohmann/json.hpp>\n#include <sentencepiece_processor.h>"
LINES = [*SENTENCES[5_000:5_040], *ODD, ">>fra<< the cat sat", ">>fra <<the", ">>" + "x " * 500]

pytestmark = pytest.mark.slow


def byte_pieces(folder):
    """A SentencePiece model in which letters that it does not know are bytes."""
    pieces = train(folder / "spm.model", byte_fallback=True, vocab_size=800)
    return [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]


# the architecture, what writes its pieces, the precision of the export, the model's options
MODELS = {
    "one dictionary": ("transformer", partial(pieces_in, "bpe"), "fp32", PRE_NORM),
    "two dictionaries": ("transformer", partial(pieces_in, "unigram"), "fp32", {"separate": True}),
    "bytes": ("transformer", byte_pieces, "fp32", PRE_NORM),
    "int8": ("pet_transformer", partial(pieces_in, "unigram"), "int8", {}),
    "marian": ("marian", marian_pieces, "fp32", {"swish": True, "share_all_embeddings": True}),
    "language tokens": (
        *("bilingual_transformer", partial(pieces_in, "unigram"), "fp32"),
        PRE_NORM | {"source_prefix": ["__de__"], "decoder_start": ["</s>", "__en__"]},
    ),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program, built as its page says."""
    if ORT not in os.environ or shutil.which("g++") is None:
        pytest.skip(f"{ORT} is not set, or there is no g++")
    syntax = ("g++", "-std=c++17", "-fsyntax-only", "-x", "c++", "-")
    if subprocess.run(syntax, input=HEADERS.encode(), capture_output=True).returncode:
        pytest.skip(f"g++ does not find the headers of {HEADERS}")
    [build] = re.findall(r"^g\+\+ (?:.*\\\n)*.*$", (CPP / "README.md").read_text(), re.MULTILINE)
    folder = tmp_path_factory.mktemp("cpp")
    shutil.copy(CPP / "translate.cc", folder)
    strict = build.replace("g++", "g++ -Wall -Wextra -Werror", 1)
    done = subprocess.run(strict, shell=True, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "translate"


def printable(line):
    """A line in which bytes of no letter are U+FFFD, as here, and control characters spaces."""
    line = re.sub("[\udc80-\udcff]", "\ufffd", line)
    return re.sub("[\x00-\x1f\x85\u2028\u2029]", " ", line).strip()


@pytest.mark.parametrize("name", MODELS)
def test_the_same_lines(name, program, tmp_path):
    """Those of texts that are cut, too, and those with language tokens and unknown letters."""
    arch, pieces, precision, options = MODELS[name]
    made = make(tmp_path / "model", arch, pieces, **options)
    export(made.checkpoint, made.data, "onnx", tmp_path / "onnx", precision=precision)
    (tmp_path / "in").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    given = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--long-lines", "cut")
    alone = ("--beam", 1, "--batch-size", 1)  # int8 depends on the sentences beside
    assert in_process("translate", tmp_path / "onnx", *given, *alone).status == 0
    expected = (tmp_path / "out").read_text(encoding="utf-8").split("\n")
    with (tmp_path / "in").open("rb") as text:
        done = subprocess.run([program, tmp_path / "onnx"], stdin=text, capture_output=True)
    assert done.returncode == 0, done.stderr
    found = done.stdout.decode("utf-8", errors="surrogateescape").split("\n")
    assert [*map(printable, found)] == [*map(printable, expected)]
    assert len(set(expected)) > 10


def test_mistakes(program, tmp_path):
    """End in one line that names the file."""

    def refused(*words):
        done = subprocess.run([program, *words], input="x\n", capture_output=True, text=True)
        assert done.returncode and not done.stdout and done.stderr.count("\n") == 1
        return done.stderr

    assert refused() == "usage: translate FOLDER < TEXT\n"
    assert "onnx/encoder_model.onnx" in refused(tmp_path)
    made = make(tmp_path / "model", "marian", marian_pieces, swish=True, share_all_embeddings=True)
    export(made.checkpoint, made.data, "onnx", tmp_path / "onnx")
    (tmp_path / "onnx" / PIECES).unlink()
    assert PIECES in refused(tmp_path / "onnx")
    (tmp_path / "onnx/config.json").write_text("{")
    assert "config.json" in refused(tmp_path / "onnx")
