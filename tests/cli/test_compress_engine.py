"""`pet-fairseq compress` with a teacher in CTranslate2: real runs, and what it refuses."""

import json
import random

import pytest

from pet_fairseq.demo.corpus import train_pieces
from tests.cli.processes import in_process, refusal, run
from tests.compress.test_engine import header_of
from tests.predict.made import save_with_task
from tests.translation import make_model, make_task

ctranslate2 = pytest.importorskip("ctranslate2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A teacher of SentencePiece's pieces, exported by this package, its text and a test set."""
    import torch
    from sentencepiece import SentencePieceProcessor

    folder = tmp_path_factory.mktemp("engine")
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 6))) for _ in range(60)]
    texts = [" ".join(draw.choices(words, k=4)) for _ in range(300)]
    for name, lines in (("mono", texts[:280]), ("dev.de", texts[280:]), ("dev.en", texts[:20])):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "data").mkdir()
    (folder / "data/spm.model").write_bytes(train_pieces(texts, 60))
    model = SentencePieceProcessor(str(folder / "data/spm.model"))
    pieces = [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    task = make_task(folder / "data", pieces)
    torch.manual_seed(1)
    model, args = make_model(task, max_target_positions=30)
    args._name = args.arch
    path = save_with_task(folder / "teacher.pt", "translation", model, args, task)
    words = ("export", path, "--data", folder / "data", "--to", "ctranslate2")
    assert in_process(*words, "--out", folder / "teacher").status == 0
    return folder


def command(folder, *words):
    given = ("--text", folder / "mono", "--test-pair", folder / "dev.de", folder / "dev.en")
    return ("compress", folder / "teacher", *given, "--device", "cpu", *words)


@pytest.mark.slow
def test_from_a_folder_to_a_report(folder, tmp_path):
    """The student has a vocabulary of its own, and both translate the same raw text."""
    out = tmp_path / "out"
    words = command(folder, "--vocabulary", "50", "--out", out, "--rate", "50", "--updates", "3")
    done = run("pet-fairseq", *words)
    report = (out / "report.md").read_text()
    assert done.output.splitlines()[-2] == report.splitlines()[0]
    assert "weights in float32, as it was given, and taught by its translations alone" in report
    assert "--vocabulary" not in report  # the teacher keeps its pieces
    content = json.loads((out / "report.json").read_text())
    assert list(content["teacher"]["engines"]) == ["CTranslate2 int8"]
    assert content["sentences"] == 20 and content["engine"] == "CTranslate2 int8"
    assert content["student"]["layer_parameters"] / content["teacher"]["layer_parameters"] == (
        pytest.approx(0.5, rel=0.1)
    )
    assert len((out / "text/dict.en.txt").read_text().splitlines()) == 47  # three are fairseq's
    # what was timed is what translate says of the raw text, of either
    for model, place in (("teacher", folder / "teacher"), ("student", out / "ctranslate2")):
        translated = tmp_path / model
        again = ("translate", place, "--input", folder / "dev.de", "--output", translated)
        assert in_process(*again, "--device", "cpu").status == 0
        assert translated.read_text() == (out / f"speed/{model}.txt").read_text()
    # and what it learned is what the teacher said
    mono, learned = tmp_path / "mono", (out / "corpus_text/target.txt").read_text().splitlines()
    again = ("translate", folder / "teacher", "--input", out / "corpus_text/source.txt")
    assert in_process(*again, "--output", mono, "--device", "cpu", "--beam", "5").status == 0
    assert mono.read_text().splitlines() == learned
    lines = run("pet-fairseq", *words).output.splitlines()
    started = [line for line in lines if line.startswith("== ") and "done" not in line]
    assert started == ["== report"]


@pytest.mark.slow
def test_what_is_refused(folder, tmp_path):
    out = ("--out", tmp_path / "out")
    for words, line in (
        (command(folder, *out, "--method", "pet"), "--method pet: its student learns from distri"),
        (command(folder, *out, "--test", "other"), "--test other: is for --data; give the test"),
        (command(folder, *out, "--bpe", "gone"), "--bpe gone: no such file"),
        (command(folder, *out, "--vocabulary", "30000"), "--vocabulary 30000: the training sent"),
    ):
        refused = run("pet-fairseq", *words, check=False)
        assert refused.status and line in refused.output.splitlines()[-1]
    from ctranslate2.specs import TransformerDecoderModelSpec

    language_model = tmp_path / "lm"
    language_model.mkdir()
    spec = TransformerDecoderModelSpec.from_config(1, 2)
    (language_model / "model.bin").write_bytes(header_of(spec))
    words = ("compress", language_model, "--text", folder / "mono", *out, "--device", "cpu")
    assert f"TEACHER {language_model}: a TransformerDecoder in CTranslate2, which" in refusal(
        *words
    )
