"""`pet-fairseq translate`: what fairseq and CTranslate2 say, a line for each line of any text."""

import codecs
import os
import shutil
import subprocess
import time

import pytest
from sacremoses import MosesDetokenizer, MosesTokenizer
from subword_nmt.apply_bpe import BPE

import pet_fairseq
from pet_fairseq.files import temporary_path
from pet_fairseq.huggingface.importer import import_model
from tests.cli.processes import REPO, command_line, in_process, refusal, run
from tests.huggingface.transformers_models import marian
from tests.predict.made import make_classifier, make_translator, save_with_task
from tests.predict.test_predictor import answering
from tests.results.score.test_prompts import folder as lm_folder  # noqa: F401  fixture
from tests.results.score.test_prompts import save_lm
from tests.translation import make_model, make_task

BAD = ("", "a1\u2028a2 a3", "  ", "\ta5 a6\t", "a0 unheard a5")


@pytest.fixture(scope="module")
def source(raw):
    """Sentences, and lines that are none."""
    return [*(raw / "test.de").read_text().splitlines(), *BAD]


def translate(folder, text, *words) -> list[str]:
    """The lines that a command writes for a text."""
    content = text if isinstance(text, bytes) else "".join(f"{line}\n" for line in text).encode()
    (folder / "source").write_bytes(content)
    out = folder / "target"
    done = in_process("translate", *words, "--input", folder / "source", "--output", out)
    assert done.status == 0, done.output[-3000:]
    lines = out.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    return lines


# --- the same as by other ways --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["student", "teacher"])
def test_says_what_fairseq_generate_says(kind, student, teacher, data, raw, tmp_path):
    path = student[0] / "checkpoint_best.pt" if kind == "student" else teacher
    generated = run(
        *("fairseq-generate", data, "--user-dir", REPO / "pet_fairseq", "--cpu", "--path", path),
        *("--beam", "5", "--required-batch-size-multiple", "1", "--print-alignment"),
    )
    by_number = {int(fields[0][2:]): fields[-1] for fields in generated.printed("D")}
    text = (raw / "test.de").read_text().splitlines()
    assert translate(tmp_path, text, path, "--data", data) == [
        by_number[number] for number in range(len(text))
    ]


def test_from_standard_input_to_standard_output(student, data, source):
    path = student[0] / "checkpoint_best.pt"
    translator = pet_fairseq.from_pretrained(str(path), str(data))
    expected = [translator.translate(line, beam=2) if line.strip() else "" for line in source]
    words = ("translate", path, "--data", data, "--beam", "2", "--device", "cpu")
    ended = subprocess.run(
        command_line("pet-fairseq", *words, cold=False),
        input="\n".join(source).encode(),  # no end of the last line
        capture_output=True,
    )
    assert ended.returncode == 0 and ended.stderr == b""
    assert ended.stdout.decode() == "".join(f"{line}\n" for line in expected)


@pytest.fixture(scope="module")
def compressed(student, data, tmp_path_factory):
    """The forms that `pet-fairseq compress` leaves of a student, where it leaves them."""
    folder = tmp_path_factory.mktemp("compressed")
    for form in ("fairseq", "ctranslate2"):
        given = (student[0] / "checkpoint_best.pt", "--data", data, "--to", form)
        assert in_process("export", *given, "--out", folder / form).status == 0
    return folder


def by_ctranslate2(folder, sources: list[list[str]]) -> list[str]:
    ctranslate2 = pytest.importorskip("ctranslate2")
    engine = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    found = engine.translate_batch(sources, beam_size=5, max_decoding_length=200)
    return [" ".join(one.hypotheses[0]) for one in found]


