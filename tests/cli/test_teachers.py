"""Every encoder-decoder of fairseq as a teacher: real trainings, and `pet-fairseq compress`."""

import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from pet_fairseq import from_pretrained
from pet_fairseq.compress.plan import Request, make_plan
from pet_fairseq.compress.stages import build_stages
from pet_fairseq.compress.student import Size
from pet_fairseq.errors import UserError
from pet_fairseq.predict.ctranslate2 import has_ctranslate2
from pet_fairseq.predict.speed.translate import ROUNDS
from pet_fairseq.runner.device import CPU
from pet_fairseq.runner.stage import USER_DIR, Kind
from tests.cli.processes import (
    CROSS_ENTROPY,
    REPO,
    TRAIN,
    WITHOUT_DROPOUT,
    in_process,
    preprocess,
    run,
    train,
    write_text,
)
from tests.kinds import KINDS, ROBERTA_SIZES, STACKS
from tests.translation import load_task, make_model, save_state

RATE = 60
ALWAYS = ["lstm", "transformer_align"]  # trained as teachers in `make test`, too
OTHER_FORMS = ["fconv", "fconv_self_att", "lightconv", "roberta_enc_dec"]
COMPRESSED = [*OTHER_FORMS, "transformer_align", "adaptive softmax"]
WITHOUT_CTRANSLATE2 = {
    "adaptive softmax": "no room for --adaptive-softmax-cutoff",
    **{kind: f"holds {kind}, which has no form as fairseq's transformer" for kind in OTHER_FORMS},
}
HELD_BY_CTRANSLATE2 = (
    "bart",
    "full context",
    "layerdrop",
    "learned positions",
    "norms on embeddings",
    "transformer_align",
)
# by architecture: so large that a student of 2 + 2 layers can be smaller
CONVOLUTIONS = "[(48, 3)] * 2 + [(56, 2)]"
LARGER = {
    "fconv": tuple(f"--{s}-layers={CONVOLUTIONS}" for s in STACKS),
    "fconv_self_att": tuple(f"--{s}-layers={CONVOLUTIONS}" for s in STACKS),
    "lstm": tuple(f"--{s}-hidden-size=48" for s in STACKS),
}
ROBERTA = {
    **ROBERTA_SIZES,
    **{"encoder_embed_dim": 48, "encoder_ffn_embed_dim": 48, "max_positions": 1024},
}
WIDER = tuple(f"--{s}-{name}=48" for s in STACKS for name in ("embed-dim", "ffn-embed-dim"))


@pytest.fixture(scope="session")
def raw(once):
    """With few sentences to translate: what is trained so little ends none of them."""
    sizes = {"train": 300, "valid": 30, "test": 6}
    return once("raw_teachers", lambda folder: write_text(folder, sizes))


@pytest.fixture(scope="session")
def data(raw, once):
    """With one dictionary for both languages, which some kinds want."""
    return once("joined_teachers", lambda to: preprocess(raw, to, "--joined-dictionary"))


@pytest.fixture(scope="session")
def roberta(data, once):
    """The options that begin with a RoBERTa, on which fairseq builds `roberta_enc_dec`."""

    def save(folder):
        model, args = make_model(load_task(data), "roberta", **ROBERTA)
        args._name = "roberta"
        task = {"_name": "translation", "data": str(data), "source_lang": "de", "target_lang": "en"}
        save_state(folder / "roberta.pt", model, args, task)

    return ("--pretrained-mlm-checkpoint", once("roberta", save) / "roberta.pt")


@pytest.fixture(scope="session")
def trained(data, once, roberta):
    """Trains a model of a kind a little; returns its checkpoint."""

    def trained(kind) -> Path:
        words = KINDS[kind]
        arch = words[words.index("--arch") + 1]
        words = (*words, *{**LARGER, "roberta_enc_dec": roberta}.get(arch, WIDER))
        loss = () if "--criterion" in words else CROSS_ENTROPY
        options = (*words, *loss, "--max-update", "5")
        # a RoBERTa has its own dropout
        common = WITHOUT_DROPOUT if arch == "roberta_enc_dec" else TRAIN
        name = f"teacher_{kind}".replace(" ", "_").replace(",", "")
        folder = once(name, lambda to: train(data, to, *options, common=common))
        return folder / "checkpoint_best.pt"

    return trained


def kinds(always):
    """All kinds, the others marked as slow."""
    return [
        kind if kind in always else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS
    ]


