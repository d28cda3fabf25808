"""`pet-fairseq translate-corpus`: the same pairs, however often a run was interrupted."""

import gzip
import json
import os
import re
import resource
import shutil
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pet_fairseq import cli
from pet_fairseq.predict.corpus.run import call_of, make_settings
from pet_fairseq.predict.corpus.shards import shards
from pet_fairseq.runner.lock import locked
from tests.cli.processes import in_process, refusal, run, start

# one to four words, and five times the same again
REPEATED = re.compile(r"(?<!\S)(\S+(?: \S+){0,3})(?: \1){5}(?!\S)")


@pytest.fixture(scope="module")
def models(teacher, data, once):
    """A teacher of fairseq and the same in CTranslate2, as words of a command."""
    pytest.importorskip("ctranslate2")
    words = (teacher, "--data", data, "--to", "ctranslate2", "--out")
    engine = once("engine", lambda folder: in_process("export", *words, folder / "ctranslate2"))
    common = ("--device", "cpu", "--threads", "1", "--beam", "1", "--max-tokens", "400")
    return {
        "fairseq": (teacher, "--data", data, *common),
        "ctranslate2": (engine / "ctranslate2", *common),
    }


@pytest.fixture(scope="module")
def text(raw):
    """300 sentences."""
    return raw / "train.de"


def translate(out, model, text, *words) -> str:
    """What a command prints that translates files into shards of 40 lines."""
    files = text if isinstance(text, (list, tuple)) else [text]
    given = ("--shard-lines", 40, "--out", out, *words)
    done = in_process("translate-corpus", *model, "--text", *files, *given)
    assert done.status == 0, done.output[-3000:]
    return done.output


def refused(out, model, text, *words) -> str:
    return refusal("translate-corpus", *model, "--text", text, "--out", out, *words)


def joined(out) -> tuple[str, str]:
    """All sources and all translations."""
    pairs = list(shards(out))
    return tuple("".join(pair[side].read_text() for pair in pairs) for side in (0, 1))


def absurd(source: str, target: str) -> bool:
    short, long = sorted((len(source.split()), len(target.split())))
    return short == 0 or long > max(10, 3 * short)


def share_of_equal(first, second) -> float:
    """The share of pairs that two folders have in common."""
    ours, theirs = ({*zip(*(side.splitlines() for side in joined(out)))} for out in (first, second))
    return len(ours & theirs) / len(ours | theirs)


def files_of(out) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for side in zip(*shards(out)) for path in side}


# --- the pairs ------------------------------------------------------------------------------------


def test_pairs_are_the_lines_of_translate(models, text, tmp_path):
    """Those that no rule drops; the other lines are counted."""
    output = translate(tmp_path / "out", models["fairseq"], text)
    words = ("translate", *models["fairseq"], "--input", text, "--output", tmp_path / "all")
    assert in_process(*words).status == 0
    sources, targets = text.read_text().splitlines(), (tmp_path / "all").read_text().splitlines()
    pairs = zip(sources, targets)
    kept = [pair for pair in pairs if not REPEATED.search(pair[1]) and not absurd(*pair)]
    assert 100 < len(kept) < 300
    found = joined(tmp_path / "out")
    assert list(zip(*(side.splitlines() for side in found))) == kept
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert (summary["shards"], summary["lines"], summary["pairs"]) == (8, 300, len(kept))
    assert summary["bad"] == 300 - len(kept) == sum(summary["counts"].values())
    assert summary["lines_per_second"] > 0
    assert f"{len(kept)} pairs from 300 lines, " in output
    assert f"pet-fairseq translate-corpus: {300 - len(kept)} of 300 lines: " in output


def test_ctranslate2_gives_the_same(models, text, tmp_path):
    for form in models:
        translate(tmp_path / form, models[form], text)
    assert files_of(tmp_path / "fairseq") == files_of(tmp_path / "ctranslate2")


