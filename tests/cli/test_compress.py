"""`pet-fairseq compress`: its stages for a tiny teacher, wrong inputs, and one real run."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary

from pet_fairseq import cli
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.compress.layout import MODELS
from pet_fairseq.compress.plan import Request, make_plan
from pet_fairseq.compress.stages import build_stages
from pet_fairseq.compress.student import Size
from pet_fairseq.compress.teacher_text import FIRST_LINES
from pet_fairseq.errors import UserError
from pet_fairseq.export.size import int8_bytes
from pet_fairseq.nn.architectures import build_without_memory
from pet_fairseq.nn.parameter_counts import count_parameters
from pet_fairseq.pet.params import checkpoint_model, option_model, parse_model_options
from pet_fairseq.runner.device import CPU, Device
from pet_fairseq.runner.lock import locked
from pet_fairseq.runner.run import dry_run
from tests.cli.processes import in_process, preprocess, refusal, run
from tests.export.translators import PRE_NORM, make, sentence_pieces
from tests.translation import load_task, save_another, write_subset

RATE = Size(rate=50)


@pytest.fixture
def build(teacher, data, tmp_path):
    """A builder of stages, by name."""

    def build(teacher=teacher, data=data, method="distil", size=RATE, device=CPU, **options):
        request = Request(teacher, data, tmp_path / "out", method, size, device, **options)
        return {stage.name: stage for stage in build_stages(make_plan(request))}

    return build


def test_a_shortlist_is_for_the_student_in_ctranslate2(build):
    pytest.importorskip("ctranslate2")
    stages = build(shortlist=7)
    exports = {name: stages[name].words() for name in stages if name.startswith("export/")}
    with_it = [name for name, words in exports.items() if "--shortlist" in words]
    assert with_it == ["export/student/ctranslate2"]
    words = exports[with_it[0]]
    assert words[words.index("--shortlist") + 1] == "7"
    with pytest.raises(UserError, match="--shortlist 0: give 1 or more"):
        build(shortlist=0)


def test_a_shortlist_is_learnt_from_all_data_folders(build, data, tmp_path):
    pytest.importorskip("ctranslate2")
    more = Path(shutil.copytree(data, tmp_path / "more"))
    stages = build(shortlist=7, more_data=(more,))
    words = stages["export/student/ctranslate2"].words()
    assert words[words.index("--data") + 1] == f"{data}:{more}"
    assert more in stages["export/student/ctranslate2"].inputs
    assert "--shortlist" not in (words := stages["export/teacher/ctranslate2"].words())
    assert words[words.index("--data") + 1] == str(data)


@pytest.mark.slow
def test_forms_are_stages_behind_the_training(build, tmp_path):
    """Each is exported by a stage of its own, and all are timed in one; none by default."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("ctranslate2")
    stages = build(forms=("onnx", "ctranslate2"))
    names = list(stages)
    assert "forms" not in build() and "export/student/onnx" not in build()
    assert names.index("training") < names.index("export/student/onnx") < names.index("forms")
    words = stages["export/student/onnx"].words()
    assert words[words.index("--to") + 1 :][:3] == ["onnx", "--precision", "int8"]
    assert [path.name for path in stages["forms"].command.arguments["forms"].values()] == [
        *("onnx", "ctranslate2")
    ]
    assert stages["forms"].alone
    with pytest.raises(UserError, match=r"^--to huggingface: M2M100, .* has one matrix"):
        build(forms=("huggingface",))


def counts_of(training, teacher):
    """The parameters of a student and of its teacher."""
    models = option_model(model_options(training)), checkpoint_model(str(teacher), "")
    return tuple(map(count_parameters, models))


def model_options(stage):
    """The options of the model among those of a training."""
    words = [str(word) for word in stage.words()]
    first, last = words.index("--arch"), words.index("--optimizer")
    return words[first:last]


# --- stages ---------------------------------------------------------------------------------------