def test_every_form_of_a_student(compressed, student, data, source, tmp_path, monkeypatch):
    path = student[0] / "checkpoint_best.pt"
    expected = translate(tmp_path, source, path, "--data", data)
    assert translate(tmp_path, source, compressed / "fairseq") == expected
    engine = compressed / "ctranslate2"
    asked = [line.split() for line in source if line.strip()]
    answers = iter(by_ctranslate2(engine, asked))
    in_engine = [next(answers) if line.strip() else "" for line in source]
    for size in ((), ("--batch-size", "3"), ("--max-tokens", "40"), ("--threads", "2")):
        assert translate(tmp_path, source, engine, *size) == in_engine
    assert translate(tmp_path, source, compressed) == in_engine
    monkeypatch.setattr("pet_fairseq.predict.ctranslate2.has_ctranslate2", lambda: False)
    assert translate(tmp_path, source, compressed) == expected


def save_translator(path, task, **options) -> str:
    """An untrained Transformer, as fairseq leaves it."""
    model, args = make_model(task, **options)
    args._name = args.arch
    return save_with_task(path, "translation", model, args, task)


def test_sub_words_of_an_engine(tmp_path):
    """As docs/howto/ctranslate2.md has it: Moses, and the codes that lie beside the data."""
    letters = [f"{letter}{mark}" for letter in "abcdefgh.," for mark in ("", "@@")]
    task = make_task(tmp_path / "data", [*letters, "ab@@", "cd"])
    path = save_translator(tmp_path / "model.pt", task)
    engine = tmp_path / "engine"
    words = (path, "--data", tmp_path / "data", "--to", "ctranslate2", "--out", engine)
    assert in_process("export", *words).status == 0
    (engine / "languages.json").unlink()  # which older exports lack
    missing = refusal("translate", engine, "--input", path)
    assert "--bpe: the model's words are pieces, and there is no bpe.codes" in missing
    (tmp_path / "data/bpe.codes").write_text("#version: 0.2\na b\nc d</w>\n")
    shutil.copy(tmp_path / "data/bpe.codes", engine)
    assert "bpe.codes, has to know the languages" in refusal("translate", engine, "--input", path)

    text = ["abcd cd, ab.", "ee (a)"]
    with codecs.open(str(tmp_path / "data/bpe.codes"), encoding="utf-8") as file:
        bpe = BPE(file)
    moses = MosesTokenizer("de")
    tokens = [moses.tokenize(line, aggressive_dash_splits=True, return_str=True) for line in text]
    found = by_ctranslate2(engine, [bpe.process_line(line).split() for line in tokens])
    detokenise = MosesDetokenizer("en").detokenize
    expected = [detokenise(f"{line} ".replace("@@ ", "").split()) for line in found]
    codes = ("--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", engine / "bpe.codes")
    languages = ("--source-lang", "de", "--target-lang", "en")
    assert translate(tmp_path, text, engine, *codes, *languages) == expected
    (tmp_path / "fairseq").mkdir()
    shutil.copy(path, tmp_path / "fairseq/model.pt")  # whose languages the engine has
    assert translate(tmp_path, text, engine) == expected
    for form in ("fairseq", "ctranslate2"):
        out = tmp_path / f"alone/{form}"
        out.parent.mkdir(exist_ok=True)
        words = (path, "--data", tmp_path / "data", "--to", form, "--out", out)
        assert in_process("export", *words).status == 0
    in_fairseq = translate(tmp_path, text, path, "--data", tmp_path / "data")
    (tmp_path / "data").rename(tmp_path / "gone")
    for form in ("fairseq", "ctranslate2"):  # each has all that its text needs
        alone = (tmp_path / f"alone/{form}").rename(tmp_path / f"{form}_alone")
        found = translate(tmp_path, text, alone)
        assert found == (in_fairseq if form == "fairseq" else expected)
    (tmp_path / "ctranslate2_alone/languages.json").write_text("[]")
    named = refusal("translate", tmp_path / "ctranslate2_alone", "--input", path)
    assert "languages.json: names no languages; export the model again" in named