@pytest.mark.slow
def test_onnx_gives_the_same(models, teacher, data, text, tmp_path):
    """As every other form that `translate` takes."""
    pytest.importorskip("onnxscript")
    words = (teacher, "--data", data, "--to", "onnx", "--out", tmp_path / "onnx")
    assert in_process("export", *words).status == 0
    translate(tmp_path / "out", (tmp_path / "onnx", *models["fairseq"][3:]), text)
    translate(tmp_path / "expected", models["fairseq"], text)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "expected")


@pytest.mark.parametrize("kind", ["gz", "zst", "two"])
def test_other_files_of_the_same_text(kind, models, text, tmp_path):
    translate(tmp_path / "plain", models["ctranslate2"], text)
    whole, path = text.read_bytes(), tmp_path / f"text.{kind}"
    if kind == "gz":
        path.write_bytes(gzip.compress(whole))
    elif kind == "zst":
        path.write_bytes(pytest.importorskip("zstandard").compress(whole))
    else:
        lines = whole.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:117]).removesuffix(b"\n"))
        (tmp_path / "more").write_bytes(b"".join(lines[117:]))
        path = (path, tmp_path / "more")
    translate(tmp_path / "out", models["ctranslate2"], path)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "plain")


@pytest.mark.parametrize("form", ["fairseq", "ctranslate2"])
def test_nbest(form, models, text, tmp_path):
    """The first of the best ones is the best one, and they differ."""
    beam = (*models[form], "--beam", "3", "--max-ratio", "1000")
    translate(tmp_path / "one", beam, text)
    translate(tmp_path / "three", beam, text, "--nbest", "3")
    best: dict[str, list[str]] = {}
    for source, target in zip(*(side.splitlines() for side in joined(tmp_path / "three"))):
        best.setdefault(source, []).append(target)
    assert max(map(len, best.values())) >= 3
    sources, targets = (side.splitlines() for side in joined(tmp_path / "one"))
    assert sum(best[source][0] == target for source, target in zip(sources, targets)) > 100
    assert all(target in best[source] for source, target in zip(sources, targets))


@pytest.mark.parametrize("form", ["fairseq", "ctranslate2"])
def test_what_is_drawn_depends_on_the_seed(form, models, text, tmp_path):
    """Of each shard alone: one that is made again is the same."""
    drawn = (*models[form], "--sampling", "--sampling-topk", "5", "--nbest", "2")
    translate(tmp_path / "a", drawn, text)
    translate(tmp_path / "b", drawn, text, "--seed", "2")
    before = files_of(tmp_path / "a")
    assert before != files_of(tmp_path / "b")
    for name in ("00002.json", "00005.json"):
        (tmp_path / "a" / name).unlink()
        (tmp_path / "a" / name).with_suffix(".target").unlink()
    translate(tmp_path / "a", drawn, text)
    assert files_of(tmp_path / "a") == before


@pytest.mark.slow
@pytest.mark.parametrize("form", ["fairseq", "ctranslate2"])
def test_drawn_from_likely_words_alone(form, models, text, tmp_path):
    """From almost no probability, or at almost no temperature, only the likeliest word is drawn."""
    ratio = ("--max-ratio", "1000")
    translate(tmp_path / "greedy", models[form], text, *ratio)
    for name, words in (
        ("topp", ("--sampling-topp", "0.001")),
        ("cold", ("--temperature", "0.0001")),
    ):
        translate(tmp_path / name, models[form], text, "--sampling", *words, *ratio)
        assert share_of_equal(tmp_path / name, tmp_path / "greedy") > 0.95, name  # but for ties
    for name, words in (("warm", ()), ("all", ("--sampling-topk", "5000"))):  # more than there are
        hot = ("--sampling", "--temperature", "3", *words)
        translate(tmp_path / name, models[form], text, *hot, *ratio)
        assert share_of_equal(tmp_path / name, tmp_path / "greedy") < 0.5


# --- lines of all kinds ---------------------------------------------------------------------------