# --- trainings ------------------------------------------------------------------------------------


def learn(data, folder, teacher, criterion, *options, **more):
    words = ("--arch", "transformer_tiny", "--criterion", criterion, "--teacher-path", teacher)
    positions = ("--max-source-positions", "512", "--max-target-positions", "512")
    return train(data, folder, *words, *positions, "--max-update", "3", *options, **more)


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds(ALWAYS))
def test_a_training(kind, trained, data, tmp_path):
    teacher = trained(kind)
    log = learn(data, tmp_path / "student", teacher, "pet_distillation")
    assert log.values("kl", "valid")[-1] > 0
    assert "compression rate" in log.output and "of the teacher" in log.output
    log = learn(data, tmp_path / "warm", teacher, "pet_simplified_task")
    assert log.values("loss", "valid")


def test_a_training_with_teachers_of_different_kinds(trained, data, tmp_path):
    """The switch pads the student's source on the right, unlike that of its teachers."""
    teachers = ":".join(str(trained(kind)) for kind in ALWAYS)
    log = learn(data, tmp_path, teachers, "pet_distillation", "--left-pad-source")
    assert log.values("kl", "valid")[-1] > 0


def test_longer_sentences_than_a_convolutional_teacher_reads(trained, data, tmp_path):
    """Two rows of fairseq's table of positions are for padding, not for words."""
    log = learn(
        *(data, tmp_path, trained("fconv"), "pet_distillation"),
        *("--max-source-positions", "1024"),
        check=False,
    )
    line = "--max-source-positions 1024: the teacher reads 1022 tokens at most; give --max-source"
    assert log.status == 1 and line in log.output.splitlines()[-1]


# --- compress -------------------------------------------------------------------------------------


def run_stages(stages):
    """Do what the runner does with a pipeline's stages, in the tests' fast processes."""
    for stage in stages:
        stage.product.parent.mkdir(parents=True, exist_ok=True)
        words = [REPO / "pet_fairseq" if word == USER_DIR else word for word in stage.words()]
        printed = run(*words).output
        if stage.kind is Kind.STDOUT:
            stage.product.write_text(printed)


@pytest.fixture
def pipeline(data, tmp_path):
    """The stages of `compress` from a checkpoint."""

    def pipeline(checkpoint, method="distil"):
        out, size = tmp_path / "out", Size(rate=RATE)
        request = Request(checkpoint, data, out, method, size, CPU, updates=5)
        return build_stages(make_plan(request))

    return pipeline


def check_report(out, kind):
    text, content = (out / "report.md").read_text(), json.loads((out / "report.json").read_text())
    before, after = (content[model] for model in ("teacher", "student"))
    rate = 100 * after["layer_parameters"] / before["layer_parameters"]
    assert rate == pytest.approx(RATE, rel=0.1)
    assert f"The student has {rate:.1f}% of the teacher's layer parameters." in text
    assert (out / "fairseq" / "model.pt").is_file()
    return text, content


@pytest.mark.slow
def test_compress_from_an_lstm(pipeline, trained, tmp_path):
    run_stages(pipeline(trained("lstm")))
    out = tmp_path / "out"
    text, content = check_report(out, "lstm")
    assert "holds lstm, which has no form as fairseq's transformer" in text
    assert content["engine"] == "fairseq" and content["rounds"] == ROUNDS
    # the student is a plain Transformer, which CTranslate2 holds whatever its teacher is
    assert not (out / "teacher").exists() and (out / "ctranslate2/model.bin").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMPRESSED)
def test_compress_from(kind, trained, data, tmp_path):
    pytest.importorskip("ctranslate2")
    out = tmp_path / "out"
    options = ("--device", "cpu", "--rate", RATE, "--updates", "5")
    run("pet-fairseq", "compress", trained(kind), "--data", data, "--out", out, *options)
    text, content = check_report(out, kind)
    assert content["engine"] == ("fairseq" if kind in WITHOUT_CTRANSLATE2 else "CTranslate2 int8")
    assert WITHOUT_CTRANSLATE2.get(kind, "") in text


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds(["lstm, deep", "fconv, tied"]))
def test_what_compress_plans(kind, pipeline, trained):
    stages = {stage.name: stage for stage in pipeline(trained(kind))}
    training = stages["training"]
    tied = "--share-decoder-input-output-embed" in training.command
    assert ("--share-all-embeddings" in training.command) == (kind in ("bart", "roberta_enc_dec"))
    assert tied == (kind in ("lstm, deep", "fconv, tied"))
    longest = "1022" if kind.startswith("fconv") else "1024"
    for name in ("training", "generate/teacher.1", "generate/student.1"):
        assert stages[name].option("--max-source-positions") == longest
    held = has_ctranslate2() and kind in HELD_BY_CTRANSLATE2
    assert ("export/teacher/ctranslate2" in stages) == held
    assert ("export/student/ctranslate2" in stages) == has_ctranslate2()