def test_distillation_into_a_plain_transformer(build, teacher, data):
    pytest.importorskip("ctranslate2")
    stages = build()
    assert list(stages) == [
        "test-text",
        *("export/teacher/fairseq", "export/teacher/ctranslate2"),
        *("generate/teacher.1", "teacher-scores", "training"),
        *("export/student/fairseq", "export/student/ctranslate2"),
        *("generate/student.1", "speed", "report"),
    ]
    training = stages["training"]
    for option, value in (
        ("--arch", "transformer"),
        ("--criterion", "pet_distillation"),
        ("--teacher-path", str(teacher)),
        ("--encoder-layers", "2"),
        ("--max-update", "1000"),
        ("--seed", "1"),
    ):
        assert training.option(option) == value
    assert "--cpu" in training.command and "--encoder-normalize-before" in training.command
    ours, theirs = counts_of(training, teacher)
    assert ours.layers / theirs.layers == pytest.approx(0.5, rel=0.1)
    assert [name for name, stage in stages.items() if stage.alone] == ["speed"]


@pytest.mark.parametrize(
    "method, criterion", [("pet", "pet_distillation"), ("pet-patient", "patient_kd")]
)
def test_pet_warms_up(build, method, criterion):
    stages = build(method=method, updates=500, seed=7)
    warmup, training = stages["warmup"], stages["training"]
    assert warmup.option("--criterion") == "pet_simplified_task"
    assert (warmup.option("--max-update"), training.option("--max-update")) == ("50", "500")
    assert training.option("--criterion") == criterion
    assert training.option("--finetune-from-model") == str(warmup.product)
    assert warmup.product in training.inputs
    assert ("--teacher-cache-mb" in training.command) == (method == "pet")
    assert model_options(warmup) == model_options(training)
    assert training.option("--encoder-layers") == "4" and training.option("--seed") == "7"


def test_deep_and_shallow(build, teacher, data):
    """All sizes are those of 6 + 1 layers: parameters, and bytes of the export."""
    by_rate = build(method="deep-shallow")["training"]
    assert by_rate.option("--encoder-layers") == "6" and by_rate.option("--decoder-layers") == "1"
    assert by_rate.option("--criterion") == "pet_distillation"
    ours, theirs = counts_of(by_rate, teacher)
    assert ours.layers / theirs.layers == pytest.approx(0.5, rel=0.1)
    default, _ = counts_of(build(method="deep-shallow", size=Size())["training"], teacher)
    assert default.layers / theirs.layers == pytest.approx(0.18, rel=0.1)
    by_bytes = build(method="deep-shallow", size=Size(megabytes=0.25))["training"]
    args = parse_model_options(model_options(by_bytes))
    words = [len(Dictionary.load(str(data / f"dict.{lang}.txt"))) for lang in ("de", "en")]
    assert int8_bytes(build_without_memory(args, *words)) / 1e6 == pytest.approx(0.25, rel=0.1)
    assert by_bytes.option("--decoder-layers") == "1"


def test_hours_are_measured_first(build, tmp_path):
    stages = build(hours=2.5, method="pet")
    timing, training = stages["timing"], stages["training"]
    assert timing.alone and timing.product in training.inputs
    log = tmp_path / "out" / "timing.log"
    assert f"--max-update $(pet-fairseq updates-for {log} --hours 2.5 --share 0.9091)" in dry_run(
        [training], tmp_path / "out"
    )
    assert "--no-save" in timing.command and timing.option("--criterion") == "pet_distillation"


def test_megabytes_count_embeddings(build, teacher):
    larger, smaller = (build(size=Size(megabytes=mb))["training"] for mb in (0.35, 0.25))
    widths = [int(stage.option("--encoder-embed-dim")) for stage in (larger, smaller)]
    assert widths[0] > widths[1]


def test_a_gpu(build):
    training = build(device=Device("cuda"))["training"]
    assert "--cpu" not in training.command
    assert not training.growth and build()["training"].growth  # of the teacher's features
    assert training.option("--max-tokens") == "8192"
    halved = build(device=Device("cuda"), max_tokens=4096)["training"]
    assert halved.option("--max-tokens") == "4096" and halved.option("--update-freq") == "2"
    assert halved.option("--max-update") == training.option("--max-update")


