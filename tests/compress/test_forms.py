"""The student in several forms: measured in turn, and what the report says of them."""

import math
from pathlib import Path

import pytest
import sacrebleu

from pet_fairseq.compress.forms import (
    FILE,
    Row,
    check_forms,
    compare_forms,
    folder_bytes,
    forms_section,
    read_rows,
)
from pet_fairseq.errors import UserError
from pet_fairseq.export.export import export
from tests.cli.processes import in_process
from tests.export.translators import PRE_NORM, TEXTS, TIED, bpe_pieces, make, sentence_pieces
from tests.packages import ONNX, need

REFERENCES = [f"the cat {i}" for i in range(len(TEXTS))]
PET = {**PRE_NORM, **TIED, "decoder_layers": 4, "encoder_layers": 4}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A PET student in two forms, compared on a few texts, of which one is empty."""
    need("ctranslate2", *ONNX)
    folder = tmp_path_factory.mktemp("forms")
    made = make(folder / "model", "pet_transformer", sentence_pieces, **PET)
    forms = {form: folder / form for form in ("ctranslate2", "onnx", "fairseq")}
    for form, out in forms.items():
        export(made.checkpoint, made.data, form, out, precision=None)
    test = folder / "test"
    test.mkdir()
    for name, lines in (("source", [*TEXTS, ""]), ("reference", [*REFERENCES, "x"])):
        (test / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (test / "about.json").write_text('{"unknown_reference_words": 0}')
    out, rest = folder / "out", (made.data, test, None, 2, 3)
    compare_forms(forms, *rest, out)
    return made, forms, out


@pytest.mark.slow
def test_translations_and_figures(compared, tmp_path):
    made, forms, out = compared
    rows = {row.form: row for row in read_rows(out)}
    assert list(rows) == list(forms)
    (tmp_path / "in").write_text("\n".join([*TEXTS, ""]) + "\n", encoding="utf-8")
    for form, folder in forms.items():
        given = ("--input", tmp_path / "in", "--output", tmp_path / form, "--beam", 2)
        assert in_process("translate", folder, "--data", made.data, *given).status == 0
        lines = (tmp_path / form).read_text(encoding="utf-8").splitlines()
        assert (out / f"{form}.txt").read_text(encoding="utf-8").splitlines() == lines
        assert lines[-1] == ""
        expected = sacrebleu.corpus_bleu(lines, [[*REFERENCES, "x"]]).score
        assert math.isclose(rows[form].bleu, expected)
        chrf = sacrebleu.corpus_chrf(lines, [[*REFERENCES, "x"]]).score
        assert math.isclose(rows[form].chrf, chrf)
        assert rows[form].bytes == folder_bytes(folder) > 10_000
        assert rows[form].sentences_per_second > 0
        assert rows[form].in_fairseq == (form == "fairseq")


def test_the_section_of_the_report():
    rows = [
        Row("onnx", "int8", 1_234_567, False, 30.123, 50.456, 1230.0),
        Row("huggingface", "fp32", 4_000_000, True, 30.5, 50.5, 12.34),
    ]
    text = "\n\n".join(forms_section(rows))
    assert "| form | weights | MB of its folder | BLEU | chrF |" in text
    assert "| onnx | int8 | 1.23 | 30.12 | 50.46 | 1,230 |" in text
    assert "* huggingface: imported, and computed by fairseq" in text
    text = "\n\n".join(forms_section(rows[:1]))
    assert "imported" not in text


def test_figures_that_cannot_be_read(tmp_path):
    (tmp_path / FILE).write_text('[{"form": "onnx"}]')
    with pytest.raises(UserError, match=r"forms\.json: cannot be read; remove .* and run again"):
        read_rows(tmp_path)


@pytest.mark.slow
def test_what_a_form_cannot_hold_is_said_before_the_training(tmp_path, capsys):
    made = make(tmp_path, "transformer", sentence_pieces)
    options = ["--source-lang", "de", "--target-lang", "en", "--arch", "transformer"]
    options += ["--share-all-embeddings", "--encoder-embed-dim", "16", "--decoder-embed-dim", "16"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    check_forms((), made.data, elsewhere, ["--arch", "none"])  # nothing is asked for
    check_forms(["fairseq", "huggingface"], made.data, elsewhere, options)
    options += ["--encoder-learned-pos", "--decoder-learned-pos"]
    message = (
        "--to huggingface: FSMT, transformers' form of fairseq's post-norm models, never has room "
        "for --encoder-learned-pos; give --to ctranslate2 or --to fairseq"
    )
    with pytest.raises(UserError) as error:
        check_forms(["fairseq", "huggingface"], made.data, elsewhere, options)
    assert str(error.value) == message
    subword_model = (tmp_path / "spm.model").rename(elsewhere / "spm.model")
    check_forms(["onnx"], made.data, elsewhere, options)
    assert not capsys.readouterr().out
    codes = make(tmp_path / "codes", "transformer", bpe_pieces)
    check_forms(["onnx"], codes.data, Path(codes.data), options)
    said = capsys.readouterr().out
    assert said.startswith("--to onnx: not for raw text in transformers.js: neither SentencePiece")
    subword_model.unlink()
    with pytest.raises(UserError, match=r"^--to onnx: --segmentation: .* no bpe\.codes or spm\.mo"):
        check_forms(["onnx"], made.data, elsewhere, options)