def test_patience_needs_a_transformer(pipeline, trained):
    teacher = trained("lstm")
    with pytest.raises(UserError, match=f"^--method pet-patient: .* and TEACHER {teacher} is none"):
        pipeline(teacher, "pet-patient")
    assert "warmup" in {
        stage.name for stage in pipeline(trained("transformer_align"), "pet-patient")
    }


# --- pretrained embeddings ------------------------------------------------------------------------


@pytest.fixture(scope="session")
def embedded(data, once):
    """A Transformer that began with embeddings from a file, which is gone; its checkpoint."""

    def fill(folder):
        file = folder / "embeddings"
        file.write_text(f"2 64\na1{' 0.5' * 64}\nb1{' -0.5' * 64}\n")
        options = ("--arch", "transformer_tiny", *CROSS_ENTROPY, "--max-update", "5")
        files = ("--encoder-embed-path", file, "--decoder-embed-path", file)
        train(data, folder, *options, *files)
        file.unlink()

    return once("embedded", fill) / "checkpoint_best.pt"


@pytest.mark.slow
def test_embeddings_from_a_file_that_is_gone(embedded, data, pipeline, tmp_path):
    log = learn(data, tmp_path / "student", embedded, "pet_distillation")
    assert log.values("kl", "valid")
    (generate,) = (s for s in pipeline(embedded) if s.name == "generate/teacher.1")
    run_stages([generate])
    assert "Translated 6 sentences" in generate.product.read_text()
    out = tmp_path / "exported"
    run("pet-fairseq", "export", embedded, "--data", data, "--to", "fairseq", "--out", out)
    options = torch.load(out / "model.pt")["cfg"]["model"]  # stock fairseq reads these
    assert options.encoder_embed_path is options.decoder_embed_path is None
    texts = ["a1 a2 a3", "a4"]
    ours, exported = (from_pretrained(str(p), str(data)) for p in (embedded, out / "model.pt"))
    assert ours.translate(texts) == exported.translate(texts)


# --- what cannot be a teacher ---------------------------------------------------------------------


@pytest.fixture(scope="session")
def multilingual(data, once):
    options = (
        *("--task", "translation_multi_simple_epoch", "--langs", "de,en", "--lang-pairs", "de-en"),
        *("--encoder-langtok", "src", "--decoder-langtok", "--sampling-method", "temperature"),
        *("--arch", "transformer_tiny", *CROSS_ENTROPY, "--max-update", "2"),
    )
    return once("multilingual", lambda to: train(data, to, *options)) / "checkpoint_best.pt"


