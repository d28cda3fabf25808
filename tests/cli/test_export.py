"""`pet-fairseq export`, and the exported models in stock fairseq and in CTranslate2."""

import ast
import logging
import re

import pytest

from tests.cli.pages import block, run_in
from tests.cli.processes import REPO, in_process, refusal, run
from tests.translation import load_task, save_another

USER_DIR = ("--user-dir", REPO / "pet_fairseq")
GENERATE = ("--cpu", "--required-batch-size-multiple", "1", "--max-len-b", "12", "--beam", "1")
# torch's safe loading refuses every checkpoint of fairseq alone
STOCK = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}


@pytest.fixture(scope="module")
def exported(student, data, tmp_path_factory):
    """An exporter: target and more options -> the folder."""
    made = {}

    def export(to, *options):
        if (to, options) not in made:
            out = tmp_path_factory.mktemp("export") / "out"
            checkpoint = student[0] / "checkpoint_best.pt"
            done = run("pet-fairseq", "export", checkpoint, *to_options(data, to, out), *options)
            assert done.output.splitlines()[-1] == f"wrote {out}"
            assert [path.name for path in out.parent.iterdir()] == ["out"]
            made[to, options] = out
        return made[to, options]

    return export


def to_options(data, to, out):
    return ("--data", data, "--to", to, "--out", out)


def translations(data, path, *options, env=None):
    """Source and translation of each sentence."""
    result = run("fairseq-generate", data, "--path", path, *GENERATE, *options, env=env or {})
    found = {fields[0]: fields[-1] for fields in result.printed("SH")}
    return [(found[f"S-{i}"], found[f"H-{i}"]) for i in range(len(found) // 2)]


@pytest.fixture(scope="module")
def expected(student, data):
    found = translations(data, student[0] / "checkpoint_best.pt", *USER_DIR)
    assert len(found) == 30
    return found


@pytest.mark.slow
def test_stock_fairseq_translates_the_same(exported, expected, data):
    folder = exported("fairseq")
    assert {path.name for path in folder.iterdir()} == {"model.pt", "dict.de.txt", "dict.en.txt"}
    assert translations(data, folder / "model.pt", env=STOCK) == expected


@pytest.mark.slow
def test_exported_models_can_be_exported(exported, expected, data, tmp_path):
    again = tmp_path / "again"
    model = exported("fairseq") / "model.pt"
    run("pet-fairseq", "export", model, *to_options(data, "fairseq", again))
    assert translations(data, again / "model.pt", *USER_DIR) == expected


@pytest.mark.parametrize("quantization", [(), ("--precision", "int8")])
def test_ctranslate2_translates_the_same(quantization, exported, expected):
    ctranslate2 = pytest.importorskip("ctranslate2")
    folder = exported("ctranslate2", *quantization)
    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    options = {"beam_size": 1, "max_decoding_length": 12}  # it ends beam search otherwise
    same = 0
    for source, translation in expected:
        source = source.replace("<<unk>>", "<unk>").split()
        (found,) = translator.translate_batch([source], **options)
        same += " ".join(found.hypotheses[0]) == translation
    assert same >= (20 if quantization else 30)


@pytest.mark.slow
def test_transformers_translates_the_same(tmp_path):
    """The page's commands, from raw text to text, as `translate` does it."""
    pytest.importorskip("transformers")
    from tests.export.translators import PRE_NORM, SHARED, make

    make(tmp_path / "BIN", "transformer", **PRE_NORM, **SHARED)
    (tmp_path / "student").mkdir()
    (tmp_path / "BIN/checkpoint.pt").rename(tmp_path / "student/checkpoint_best.pt")
    command = block(
        "decoding.md", "pet-fairseq export student/checkpoint_best.pt --data BIN --to hu"
    )
    assert run_in(tmp_path, command) == "wrote hub\n"
    page = (REPO / "docs/decoding.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(from transformers.*?)^```", page, re.M | re.S)
    (tmp_path / "block.py").write_text(code.replace("Ein Hund läuft", "The cat sat on"))
    found = ast.literal_eval(run("python", "block.py", cwd=tmp_path).output.splitlines()[-1])
    (tmp_path / "text").write_text("The cat sat on über eine Wiese.\n")
    for model in (("student/checkpoint_best.pt", "--data", "BIN"), ("hub",)):
        options = ("--input", "text", "--output", "found")
        run("pet-fairseq", "translate", *model, *options, cwd=tmp_path)
        expected = (tmp_path / "found").read_text(encoding="utf-8").split()
        assert [word for text in found for word in text.split()] == expected
    (tmp_path / "hub/merges.txt").unlink()
    line = refusal("translate", tmp_path / "hub", "--input", tmp_path / "text")
    assert "hub: as pet-fairseq import-hf reads it: " in line and "merges.txt: no such file" in line


@pytest.mark.parametrize(
    "options, message",
    [
        (("--precision", "int7"), "--precision int7: give one of auto, fp32, fp16, bf16, int16, "),
        (("--to", "fairseq", "--precision", "int8"), "--precision: only for --to ctranslate2"),
        (("--out", "."), "--out .: is there already; give a new folder"),
        (("--data", "nowhere"), "--data nowhere: no such folder"),
    ],
)
def test_wrong_options(options, message, student, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoint = student[0] / "checkpoint_best.pt"
    given = to_options(data, "ctranslate2", "out")
    line = refusal("export", checkpoint, *given, *options)
    assert line.startswith(f"pet-fairseq export: error: {message}")
    assert not list(tmp_path.iterdir())


def test_the_data_that_a_checkpoint_names(student, data, tmp_path, caplog):
    """They are the default; a folder that holds a model holds its dictionaries, too."""
    caplog.set_level(logging.INFO)
    written = []
    for checkpoint, given in (
        (student[0] / "checkpoint_best.pt", ("--data", data)),
        (student[0] / "checkpoint_best.pt", ()),
        (tmp_path / "0", ()),
    ):
        out = tmp_path / str(len(written))
        words = (*given, "--to", "fairseq", "--out", out)
        done = in_process("export", checkpoint, *words)
        assert (done.status, done.output) == (0, f"wrote {out}\n")
        written.append({path.name: path.read_bytes() for path in out.glob("dict.*")})
    assert written[0] and written[0] == written[1] == written[2]
    assert not caplog.records  # fairseq logs the dictionaries that it reads


def test_files_that_are_no_model(student, data, tmp_path):
    words = ("--to", "fairseq", "--out", tmp_path / "out")
    checkpoint = student[0] / "checkpoint_best.pt"
    for path, message in (
        (data, f"CHECKPOINT {data}: has no checkpoint.pt or model.pt"),
        (f"{checkpoint}:{checkpoint}", f"CHECKPOINT {checkpoint}:{checkpoint}: no such file"),
    ):
        assert message in refusal("export", path, *words)


@pytest.mark.slow
def test_models_of_another_kind(data, teacher, tmp_path):
    task = load_task(data)
    for arch, heads, message in (
        ("can_transformer", 4, "holds can_transformer: a plain Transformer has no compressed"),
        ("transformer_tiny", 4, "the same --*-attention-heads in both stacks, not 2 and 4"),
    ):
        path = tmp_path / f"{arch}.pt"
        save_another(path, teacher, task, arch, decoder_attention_heads=heads)
        given = to_options(data, "ctranslate2", tmp_path / "out")
        assert message in refusal("export", path, *given)
        assert not (tmp_path / "out").exists()