@pytest.mark.parametrize(
    "precision, capabilities, program, option",
    [
        ("auto", [(9, 0), (8, 0)], "pet-fairseq train-bf16", None),
        ("auto", [(9, 0), (7, 5)], "fairseq-train", "--fp16"),
        ("fp16", [(9, 0)], "fairseq-train", "--fp16"),
        ("bf16", [(7, 5)], "pet-fairseq train-bf16", None),
        ("fp32", [(9, 0)], "fairseq-train", None),
    ],
)
def test_precision_on_gpus(
    precision, capabilities, program, option, teacher, data, tmp_path, monkeypatch, capsys
):
    """A GPU that lacks bf16 has fp16; updates are shared by all GPUs."""
    monkeypatch.setattr("pet_fairseq.devices.gpu_count", lambda: len(capabilities))
    monkeypatch.setattr("pet_fairseq.compress.preparation.gpu_count", lambda: len(capabilities))
    monkeypatch.setattr("pet_fairseq.devices.gpu_capability", lambda gpu: capabilities[gpu])
    words = ("compress", teacher, "--data", data, "--out", tmp_path / "out", "--rate", 50)
    options = ("--device", "cuda", "--precision", precision, "--dry-run")
    assert cli.main([*map(str, words), *options]) == 0
    printed = capsys.readouterr().out
    lines = [line for line in printed.replace(" \\\n   ", "").splitlines() if "--lr " in line]
    assert len(lines) == 1 and lines[0].startswith(program) and "--cpu" not in lines[0]
    assert ("--fp16" in lines[0].split()) == (option == "--fp16")
    on_all = f"on {len(capabilities)} GPUs" in printed.splitlines()[0]
    assert on_all == (len(capabilities) > 1)


def test_precision_on_a_cpu(teacher, data, tmp_path, capsys):
    words = ("compress", teacher, "--data", data, "--out", tmp_path / "out", "--rate", 50)
    words = [*map(str, words), "--device", "cpu", "--dry-run"]
    assert cli.main(words) == 0
    length, rate, disk, *commands = capsys.readouterr().out.splitlines()
    assert length.startswith("# training: ") and "1,000 in all" in length
    assert rate.startswith("# peak learning rate: 0.0")
    assert disk.startswith("# disk: about ")
    assert any(line.startswith("fairseq-train") for line in commands)
    assert cli.main([*words, "--precision", "bf16"]) == 0
    assert "\npet-fairseq train-bf16" in capsys.readouterr().out
    assert cli.main([*words, "--precision", "fp16"]) == 1
    assert "--precision fp16: needs a GPU" in capsys.readouterr().err


def test_without_ctranslate2_both_are_timed_in_fairseq(build, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    stages = build()
    assert "speed" not in stages and "export/student/ctranslate2" not in stages
    generate = [name for name in stages if name.startswith("generate/")]
    assert generate[:3] == ["generate/teacher.1", "generate/student.1", "generate/teacher.2"]
    assert all(stages[name].alone for name in generate)
    assert "CTranslate2 is missing" in stages["report"].command.arguments["no_ctranslate2"]
    with pytest.raises(UserError, match="--comet x: COMET is missing; pip install"):
        build(comet="x")


def test_the_current_folder_as_out(teacher, data, tmp_path, monkeypatch, capsys):
    """Its `test` is not the word `test` of an option."""
    monkeypatch.chdir(tmp_path)
    words = ("compress", teacher, "--data", data, "--out", ".", "--updates", 30, "--dry-run")
    assert cli.main([*map(str, words)]) == 0
    printed = capsys.readouterr().out.replace(" \\\n   ", "")
    line = next(line for line in printed.splitlines() if ":write_set " in line)
    folder = json.dumps({"path": f"{tmp_path}/test"})
    assert f"--folder '{folder}'" in line and "--subset '\"test\"'" in line


def test_another_test_set(build, raw, data, tmp_path):
    other = tmp_path / "other"
    prefix = raw / "valid"
    languages = ("-s", "de", "-t", "en", f"--srcdict={data}/dict.de.txt")
    run(
        *("fairseq-preprocess", *languages, f"--tgtdict={data}/dict.en.txt"),
        *(f"--testpref={prefix}", f"--destdir={other}"),
    )
    stages = build(test=str(other), reference=raw / "valid.en")
    assert stages["generate/student.1"].command[1] == str(other)
    assert stages["report"].command.arguments["reference"] == raw / "valid.en"
    assert build(test="valid")["test-text"].command.arguments["subset"] == "valid"


# --- wrong inputs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"teacher": Path("none.pt")}, "TEACHER none.pt: no such file"),
        ({"data": Path("nowhere")}, "--data nowhere: no such folder"),
        ({"size": Size(10, 2)}, "--rate and --megabytes: both say how small"),
        ({"size": Size(rate=0)}, "--rate 0: give a percentage"),
        ({"size": Size(rate=100)}, "--rate 100: give a percentage"),
        ({"size": Size(rate=0.01)}, r"--rate 0\.01: the nearest student"),
        ({"size": Size(megabytes=90)}, "--megabytes 90: the teacher itself has"),
        ({"size": Size(megabytes=0.001)}, r"--megabytes 0\.001: the nearest student"),
        ({"updates": 5, "hours": 1.0}, "--updates and --hours: both say how long"),
        ({"updates": 0}, "--updates 0: give 1 or more"),
        ({"lr": 0.0}, "--lr 0: give a peak learning rate between 0 and 1"),
        ({"lr": float("nan")}, "--lr nan: give a peak learning rate between 0 and 1"),
        ({"hours": 0.0}, "--hours 0: give a number above 0"),
        ({"hours": float("inf")}, "--hours inf: give a number above 0 that is finite"),
        ({"test": "test1"}, "--test test1: .* has no test1 set, only test, train, valid"),
        ({"reference": Path("none.txt")}, "--reference none.txt: no such file"),
        ({"tokenizer": "mosses"}, "--tokenizer mosses"),
    ],
)
def test_wrong_inputs(build, options, message):
    with pytest.raises(UserError, match=message):
        build(**options)