@pytest.mark.slow
def test_sentencepieces_of_an_engine(tmp_path):
    """The files of both sides are in the export, and divide and join its text."""
    from tests.huggingface import translators  # skips without transformers

    pytest.importorskip("ctranslate2")
    texts = translators.TEXTS
    of_imported = {"marian": ("source.spm", "target.spm"), "one file": ("spm.model",)}
    for name, files in of_imported.items():
        translators.marian(tmp_path / name)
        import_model(tmp_path / name, tmp_path / f"{name} imported", target_lang="fra")
        imported = tmp_path / f"{name} imported"
        if files == ("spm.model",):
            (imported / "source.spm").rename(imported / "spm.model")
            (imported / "target.spm").unlink()
        out = tmp_path / f"{name} exported"
        words = (imported / "checkpoint.pt", "--data", imported, "--to", "ctranslate2", "--out")
        assert in_process("export", *words, out).status == 0
        copied = {path.name for path in out.iterdir()} & {"source.spm", "target.spm", "spm.model"}
        assert copied == {*files}
        assert all((out / f).read_bytes() == (imported / f).read_bytes() for f in files)
        expected = translate(tmp_path, texts, out, "--data", imported)
        imported.rename(tmp_path / f"{name} gone")
        assert translate(tmp_path, texts, out) == expected


def test_an_imported_model(tmp_path):
    marian(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "imported")
    text = ["ab", "", "b a ab"]
    translator = pet_fairseq.from_pretrained(str(tmp_path / "imported"))
    expected = [translator.translate(line) if line else "" for line in text]
    assert translate(tmp_path, text, tmp_path / "imported") == expected


def test_plugins_at_a_ratio(tmp_path):
    made = make_translator(tmp_path)
    text = ["w1 w2 w3", "w4 w5"]
    model = answering(made)
    for ratio in (1, 4):
        expected = [answer["text"] for answer in model.predict(text, ratio)]
        assert translate(tmp_path, text, made.path, "--ratio", ratio) == expected