@pytest.fixture(scope="session")
def non_autoregressive(data, once):
    options = (
        *("--task", "translation_lev", "--arch", "cmlm_transformer", "--noise", "full_mask"),
        *("--criterion", "nat_loss", "--max-update", "2", "--share-all-embeddings"),
        *("--encoder-embed-dim", "16", "--decoder-embed-dim", "16", "--encoder-layers", "1"),
        *("--decoder-layers", "1", "--encoder-ffn-embed-dim", "16", "--decoder-ffn-embed-dim"),
        *("16", "--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
    )
    return once("cmlm", lambda to: train(data, to, *options)) / "checkpoint_best.pt"


MESSAGES = {
    "multilingual": "a multilingual model (trained with --task translation_multi_simple_epoch); "
    "make one of a single pair of it first: pet-fairseq bilingual",
    "non_autoregressive": "cmlm_transformer is a non-autoregressive model, which gives no "
    "distribution over the next word",
}
# what compress says, if it is not what other commands say
OF_COMPRESS = {"multilingual": "a multilingual model, of de, en; give --source-lang and"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MESSAGES)
def test_one_line_says_what_it_is(kind, request, data, tmp_path):
    path = request.getfixturevalue(kind)
    folder = ("--data", data)
    commands = (
        ("CHECKPOINT", "export", path, *folder, "--to", "fairseq", "--out", tmp_path / "out"),
        ("CHECKPOINT", "suggest-pairs", path, *folder),
    )
    for option, *words in commands:
        assert_one_line(in_process(*words), f"{option} {path}", kind)
    words = ("compress", path, *folder, "--out", tmp_path / "out", "--device", "cpu")
    done = in_process(*words)
    assert f"TEACHER {path}: {OF_COMPRESS.get(kind, MESSAGES[kind])}" in done.output
    done = learn(data, tmp_path / "s", path, "pet_distillation", check=False)
    assert_one_line(done, f"--teacher-path {path}", kind)


def test_other_commands_refuse_a_multilingual_model(multilingual, trained, raw, data, tmp_path):
    for paths in (str(multilingual), f"{trained('learned positions')}:{multilingual}"):
        with pytest.raises(UserError) as error:
            from_pretrained(paths, str(data))
        start = f"path {multilingual}: {MESSAGES['multilingual']}"
        assert str(error.value).startswith(start)
    words = ("predict", multilingual, "--data", data, "--input", raw / "test.de")
    done = in_process(*words)
    assert_one_line(done, f"CHECKPOINT {multilingual}", "multilingual")
    done = run(
        *("fairseq-train", data, "--user-dir", REPO / "pet_fairseq", "--max-tokens", "500"),
        *("--arch", "variator", "--backbone-path", multilingual, "--save-dir", tmp_path, "--cpu"),
        *("--criterion", "variator_distillation"),
        check=False,
    )
    assert_one_line(done, f"--backbone-path {multilingual}", "multilingual")


def assert_one_line(done, start, kind):
    assert done.status == 1 and "Traceback" not in done.output
    assert f"error: {start}: {MESSAGES[kind]}" in done.output.splitlines()[-1]


def unigram_f(reference: str, text: str) -> float:
    """ROUGE-1 in percent of words of a letter, which no stemmer changes."""
    words, own = Counter(reference.split()), Counter(text.split())
    common = sum((words & own).values())
    return 200 * common / (sum(words.values()) + sum(own.values())) if common else 0.0


@pytest.mark.slow
def test_a_t5_teaches(tmp_path):
    """From its files and pairs of text and summary to a student, compared by ROUGE."""
    pytest.importorskip("transformers")
    pytest.importorskip("rouge_score")
    from tests.huggingface.test_t5 import t5_with_tokenizer

    t5_with_tokenizer(tmp_path / "t5")
    draw, pairs = random.Random(1), []
    for part, size in (("train", 40), ("valid", 6), ("test", 5)):
        files = [tmp_path / f"{part}.{side}" for side in ("long", "short")]
        for file in files:
            file.write_text("".join(" ".join(draw.choices("ac", k=4)) + "\n" for _ in range(size)))
        pairs += [f"--{part}-pair", *files]
    out = tmp_path / "small"
    options = ("--rate", "62", "--updates", "3", "--device", "cpu", "--rouge")
    run("pet-fairseq", "compress", tmp_path / "t5", *pairs, *options, "--out", out)
    half = ("--device", "cuda", "--precision")
    command = ("compress", tmp_path / "t5", *pairs, *options, "--out", out, *half)
    planned = run("pet-fairseq", *command, "bf16", "--dry-run", "--again").output
    stages = [block for block in planned.split("\n# ") if block.startswith("generate/")]
    in_half = ["--fp16" in stage for stage in stages]  # the student's alone
    assert in_half == [stage.startswith("generate/student") for stage in stages] and any(in_half)
    refused = run("pet-fairseq", *command, "fp16", "--dry-run", "--again", check=False)
    assert "has numbers that are too large for it; give fp32, or bf16" in refused.output
    content = json.loads((out / "report.json").read_text())
    texts = {
        name: (out / f"translations/{name}.txt").read_text().splitlines()
        for name in ("source", "reference", "teacher", "student")
    }
    assert texts["source"] == (tmp_path / "test.long").read_text().splitlines()
    assert texts["reference"] == (tmp_path / "test.short").read_text().splitlines()
    for model in ("teacher", "student"):
        rows = zip(texts["reference"], (re.sub(r"[^a-z0-9]", " ", t) for t in texts[model]))
        expected = [unigram_f(*row) for row in rows]
        assert content[model]["rouge1"] == pytest.approx(sum(expected) / len(expected))
    assert "| ROUGE-2 in fairseq |" in (out / "report.md").read_text()