def test_a_reference_of_another_set(build, raw, data):
    with pytest.raises(UserError, match="has 300 lines, the test set 30 sentences"):
        build(reference=raw / "train.en")


def test_a_reference_may_end_without_a_line_break(build, raw, tmp_path):
    reference = tmp_path / "reference.txt"
    reference.write_text((raw / "test.en").read_text().rstrip("\n"))
    assert build(reference=reference)["report"].inputs == (reference,)


def test_a_dry_run_refuses_what_the_run_would(teacher, data, tmp_path):
    (tmp_path / "file").write_text("mine")
    for options, message in (
        (("--out", tmp_path / "file"), f"folder {tmp_path}/file: is a file"),
        (("--out", data / "out"), f"{data}/out: lies in {data}, which test-text reads"),
        (("--out", tmp_path / "out", "--jobs", "0"), "--jobs 0: give 1 or more"),
    ):
        words = ("compress", teacher, "--data", data, "--device", "cpu", *options)
        for more in ((), ("--dry-run",)):
            done = in_process(*words, *more)
            assert done.status == 1 and message in done.output.splitlines()[-1]
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "out").exists() and not (data / "out").exists()


def test_a_dry_run_refuses_what_needs_no_product(teacher, data, raw, tmp_path):
    """Before the test set is made, if the teacher is there; before that is, what needs none."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/config.json").write_text("{}")
    pair = ("--test-pair", raw / "test.de", raw / "test.en")
    imported = (tmp_path / "theirs", "--text", raw / "train.de")
    for words, message in (
        ((teacher, "--data", data, *pair, "--megabytes", "900"), "--megabytes 900: the teacher"),
        ((teacher, "--data", data, *pair, "--max-tokens", "5"), "--max-tokens 5: "),
        (
            (teacher, "--train-pair", raw / "train.en", raw / "train.de"),
            f"--train-pair {raw}/train.en {raw}/train.de: source and target are exchanged, as the ",
        ),
        ((*imported, "--rate", "100"), "--rate 100: give a percentage"),
        ((*imported, "--rate", "9", "--megabytes", "1"), "--rate and --megabytes: both say"),
        ((*imported, "--precision", "fp16"), "--precision fp16: needs a GPU"),
    ):
        options = ("--out", tmp_path / "out", "--device", "cpu", "--dry-run")
        assert message in refusal("compress", *words, *options)
    assert not (tmp_path / "out").exists()


def test_what_a_stage_refuses_is_said_once(teacher, tmp_path):
    """With the stage's name before it, and no name of a command inside."""
    lines = FIRST_LINES + 7  # the first ones are read before any stage
    longer, shorter = tmp_path / "longer.de", tmp_path / "shorter.en"
    longer.write_text("a1\n" * (lines + 1))
    shorter.write_text("b1\n" * lines)
    pair = [str(longer), str(shorter)]
    command = ["compress", str(teacher), "--train-pair", *pair, "--out", str(tmp_path / "out")]
    done = run("pet-fairseq", *command, "--device", "cpu", check=False)
    assert done.status == 1
    assert re.fullmatch(
        rf"pet-fairseq compress: error: text: {shorter}: ends after {lines} lines, but {longer} "
        r"goes on; [^:]* \(see \S+\)",
        done.output.splitlines()[-1],
    )