def test_bad_lines_are_counted(models, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a1 a2\n\n \na3 \xff\n" + b"a1 " * 2_000 + b"\n" + b"x" * 100_000 + b"\na4\n")
    output = translate(tmp_path / "out", models["ctranslate2"], path)
    assert (
        "5 of 7 lines: 2 empty (lines 2, 3), 1 with broken bytes (line 4), 2 too long (lin"
        in output
    )
    assert joined(tmp_path / "out")[0] == "a1 a2\na3 \ufffd\na4\n"
    for line, message in (
        (2, "line 2: empty; leave out --strict to drop it"),
        (3, "line 2: not UTF-8 at byte 3"),
        (4, "line 2: too long; leave out --strict"),
    ):
        some = path.read_bytes().splitlines(keepends=True)
        (tmp_path / "strict").write_bytes(some[0] + some[1 if line == 2 else line])
        assert message in refused(
            tmp_path / f"{line}", models["ctranslate2"], tmp_path / "strict", "--strict"
        )


# --- interruptions --------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_and_started_again(models, text, tmp_path):
    """kill -9 twice in the middle; then the pairs are those of a run without interruption."""
    long = tmp_path / "long"
    long.write_bytes(text.read_bytes() * 5)
    words = ("translate-corpus", *models["fairseq"], "--text", long, "--shard-lines", "150")
    for finished in (2, 4):
        process = start("pet-fairseq", *words, "--out", tmp_path / "out")
        while not (tmp_path / f"out/0000{finished}.json").exists():
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert not (tmp_path / "out/00009.json").exists()
    before = (tmp_path / "out/00001.target").stat()
    assert in_process(*words, "--out", tmp_path / "out").status == 0
    assert (tmp_path / "out/00001.target").stat() == before
    assert in_process(*words, "--out", tmp_path / "whole").status == 0
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert not list(tmp_path.glob("out/.share-1-of-1/unfinished*"))
    again = in_process(*words, "--out", tmp_path / "out")  # nothing is left to do
    assert again.status == 0 and " lines/s" not in again.output


def test_jobs_and_shares_make_the_same_shards(models, text, tmp_path):
    translate(tmp_path / "one", models["ctranslate2"], text)
    words = ("translate-corpus", *models["ctranslate2"], "--text", text, "--shard-lines", "40")
    output = run("pet-fairseq", *words, "--out", tmp_path / "two", "--jobs", "2").output
    assert "from 300 lines, " in output
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")
    for share in ("2/3", "1/3"):
        output = translate(tmp_path / "shares", models["ctranslate2"], text, "--shard-of", share)
        assert f" lines of share {share}, " in output
    assert not (tmp_path / "shares/summary.json").exists()
    translate(tmp_path / "shares", models["ctranslate2"], text, "--shard-of", "3/3")
    assert files_of(tmp_path / "shares") == files_of(tmp_path / "one")
    assert (tmp_path / "shares/summary.json").exists()


def jobs_of(folder: Path) -> list[int]:
    """The processes that translate into a folder for a run with --jobs."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            words = file.read_bytes().decode(errors="replace")
            if "work_in_process" in words and str(folder) in words:
                found.append(int(file.parent.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["the run", "a job"])
def test_jobs_killed_and_started_again(killed, models, text, tmp_path):
    """kill -9: of the run, whose jobs end by themselves, or of a job, with which the run ends."""
    long = tmp_path / "long"
    long.write_bytes(text.read_bytes() * 5)
    model = ("translate-corpus", *models["fairseq"], "--text", long, "--shard-lines", "100")
    words = (*model, "--out", tmp_path / "out", "--jobs", "2")
    process = start("pet-fairseq", *words)
    while not list(tmp_path.glob("out/0*.json")):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    if killed == "the run":
        process.send_signal(signal.SIGKILL)
        process.communicate()
    else:
        os.kill(jobs_of(tmp_path)[0], signal.SIGKILL)
        output = process.communicate()[0]
        assert process.returncode == 1
        assert (
            "of 2: ended by signal 9, Killed; the finished shards stay" in output.splitlines()[-1]
        )
    assert not (tmp_path / "out/summary.json").exists()
    done = run("pet-fairseq", *words, check=False)
    while "is at work there" in done.output:  # jobs that have not noticed it yet
        time.sleep(0.1)
        done = run("pet-fairseq", *words, check=False)
    assert done.status == 0, done.output
    assert in_process(*model, "--out", tmp_path / "whole").status == 0
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert not list(tmp_path.glob("out/.share-1-of-1/unfinished*"))


def test_the_error_of_a_job_is_told(models, text, tmp_path):
    """As the command line of a job prints it for the one that started it."""
    broken = ("--bpe", "sentencepiece", "--sentencepiece-model", "none.model")
    words = (*models["ctranslate2"], "--text", text, "--out", tmp_path, *broken)
    _, args = cli.parse(["translate-corpus", *map(str, words)])
    call = call_of(args, 1, tmp_path, make_settings(args, args.rest))
    done = in_process(*call.words()[1:])
    assert done.status == 0 and "none.model" in json.loads(done.output)["error"]


@contextmanager
def room_for_files(size: int):
    """Files may not grow beyond this size, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_what_is_finished(models, text, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a1 a2\n" + b"\n" * 299 + text.read_bytes())
    options = ("--shard-lines", "300")
    with room_for_files(2_000):
        line = refused(tmp_path / "out", models["ctranslate2"], path, *options)
    assert line.endswith(f"{tmp_path}/out/00001.source: File too large")
    names = sorted(name for name in os.listdir(tmp_path / "out") if name[0] != ".")
    assert names == ["00000.json", "00000.source", "00000.target", "settings.json"]
    assert os.listdir(tmp_path / "out/.share-1-of-1") == [".lock"]
    assert (
        in_process(
            *(
                "translate-corpus",
                *models["ctranslate2"],
                "--text",
                path,
                "--out",
                tmp_path / "out",
            ),
            *options,
        ).status
        == 0
    )
    assert len(list(shards(tmp_path / "out"))) == 2


# --- what is refused ------------------------------------------------------------------------------


def test_a_folder_of_another_corpus(models, teacher, tmp_path):
    out, model = tmp_path / "out", models["fairseq"]
    path = tmp_path / "text"
    path.write_text("a1 a2\na3\n")
    another = tmp_path / "another.pt"
    another.write_bytes(teacher.read_bytes() + b"x")
    translate(out, model, path)
    translate(out, (*model, "--threads", "2", "--jobs", "1"), path)  # no other pairs
    for other, message in (
        ((*model, "--beam", "2"), "(--beam 2, before 1)"),
        ((*model, "--sampling"), "(--sampling (given), before (not given))"),
        ((*model, "--shard-lines", "7"), "(--shard-lines 7, before 40)"),
        ((another, *model[1:]), "(file 1 of CHECKPOINT has changed)"),
        ((*model, "--tokenizer", "space"), "(--tokenizer space, before (not given))"),
    ):
        lines = () if "--shard-lines" in other else ("--shard-lines", "40")
        line = refused(out, other, path, *lines)
        assert f"{out}: was made otherwise {message}; give another --out, or what" in line
    path.write_text("a1 a2\na4\n")
    same = ("--shard-lines", "40")
    assert "(file 1 of --text has changed)" in refused(out, model, path, *same)
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved/text").write_text("a1 a2\na3\n")
    translate(out, model, tmp_path / "moved/text")
    (out / "settings.json").write_text("{}")
    assert "no settings of translate-corpus" in refused(out, model, path, *same)


def test_a_subword_model_that_was_replaced(teacher, data, tmp_path):
    """It lies beside the data; half of the pairs would be in other pieces."""
    folder = Path(shutil.copytree(data, tmp_path / "data"))
    codes, out, path = folder / "bpe.codes", tmp_path / "out", tmp_path / "text"
    codes.write_text("#version: 0.2\na 1</w>\n")
    path.write_text("a1 a2\n" * 6)
    model = (teacher, "--data", folder, "--device", "cpu", "--threads", "1", "--beam", "1")
    lines = ("--shard-lines", "2")
    translate(out, model, path, *lines)
    (out / "00002.json").unlink()
    codes.write_text("#version: 0.2\na 2</w>\n")
    for jobs in ("1", "2"):
        line = refused(out, model, path, *lines, "--jobs", jobs)
        assert f"{out}: was made otherwise (the subword model has changed); give another" in line
    codes.write_text("#version: 0.2\na 1</w>\n")
    settings = json.loads((out / "settings.json").read_text())
    translate(out, model, path, *lines)
    (out / "00002.json").unlink()
    del settings["inputs"]["the subword model"]  # as of a folder from before it was noted
    (out / "settings.json").write_text(json.dumps(settings))
    translate(out, model, path, *lines)


def test_two_runs_at_once(models, text, tmp_path):
    out = tmp_path / "out"
    with locked(out / ".share-1-of-1"):
        line = refused(out, models["ctranslate2"], text)
        assert "another run, or a command that it started, is at work there; wait for" in line
        assert len(line.splitlines()) == 1
        words = ("--shard-of", "1/2")  # of other shares
        assert "pairs from" in translate(out, models["ctranslate2"], text, *words)


def test_wrong_words(models, text, tmp_path):
    model, out = models["ctranslate2"], tmp_path / "out"
    utf_16 = tmp_path / "utf16"
    utf_16.write_bytes("ein Hund\n".encode("utf-16"))
    empty = tmp_path / "empty"
    empty.write_text("\n\n")
    for path, words, message in (
        ("none", (), "--text none: no such file"),
        (tmp_path, (), f"--text {tmp_path}: no such file"),
        (utf_16, (), f"--text {utf_16}: UTF-16; convert it to UTF-8 (iconv -f UTF-16"),
        (empty, (), f"--text {empty}: no line has words; give a text"),
        (text, ("--nbest", "2"), "--nbest 2: above --beam 1; give a larger --beam"),
        (text, ("--nbest", "0"), "--nbest 0: give 1 or more"),
        (text, ("--jobs", "0"), "--jobs 0: give 1 or more"),
        (text, ("--shard-lines", "0"), "--shard-lines 0: give 1 or more"),
        (text, ("--max-ratio", "0.5"), "--max-ratio 0.5: give 1 or more"),
        (text, ("--max-ratio", "nan"), "nan: give a finite number"),
        (text, ("--shard-of", "5/4"), "5/4: give I/N, such as 1/4 for the first of four"),
        (text, ("--sampling-topk", "5"), "--sampling-topk: is for --sampling; give that too"),
        (text, ("--sampling", "--sampling-topk", "-1"), "--sampling-topk -1: give 0 for all"),
        (text, ("--sampling-topp", "0.5"), "--sampling-topp: is for --sampling; give that too"),
        (text, ("--temperature", "2"), "--temperature: is for --sampling; give that too"),
        (text, ("--sampling", "--sampling-topp", "1.5"), "--sampling-topp 1.5: give a probabil"),
        (text, ("--sampling", "--temperature", "0"), "--temperature 0: give a number above 0"),
        (
            *(text, ("--sampling", "--sampling-topp", "0.5", "--sampling-topk", "5")),
            "--sampling-topk and --sampling-topp: both say which words are drawn from",
        ),
        (text, ("--what",), "unrecognized arguments: --what"),
        (text, ("--out", text), "is a file; give a folder that can be written"),
    ):
        line = refused(out, model, path, *words)
        assert message in line, line
    assert not list(out.glob("0*"))
    missing = refused(out, (tmp_path / "none.pt",), text)
    assert missing.endswith("none.pt: no such file or folder")