# --- lines of all kinds ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def command(compressed, student, data):
    """A model of fairseq and one of CTranslate2."""
    greedy = ("--beam", "1", "--device", "cpu")
    return {
        "fairseq": (student[0] / "checkpoint_best.pt", "--data", data, *greedy),
        "ctranslate2": (compressed / "ctranslate2", *greedy, "--threads", "1"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", ["fairseq", "ctranslate2"])
def test_as_many_lines_as_there_were(form, command, tmp_path):
    one, two = translate(tmp_path, ["a1 a2", "a3"], *command[form])
    assert one and two and one != two
    for text, expected in (
        (b"", []),
        (b"\n", [""]),
        (b"\n\n\n", ["", "", ""]),
        (b"a1 a2\n\na3", [one, "", two]),
        (b"a1 a2\r\n\r\na3\r\n", [one, "", two]),
        (b"\xef\xbb\xbfa1 a2\na3\n", [one, two]),
        (b"\n" * 5000 + b"a3\n" * 2500, [""] * 5000 + [two] * 2500),
    ):
        assert translate(tmp_path, text, *command[form]) == expected


@pytest.mark.parametrize("form", ["fairseq", "ctranslate2"])
def test_broken_bytes_are_replaced_and_counted(form, command, tmp_path):
    path, out = tmp_path / "source", tmp_path / "target"
    path.write_bytes(b"a1\na2 \xff\na3\n")
    words = ("translate", *command[form], "--input", path, "--output", out)
    done = in_process(*words)
    assert done.output == "pet-fairseq translate: 1 of 3 lines: 1 with broken bytes (line 2)\n"
    replaced = translate(tmp_path, "a1\na2 \ufffd\na3\n".encode(), *command[form])
    assert out.read_text().splitlines() == replaced
    out.write_text("before")
    path.write_bytes(b"a1\na2 \xff\na3\n")
    assert refusal(*words, "--strict").endswith(f"--input {path}, line 2: not UTF-8 at byte 3")
    assert out.read_text() == "before" and sorted(os.listdir(tmp_path)) == ["source", "target"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["fairseq", "ctranslate2"])
def test_long_lines(form, command, tmp_path):
    """1,023 tokens fit; a sentence that does not is divided, and one word of 100,000 letters is."""
    sentence = "a1 a2 a3 ."
    fits, long = " ".join([sentence] * 255), " ".join([sentence] * 600)
    text = ["a4", long, "a5"]
    first, split, last = translate(tmp_path, text, *command[form])
    assert [first, last] == translate(tmp_path, ["a4", "a5"], *command[form])
    parts = translate(tmp_path, [fits, fits, " ".join([sentence] * 90)], *command[form])
    assert split == " ".join(parts)
    cut = translate(tmp_path, text, *command[form], "--long-lines", "cut")
    words = " ".join(long.split()[:1023])
    assert cut == [first, *translate(tmp_path, [words], *command[form]), last]
    (tmp_path / "source").write_text(f"{long}\n")
    given = ("translate", *command[form], "--input", tmp_path / "source")
    assert refusal(*given, "--strict").endswith(
        "line 1: more than the 1023 tokens that the model reads"
    )
    for line in ("a1 " * 3_334, "a" * 100_000, "a1. " * 2_500):
        one, two = translate(tmp_path, [line, "a5"], *command[form])
        assert one and two == last


def test_an_engine_with_few_positions(tmp_path):
    task = make_task(tmp_path / "data")
    path = save_translator(tmp_path / "m.pt", task, max_source_positions=20, max_target_positions=9)
    words = (path, "--data", tmp_path / "data", "--to", "ctranslate2", "--out", tmp_path / "engine")
    assert in_process("export", *words).status == 0
    text = ["w1 " * 19, "w2 " * 38, "w1"]
    whole, halves, _ = translate(tmp_path, text, tmp_path / "engine")
    (half,) = translate(tmp_path, ["w2 " * 19], tmp_path / "engine")
    assert halves == f"{half} {half}" and 0 < len(whole.split()) <= 8


# --- files and pipes ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", ["fairseq", "ctranslate2"])
def test_a_text_without_end(form, command):
    """Translations come before it ends; nobody reads them after the first.

    Most of its lines are empty: a thousand are read together.
    """
    words = command_line("pet-fairseq", "translate", *command[form], cold=False)
    with (
        subprocess.Popen(["yes", "a1 a2 a3" + 99 * "\n"], stdout=subprocess.PIPE) as endless,
        subprocess.Popen(
            words, stdin=endless.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as translating,
    ):
        endless.stdout.close()
        assert translating.stdout.readline().strip()
        translating.stdout.close()
        assert translating.stderr.read() == b""
    assert translating.returncode == 141  # as after `| head`


def test_a_line_is_answered_before_the_next_one_comes(command):
    words = command_line("pet-fairseq", "translate", *command["fairseq"], cold=False)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as translating:
        for line in (b"a1 a2\n", b"a3\n", b"\n"):
            translating.stdin.write(line)
            translating.stdin.flush()
            assert translating.stdout.readline().strip() or line == b"\n"
        translating.stdin.close()
    assert translating.returncode == 0


def test_a_file_over_its_own_source(command, tmp_path):
    expected = translate(tmp_path, ["a1 a2", "a3"], *command["ctranslate2"])
    path = tmp_path / "source"
    done = in_process("translate", *command["ctranslate2"], "--input", path, "--output", path)
    assert done.status == 0 and path.read_text().splitlines() == expected


def test_a_file_that_another_command_writes(command, tmp_path):
    """It is refused; once the other command was killed, it is written as if that had never been."""
    expected = translate(tmp_path, ["a1 a2", "a3"], *command["ctranslate2"])
    out = tmp_path / "target"
    out.unlink()
    words = ("translate", *command["ctranslate2"], "--output", out)
    half = temporary_path(out)
    other = subprocess.Popen(command_line("pet-fairseq", *words, cold=True), stdin=subprocess.PIPE)
    try:
        other.stdin.write(b"a1\n")
        other.stdin.flush()
        while not (half.exists() and half.stat().st_size):
            assert other.poll() is None
            time.sleep(0.05)
        again = (*words, "--input", tmp_path / "source")
        message = f"--output {out}: another command is writing it; wait for it, or give another"
        assert message in refusal(*again)
        assert half.stat().st_size and not out.exists()
    finally:
        other.kill()
        other.communicate()
    assert half.exists()
    assert in_process(*again).status == 0
    assert out.read_text().splitlines() == expected and not half.exists()


@pytest.mark.slow
def test_memory_is_flat(command, tmp_path):
    """Of a file of 600,000 lines as of one of 200,000, in which every buffer is full.

    Few of its lines are words and its batches are small: what the engine takes for a batch and
    gives back would hide what a line leaves.
    """
    words = (*command["ctranslate2"], "--batch-size", "16")
    peaks = []
    for number in (200_000, 600_000):
        text = "".join(f"a{i % 40} a3" + 100 * "\n" for i in range(number // 100))
        (tmp_path / "source").write_text(text)
        files = ("--input", tmp_path / "source", "--output", tmp_path / "target")
        process = subprocess.Popen(
            command_line("pet-fairseq", "translate", *words, *files, cold=True)
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        assert (tmp_path / "target").read_bytes().count(b"\n") == number
        peaks.append(usage.ru_maxrss / 1024)
    assert peaks[1] - peaks[0] < 10


# --- what is refused ------------------------------------------------------------------------------


def test_wrong_words(command, compressed, tmp_path):
    (tmp_path / "source").write_text("a1\n")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    model = command["fairseq"]
    for words, message in (
        ((*model, "--input", "none"), "--input none: no such file"),
        ((*model, "--input", tmp_path), f"--input {tmp_path}: is a folder; give a file"),
        ((*model, "--output", tmp_path), f"--output {tmp_path}: is a folder; give a file in it"),
        (
            (*model, "--output", tmp_path / "pipe"),
            "pipe: is no regular file; leave it out and use >",
        ),
        ((*model, "--beam", "x"), "x: give a whole number of 1 or more"),
        ((*model, "--output", "no/where"), "--output no/where: no is not a folder; create it"),
        ((*model, "--batch-size", "0"), "--batch-size 0: give 1 or more"),
        ((*model, "--batch-size", "1", "--max-tokens", "9"), "not allowed with argument"),
        ((*model, "--threads", "0"), "--threads 0: give 1 or more"),
        ((*model, "--threads", "100000"), "--threads 100000: give 1024 or less"),
        ((*model, "--lenpen", "x"), "--lenpen: x: give a finite number"),
        ((*model, "--lenpen", "inf"), "--lenpen: inf: give a finite number"),
        ((*model, "--ratio", "2"), "--ratio 2: the model works at [1]; give one of these"),
        ((compressed / "ctranslate2", "--ratio", "2"), "--ratio: a model in CTranslate2 has no"),
        ((compressed / "ctranslate2", "--what"), "unrecognized arguments: --what"),
        ((tmp_path / "empty",), "empty: has no checkpoint.pt or model.pt; give a checkpoint, or a"),
        ((tmp_path / "none.pt",), "none.pt: no such file"),
        ((*model, "--precision", "int8"), "--precision int8: is for models that classify"),
    ):
        given = () if "--input" in words else ("--input", tmp_path / "source")
        assert message in refusal("translate", *words, *given)


def test_models_that_do_not_translate(tmp_path):
    made = make_classifier(tmp_path)
    (tmp_path / "source").write_text("w1\n")
    words = ("translate", made.backbone, "--input", tmp_path / "source")
    assert refusal(*words).endswith(
        f"CHECKPOINT {made.backbone}: classifies texts; use pet-fairseq predict, or give a model "
        "that translates"
    )


def test_a_language_model(lm_folder, tmp_path):  # noqa: F811
    (tmp_path / "source").write_text("w1\n")
    refused = refusal("translate", save_lm(lm_folder), "--input", tmp_path / "source")
    assert "does not translate" in refused