def test_two_runs_at_once(teacher, data, tmp_path):
    """The second one says who is at work, and leaves the first one alone."""
    out = tmp_path / "out"
    out.mkdir()
    command = ("compress", teacher, "--data", data, "--out", out, "--device", "cpu", "--rate", "50")
    with locked(out):
        done = run("pet-fairseq", *command, "--updates", "3", check=False)
    assert done.status == 1 and not (out / "test").exists()
    line = done.output.splitlines()[-1]
    assert f"error: {out}: another run, or a command that it started, is at work there" in line


def test_a_teacher_of_another_kind(build, teacher, tmp_path):
    state = torch.load(teacher)
    state["cfg"]["model"].arch = state["cfg"]["model"]._name = "transformer_lm"
    torch.save(state, tmp_path / "lm.pt")
    with pytest.raises(UserError, match=r"lm\.pt: its architecture transformer_lm is not an enc"):
        build(teacher=tmp_path / "lm.pt")


def test_another_dictionary(build, data, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(data, other)
    words = (other / "dict.en.txt").read_text().splitlines()
    (other / "dict.en.txt").write_text("\n".join(words[::-1]) + "\n")
    with pytest.raises(UserError, match=r"TEACHER .* made with another dictionary"):
        build(data=other)
    with pytest.raises(UserError, match=f"--test {other}: made with other dictionaries"):
        build(test=str(other))


def test_a_teacher_without_a_plain_form_is_compared_in_fairseq(build, teacher, data, tmp_path):
    path = tmp_path / "can.pt"
    save_another(path, teacher, load_task(data), "can_transformer", decoder_normalize_before=True)
    stages = build(teacher=path, size=Size(rate=5))
    assert "export/teacher/fairseq" not in stages and "export/student/fairseq" in stages
    assert "can_transformer" in stages["report"].command.arguments["no_ctranslate2"]


# --- a real run -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_from_a_teacher_to_a_report(teacher, data, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    out = tmp_path / "out"
    command = ("compress", teacher, "--data", data, "--out", out, "--device", "cpu", "--rate", "40")
    command = (*command, "--to", "ctranslate2", "fairseq")
    done = run("pet-fairseq", *command, "--updates", "30")
    report = (out / "report.md").read_text()
    summary, pointer = done.output.splitlines()[-2:]
    assert summary == report.splitlines()[0] and pointer == f"read on in {out}/report.md"
    assert " MB -> " in summary and "sentences/s" in summary and "CTranslate2 int8" in summary
    content = json.loads((out / "report.json").read_text())
    assert content["summary"] == summary and content["sentences"] == 30
    before, after = (content[model] for model in ("teacher", "student"))
    assert after["layer_parameters"] / before["layer_parameters"] == pytest.approx(0.4, rel=0.1)
    size = (out / "ctranslate2" / "model.bin").stat().st_size
    assert after["engines"]["CTranslate2 int8"]["bytes"] == size
    assert (out / "report.png").is_file() and (out / "fairseq" / "model.pt").is_file()
    assert list(content["forms"]) == ["ctranslate2", "fairseq"]
    in_form = content["forms"]["ctranslate2"]
    assert in_form["bleu"] == pytest.approx(after["engines"]["CTranslate2 int8"]["bleu"], abs=0.5)
    assert "| ctranslate2 | int8 |" in report and "* fairseq: imported" in report
    sources = [line.split() for line in (out / "test" / "source.tokens").read_text().splitlines()]
    translator = ctranslate2.Translator(str(out / "ctranslate2"), device="cpu", intra_threads=1)
    found = translator.translate_batch(sources, beam_size=5, max_decoding_length=200)
    assert (out / "speed" / "student.txt").read_text().splitlines() == [
        " ".join(one.hypotheses[0]) for one in found
    ]

    again = run("pet-fairseq", *command, "--updates", "30").output.splitlines()
    started = [line for line in again if line.startswith("== ") and "done" not in line]
    assert started == ["== report"] and again[-2] == summary

    other = run("pet-fairseq", *command, "--updates", "31", check=False)
    assert other.status == 1
    assert "checkpoint_best.pt: was made otherwise (--max-update 31, before 30" in other.output


def compress_for_marian(folder, *more) -> Path:
    """The folder of a student of Marian's form, of a teacher with SentencePiece."""
    widths = {"encoder_embed_dim": 128, "decoder_embed_dim": 128, "encoder_layers": 3}
    made = make(folder / "data", "transformer", sentence_pieces, **PRE_NORM, **widths)
    for name in ("train", "valid", "test"):
        write_subset(Path(made.data), name, [[5, 6, 7, 2], [9, 8, 2], [7, 2]])
    out = folder / "out"
    command = ("compress", made.checkpoint, "--data", made.data, "--out", out, "--device", "cpu")
    form = ("--student-form", "marian", "--rate", "40", "--updates", "3")
    run("pet-fairseq", *command, *form, *more)
    return out


@pytest.mark.slow
def test_a_student_for_marian(tmp_path):
    """From a teacher with SentencePiece to folders for Marian and CTranslate2, and the report."""
    pytest.importorskip("ctranslate2")
    out = compress_for_marian(tmp_path, "--max-tokens", "250")
    log = (out / "training/train.log").read_text()
    assert "'max_tokens': 250" in log and "'update_freq': [4]" in log  # 1,000 tokens a batch
    assert {path.name for path in (out / "marian").iterdir()} >= {"model.npz", "model.intgemm8.bin"}
    assert "* `marian/`: the same in int8 for Marian" in (out / "report.md").read_text()
    assert (out / "ctranslate2/model.bin").is_file() and not (out / "fairseq").exists()


@pytest.mark.slow
def test_what_an_earlier_run_left_is_not_reported(tmp_path):
    """As a pre-norm student in the same folder, which was replaced by --again."""
    pytest.importorskip("ctranslate2")
    for folder in ("fairseq", "warmup"):
        (tmp_path / "out" / folder).mkdir(parents=True)
    (tmp_path / "out/fairseq/model.pt").write_bytes(bytes(123_456_789))
    report = (compress_for_marian(tmp_path) / "report.md").read_text()
    assert "`fairseq/`" not in report and "123.4" not in report and "`marian/`" in report


@pytest.mark.skipif("BERGAMOT_NODE_MODULES" not in os.environ, reason="needs Bergamot in Node")
def test_the_engine_of_firefox_in_the_report(tmp_path):
    """The student's translations in each engine are scored alike, and its size is Bergamot's."""
    pytest.importorskip("onnxruntime")
    out = compress_for_marian(tmp_path, "--to", "marian", "onnx")
    rows = json.loads((out / "report.json").read_text())["forms"]
    assert set(rows) == {"marian", "onnx"}
    files = ("model.intgemm8.bin", "vocab.spm")
    least = sum((out / "marian" / file).stat().st_size for file in files)
    assert least < rows["marian"]["bytes"] < least + 10_000
    assert "in Bergamot, on one core" in (out / "report.md").read_text()


@pytest.mark.slow
def test_text_beside_data_in_several_folders(teacher, data, raw, comet, tmp_path):
    """One training has the pairs of each folder twice, and its half of the teacher's pairs.

    The test set is raw text, too. COMET scores when it is asked to, without a training.
    """
    pytest.importorskip("ctranslate2")
    out, more, text = tmp_path / "out", tmp_path / "more", tmp_path / "text.de"
    words = [
        f"--{side}dict={data}/dict.{lang}.txt" for side, lang in (("src", "de"), ("tgt", "en"))
    ]
    preprocess(raw, more, *words)
    text.write_text("".join(f"a{i % 9} a{i % 7} a{i % 5}\n" for i in range(50)))
    command = ("compress", teacher, "--data", f"{data}:{more}", "--text", text, "--out", out)
    options = ("--repeat-pairs", "2", "--device", "cpu", "--rate", "40", "--updates", "40")
    planned = in_process(*command, *options, "--dry-run").output
    assert "translate-corpus" in planned and "the other stages depend" in planned
    options += ("--test-pair", raw / "valid.de", raw / "valid.en")
    planned = in_process(*command, *options, "--dry-run").output
    assert "--testpref" in planned and "the other stages depend" in planned
    done = run("pet-fairseq", *command, *options)
    assert f"read on in {out}/report.md" in done.output
    pairs = json.loads((out / "corpus/summary.json").read_text())["pairs"]
    log = (out / "training/train.log").read_text()
    read = {}
    for folder, part, number in re.findall(r"(\S+/bin/\d) (train\d?) de-en (\d+) examples", log):
        read.setdefault(folder, {})[part] = int(number)
    halves = [pairs - pairs // 2, pairs // 2]
    assert read == {
        f"{out}/bin/{i}": {"train": 300, "train1": 300, "train2": half}
        for i, half in enumerate(halves)
    }
    for name, expected in (("source", raw / "valid.de"), ("reference", raw / "valid.en")):
        assert (out / f"translations/{name}.txt").read_text() == expected.read_text()
    content = json.loads((out / "report.json").read_text())
    for model in MODELS:
        text = out / f"translations/{model}.txt"
        assert text.read_text() == (out / f"speed/{model}.txt").read_text()
        scored = in_process("score", "bleu", text, raw / "valid.en")
        found = json.loads(scored.output)
        engine = content[model]["engines"]["CTranslate2 int8"]
        assert (found["bleu"], found["chrf"]) == (engine["bleu"], engine["chrf"])
        assert found["chrf_signature"] == content["chrf_signature"]
    before, after = (content[model]["engines"]["CTranslate2 int8"] for model in MODELS)
    for name, score in (("BLEU", "bleu"), ("chrF", "chrf")):
        difference = content["differences"][name]
        assert difference["mean"] == pytest.approx(after[score] - before[score])
        assert difference["low"] <= difference["mean"] <= difference["high"]
    again = in_process(*command, *options, "--comet", comet).output.splitlines()
    started = [line for line in again if line.startswith("== ") and "done" not in line]
    assert started == ["== report"]
    content = json.loads((out / "report.json").read_text())
    by_comet = [content[model]["comet"] for model in MODELS]
    assert content["differences"]["COMET"]["mean"] == pytest.approx(by_comet[1] - by_comet[0])
    scored = in_process(
        *("score", "bleu", out / "translations/student.txt", raw / "valid.en"),
        *("--comet", comet, "--source", raw / "valid.de", "--device", "cpu"),
    )
    assert json.loads(scored.output)["comet"] == pytest.approx(by_comet[1])
    other = in_process(*command, *options, "--repeat-pairs", "3")
    assert other.status == 1 and "bin: was made otherwise (--repeat 3, before 2)" in other.output


def test_what_is_wrong_shows_itself_before_a_text_is_translated(teacher, data, raw, tmp_path):
    out = tmp_path / "out"
    given = ("--text", raw / "train.de", "--out", out, "--device", "cpu")
    pair = ("--test-pair", raw / "test.de", raw / "test.en")
    named = ("--test", "sacrebleu:wmt19")
    for words, message in (
        (("--data", raw), f"--data {raw}: has no dict.de.txt"),
        (("--data", f"{data}:{raw}"), f"--data {raw}: has no dict.de.txt"),
        (("--data", f"{data}:"), f"argument --data: {data}:: a folder beside ':' is missing"),
        (("--data", data, "--rate", "100"), "--rate 100: give a percentage"),
        (("--data", data, "--test", "other"), "--test other: "),
        (("--data", data, "--valid-pair", "a", "b"), "--data and --valid-pair: both say what"),
        (("--data", data, "--test-pair", "a", "b"), "--test-pair a: no such file"),
        (("--data", data, *pair, "--test", "valid"), "--test-pair and --test valid: both name"),
        (("--data", data, *pair, "--reference", "a"), "--test-pair and --reference: both name"),
        (("--data", data, *pair, *named), "--test sacrebleu:wmt19 and --test-pair: both name"),
        (("--data", data, "--test", "sacrebleu:wmt20/tworefs:cs-de"), "has no cs-de, only "),
        (("--data", data, "--test", "sacrebleu:wmt"), "--test sacrebleu:wmt: sacreBLEU has no"),
    ):
        assert message in refusal("compress", teacher, *words, *given)
    assert not (out / "corpus").exists()


@pytest.mark.parametrize("given", ["--text", "--train-pair"])
@pytest.mark.parametrize(
    "words, message",
    [
        (("--rate", "100"), "--rate 100: give a percentage"),
        (("--rate", "10", "--megabytes", "1"), "--rate and --megabytes: both say how small"),
        (("--megabytes", "900"), "--megabytes 900: the teacher itself has"),
        (("--vocabulary", "500", "--megabytes", "900"), "--megabytes 900: the teacher itself has"),
        (("--precision", "fp16"), "--precision fp16: needs a GPU"),
        (("--student-form", "marian"), "--student-form marian: "),
        (("--max-tokens", "5"), "--max-tokens 5: "),
    ],
)
def test_what_is_wrong_with_a_text_alone(words, message, given, teacher, raw, tmp_path):
    """Without data, too, it is said before hours of translating or preparing."""
    out = tmp_path / "out"
    texts = [raw / "train.de", raw / "train.en"][: 1 if given == "--text" else 2]
    options = (given, *texts, "--out", out, "--device", "cpu")
    assert message in refusal("compress", teacher, *words, *options)
    made = ("corpus", "corpus_teacher", "vocabulary", "text", "bin")
    assert not [name for name in made if (out / name).exists()]


def test_files_that_do_not_belong_together_beside_a_text(teacher, raw, tmp_path):
    """It is said before that is translated."""
    given = ("--text", raw / "train.de", "--test-pair", raw / "test.de", raw / "train.en")
    message = refusal("compress", teacher, *given, "--out", tmp_path / "out", "--device", "cpu")
    assert "goes on; give files whose lines belong" in message
    assert not (tmp_path / "out/corpus").exists()


@pytest.mark.slow
@pytest.mark.cold  # it shows the memory of the process that trains
def test_bf16_on_a_cpu(teacher, data, tmp_path):
    """What a run takes is said before the training and in it."""
    out = tmp_path / "out"
    command = ("compress", teacher, "--data", data, "--out", out, "--device", "cpu", "--rate", "40")
    lines = run(
        *("pet-fairseq", *command, "--updates", "400", "--precision", "bf16")
    ).output.splitlines()
    assert lines[0].startswith("training: ") and "400 in all" in lines[0]
    assert lines[2].startswith("disk: about ")
    (told,) = [line for line in lines if line.startswith("training: ends about ")]
    megabytes = re.search(r"memory ([\d,]+) MB, up to [\d,]+ MB more later; disk (\d+) MB$", told)
    assert 100 < int(megabytes[1].replace(",", "")) < 4_000
    kept = sum(path.stat().st_size for path in (out / "training").glob("checkpoint*.pt"))
    assert kept / 1e6 < int(megabytes[2]) + 1
    trained = load_checkpoint(str(out / "training" / "checkpoint_best.pt"), "the student")
    assert trained["cfg"]["common"]["bf16"] is True
    assert json.loads((out / "report.json").read_text())["engine"] == "CTranslate2 int8"


@pytest.mark.slow
def test_a_teacher_that_ctranslate2_cannot_hold(teacher, data, tmp_path):
    """Its student is exported and timed there nevertheless; both are compared in fairseq."""
    pytest.importorskip("ctranslate2")
    path, out = tmp_path / "can.pt", tmp_path / "out"
    save_another(path, teacher, load_task(data), "can_transformer", decoder_normalize_before=True)
    command = ("compress", path, "--data", data, "--out", out, "--device", "cpu", "--rate", "5")
    summary = run("pet-fairseq", *command, "--updates", "10").output.splitlines()[-2]
    assert "times) in fairseq on" in summary and (out / "ctranslate2" / "model.bin").is_file()
    content = json.loads((out / "report.json").read_text())
    assert list(content["teacher"]["engines"]) == ["fairseq"]
    in_ctranslate2 = content["student"]["engines"]["CTranslate2 int8"]
    speeds = json.loads((out / "speed" / "speeds.json").read_text())["sentences_per_second"]
    assert in_ctranslate2["sentences_per_second"] == speeds["student"]
    assert list(speeds) == ["student"]


@pytest.mark.parametrize(
    "options, message",
    [
        (("--train-pair", "a", "b", "--test", "other"), "--test other: is for --data; give the"),
        (("--text", "a", "--updates", "0"), "--updates 0: give 1 or more"),
        (("--text", "a", "--comet", "nowhere"), "--comet"),
        (("--data", "DATA", "--repeat-pairs", "2"), "--repeat-pairs 2: says how often"),
    ],
)
def test_options_are_refused_before_anything_is_made(
    options, message, teacher, data, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_text("a1 a2\n" * 30)
    words = [str(data) if word == "DATA" else word for word in options]
    refused = in_process("compress", teacher, *words, "--device", "cpu", "--out", "out")
    assert refused.status != 0 and message in refused.output
    assert not Path("out").exists()
