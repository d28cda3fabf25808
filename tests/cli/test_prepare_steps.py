"""The steps of the recipes' data: fetching and checking files, cleaning, preprocessing; offline."""

import gzip
import hashlib
import os
import random
import subprocess
import zipfile
from pathlib import Path

import pytest
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig

from tests.cli.processes import BIN, REPO, write_text
from tests.cli.shell import bash, refuses, sh, write_command

PREPROCESS = "scripts/text/preprocess.sh"


def shared(code: str, *args, **options) -> subprocess.CompletedProcess:
    """Run a line of shell with the functions of scripts/text/fetch.sh."""
    sources = f". {REPO}/scripts/common.sh; . {REPO}/scripts/text/fetch.sh; {code}"
    return bash("-c", sources, "recipe", *args, **options)


# Fetching


@pytest.fixture
def archive(tmp_path) -> Path:
    """A gzipped file of random bytes at a "public" place."""
    path = tmp_path / "public/corpus.tgz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(random.Random(1).randbytes(50_000)))
    return path


def fetch(archive: Path, file: Path, size="-", checksum="-", **options):
    url = f"file://{archive.parent}/{file.name}"
    return shared('fetch "$@"', url, file, size, checksum, **options)


def digest(path: Path, kind: str) -> str:
    return hashlib.new(kind, path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_fetch_keeps_an_intact_file(kind, archive, tmp_path):
    file = tmp_path / "out/corpus.tgz"
    size, checksum = archive.stat().st_size, digest(archive, kind)
    fetch(archive, file, size, checksum)
    assert file.read_bytes() == archive.read_bytes()
    archive.unlink()  # a second download would fail
    fetch(archive, file, size, checksum)
    assert [path.name for path in file.parent.iterdir()] == ["corpus.tgz"]


@pytest.mark.parametrize("place", ["url", "folder"])
@pytest.mark.parametrize("known", ["size", "checksum", "nothing"])
def test_fetch_refuses_a_cut_file(place, known, archive, tmp_path):
    size = archive.stat().st_size if known == "size" else "-"
    checksum = digest(archive, "sha256") if known == "checksum" else "-"
    archive.write_bytes(archive.read_bytes()[:20_000])
    env = {"FROM": str(archive.parent)} if place == "folder" else {}
    file = tmp_path / "out/corpus.tgz"
    result = fetch(archive, file, size, checksum, check=False, **env)
    wrong = {
        "size": f"20000 bytes, expected {size}",
        "checksum": f"checksum {digest(archive, 'sha256')}, expected {checksum}",
        "nothing": "damaged or cut short",
    }
    refuses(result, archive, wrong[known], "fetch it again")
    assert not list(file.parent.iterdir())


def test_fetch_refuses_a_wrong_checksum_and_replaces_a_wrong_file(archive, tmp_path):
    file = tmp_path / "out/corpus.tgz"
    refuses(fetch(archive, file, "-", "0" * 32, check=False), "checksum", "0" * 32)
    refuses(fetch(archive, file, "-", "abc", check=False), "'abc' is neither md5 nor sha256")
    file.write_bytes(b"cut")
    fetch(archive, file)
    assert file.read_bytes() == archive.read_bytes()


def test_fetch_resumes_a_cut_download(archive, tmp_path):
    """The first half is there already: only the second one comes from the source."""
    file = tmp_path / "out/corpus.tgz"
    file.parent.mkdir()
    whole, checksum = archive.read_bytes(), digest(archive, "sha256")
    (tmp_path / "out/corpus.tgz.part").write_bytes(whole[:30_000])
    archive.write_bytes(bytes(30_000) + whole[30_000:])
    fetch(archive, file, len(whole), checksum)
    assert file.read_bytes() == whole


def test_fetch_names_what_is_missing(archive, tmp_path):
    file, folder = tmp_path / "out/other.tgz", archive.parent
    refuses(fetch(archive, file, check=False), f"{folder}/other.tgz: download failed", "folder")
    refuses(fetch(archive, file, check=False, FROM=str(folder)), f"{folder}/other.tgz: no such")
    refuses(fetch(archive, file, check=False, FROM="/none"), "/none: no such folder")
    refuses(fetch(archive, file, check=False, EXPECTED="/none"), "EXPECTED=/none: no such file")
    assert not file.exists()


def test_fetch_leaves_the_users_own_file(archive):
    """Also when the folder given is the one that downloads go to."""
    archive.write_bytes(b"cut")
    result = fetch(archive, archive, check=False, FROM=str(archive.parent))
    refuses(result, archive, "damaged", "replace it")
    assert archive.read_bytes() == b"cut"


def test_expected_replaces_what_a_recipe_knows(archive, tmp_path):
    expected = tmp_path / "expected"
    expected.write_text(f"corpus.tgz {archive.stat().st_size} {digest(archive, 'md5')}\n")
    fetch(archive, tmp_path / "out/corpus.tgz", 1, "0" * 64, EXPECTED=str(expected))
    expected.write_text("corpus.tgz 7\n")
    result = fetch(archive, tmp_path / "new/corpus.tgz", check=False, EXPECTED=str(expected))
    refuses(result, "bytes, expected 7")


def test_damaged_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("fin.txt", "Go.\tMene.\n" * 20)
    fetch(tmp_path / "a.zip", tmp_path / "out/a.zip")
    damaged = (tmp_path / "a.zip").read_bytes().replace(b"Mene", b"Tule", 1)
    (tmp_path / "a.zip").write_bytes(damaged)
    refuses(fetch(tmp_path / "a.zip", tmp_path / "new/a.zip", check=False), "a.zip: damaged")


def test_texts_are_checked(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("1\n2\n3\n")
    b.write_text("1\n2\n")
    shared('check_text t "$1" 3 "$2"', a, digest(a, "sha256"))
    refuses(shared('check_text t "$1" 4', a, check=False), "t: 3 lines, expected 4")
    refuses(shared('check_text t "$1" 2 "$2"', b, digest(a, "md5"), check=False), "t: checksum")
    shared('check_pair t "$1" "$1" 3', a)
    refuses(shared('check_pair t "$1" "$2" 1', a, b, check=False), a, b, "number of lines")
    refuses(shared('check_pair t "$1" "$1" 4', a, check=False), "t: 3 pairs", "at least 4")


# Cleaning


def clean(folder: Path, *args, check: bool = True) -> subprocess.CompletedProcess:
    command = ("-c", 'python3 "$@"', "-", REPO / "scripts/text/clean.py")
    return bash(*command, folder / "in", folder / "out", "a", "b", *args, check=check)


def random_pairs(draw: random.Random) -> list[tuple[str, str]]:
    def side(length):
        words = [draw.choice(["Ää", "b", "C" * 1000, "d" * 1001, "&#124;"]) for _ in range(length)]
        return " ".join(word if len(word) < 9 or draw.random() < 0.05 else "E" for word in words)

    lengths = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 14, 15, 16]
    return [(side(draw.choice(lengths)), side(draw.choice(lengths))) for _ in range(3000)]


@pytest.mark.parametrize(("longest", "ratio"), [(15, 1.5), (9, 9.0)])
def test_cleaning_and_holding_out(longest, ratio, tmp_path):
    pairs = random_pairs(random.Random(longest))
    for lang, side in (("a", 0), ("b", 1)):
        (tmp_path / f"in.{lang}").write_text("".join(pair[side] + "\n" for pair in pairs))
    options = ("--max-length", longest, "--ratio", ratio, "--lowercase")
    clean(tmp_path, *options, "--valid", tmp_path / "valid", "--valid-every", 23)

    kept = []
    for a, b in pairs:
        na, nb = len(a.split()), len(b.split())
        if na < 1 or nb < 1 or na > longest or nb > longest:
            continue
        if na / nb > ratio or nb / na > ratio or "d" * 1001 in a + " " + b:
            continue
        kept.append((a.lower(), b.lower()))
    assert 300 < len(kept) < 2500
    valid = [pair for number, pair in enumerate(kept, start=1) if number % 23 == 0]
    train = [pair for number, pair in enumerate(kept, start=1) if number % 23 != 0]
    for name, expected in (("out", train), ("valid", valid)):
        sides = [(tmp_path / f"{name}.{lang}").read_text().splitlines() for lang in "ab"]
        assert list(zip(*sides)) == expected
    assert not list(tmp_path.glob("*.tmp"))


def test_a_last_line_without_its_end_counts(tmp_path):
    (tmp_path / "a").write_text("1\n2\n3")
    (tmp_path / "b").write_text("1\n2\n3\n")
    shared('check_pair t "$1" "$2" 3; check_text t "$1" 3', tmp_path / "a", tmp_path / "b")


def test_cleaning_refuses_sides_of_different_length(tmp_path):
    (tmp_path / "in.a").write_text("x\ny\n")
    (tmp_path / "in.b").write_text("x\n")
    refuses(clean(tmp_path, check=False), "in.a", "in.b", "number of lines")
    assert not (tmp_path / "out.a").exists()


# Tokenising


def tokenise(text: str, *args) -> str:
    command = [BIN / "python", REPO / "scripts/text/tokenise.py", *map(str, args)]
    result = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    return result.stdout.decode()


@pytest.mark.slow
@pytest.mark.parametrize("dashes", [True, False])
def test_tokens_are_those_of_fairseq_interactive(dashes):
    """Special characters escaped, whatever the version of click; lines end at line feeds only."""
    lines = ['It\'s a well-known "fact" & <b>, [x] | 3-4.', "", "a\u2028b\u0085c d.", "z.B. Haus"]
    options = () if dashes else ("--no-dash-splits",)
    cfg = MosesTokenizerConfig(source_lang="de", moses_no_dash_splits=not dashes)
    expected = [MosesTokenizer(cfg).encode(line) for line in lines]
    first = expected[0]
    assert "It &apos;" in first and ("well @-@ known" in first) == dashes and "&quot;" in first
    assert tokenise("\n".join(lines), "de", *options).split("\n") == [*expected, ""]
    many = [f"{line} {i}" for i, line in enumerate(lines * 700)]
    found = tokenise("".join(f"{line}\n" for line in many), "de", "--processes", 2, *options)
    assert found.split("\n")[:-1] == [MosesTokenizer(cfg).encode(line) for line in many]


# Broken bytes


@pytest.mark.parametrize("name", ["clean", "dictionary", "raw_text", "shorten"])
def test_a_broken_byte_in_a_file_is_named(name, tmp_path):
    for lang in ("a", "b", "text", "answer"):
        (tmp_path / f"in.{lang}").write_bytes(b"one\ntwo\nthree \xe9t\xe9\n")
    out, file = tmp_path / "out", tmp_path / "in.a"
    words = {
        "clean": (tmp_path / "in", out, "a", "b"),
        "dictionary": (out, file),
        "raw_text": (out, file),
        "shorten": (tmp_path / "in", 5),
    }
    file = tmp_path / "in.text" if name == "shorten" else file
    command = ("-c", 'python3 "$@"', "-", REPO / f"scripts/text/{name}.py", *words[name])
    result = bash(*command, check=False)
    refuses(result, f"{name}.py: {file}, line 3: not UTF-8 at byte 6; convert it")
    assert not out.is_file() and (tmp_path / "in.text").read_bytes().startswith(b"one")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_broken_byte_in_the_input_of_the_tokeniser(processes, tmp_path):
    (tmp_path / "in").write_bytes(b"one\n" * 1500 + b"\xff\n")
    script = REPO / "scripts/text/tokenise.py"
    code = f'python3 "$1" en --processes {processes} <"$2" >"$3"'
    result = bash("-c", code, "-", script, tmp_path / "in", tmp_path / "out", check=False)
    refuses(result, "tokenise.py: stdin, line 1501: not UTF-8 at byte 0; convert it")


# Preprocessing


@pytest.mark.slow
def test_preprocess_makes_bpe_and_binary_data(tmp_path):
    write_text(tmp_path / "raw", {"train": 60, "valid": 5, "test": 5})

    def preprocess(merges: int, out: str, **options) -> subprocess.CompletedProcess:
        languages = ("de", "en", merges)
        return sh(PREPROCESS, tmp_path / "raw", *languages, tmp_path / out, **options)

    preprocess(30, "out")
    assert (tmp_path / "out/bin/dict.en.txt").exists()
    assert len((tmp_path / "out/bpe.codes").read_text().splitlines()) > 10
    assert preprocess(30, "out").stdout.count("done before") == 3
    again = preprocess(40, "out", check=False)
    refuses(again, tmp_path / "out", "other settings", "another folder")
    (tmp_path / "raw/test.en").write_text("one line\n")
    result = preprocess(30, "x", check=False)
    refuses(result, "differ in their number of lines")


@pytest.mark.slow
def test_one_dictionary_for_both_languages(tmp_path):
    write_text(tmp_path / "raw", {"train": 60, "valid": 5, "test": 5})
    given = (tmp_path / "raw", "de", "en", 30)
    words = {}
    for folder, options in (("apart", {}), ("joined", {"JOINED_DICTIONARY": "1"})):
        sh(PREPROCESS, *given, tmp_path / folder, **options)
        files = [tmp_path / folder / f"bin/dict.{lang}.txt" for lang in ("de", "en")]
        words[folder] = [{line.split()[0] for line in f.read_text().splitlines()} for f in files]
        assert (files[0].read_bytes() == files[1].read_bytes()) == (folder == "joined")
    real = {word for word in words["joined"][0] if not word.startswith("madeupword")}
    assert real == {w for side in words["apart"] for w in side if not w.startswith("madeupword")}
    again = sh(PREPROCESS, *given, tmp_path / "joined", check=False)
    refuses(again, tmp_path / "joined", "other settings", "--joined-dictionary")


def test_sets_that_are_tokens_already_stay_as_they_are(tmp_path):
    write_text(tmp_path / "raw", {"train": 30, "valid": 3, "test": 3})
    for split in ("train", "test"):
        file = tmp_path / f"raw/{split}.en"
        file.write_text(file.read_text().replace("b1 ", "b1-b2 &apos;s "))
    env = {"STAGES": "tokenise", "TOKENISED": "train valid"}
    sh(PREPROCESS, tmp_path / "raw", "de", "en", 30, tmp_path / "out", **env)
    for name in ("train.en", "train.de", "valid.en"):
        same = (tmp_path / "raw" / name).read_text(), (tmp_path / "out/tok" / name).read_text()
        assert same[0] == same[1]
    assert "b1 @-@ b2 &amp; apos" in (tmp_path / "out/tok/test.en").read_text()
    env["TOKENISED"] = "train"
    again = sh(PREPROCESS, tmp_path / "raw", "de", "en", 30, tmp_path / "out", check=False, **env)
    refuses(again, "other settings", "tokenised: train")


def test_half_a_dictionary_of_an_imported_model_does_not_count(tmp_path):
    """The disk is full: what copies dict.txt writes its beginning and fails."""
    (tmp_path / "raw").mkdir()
    for split in ("train", "valid", "test"):
        for kind in ("text", "answer"):
            (tmp_path / f"raw/{split}.{kind}").write_text("a b\n")
    (tmp_path / "bert").mkdir()
    for name in ("dict.txt", "tokenizer.json"):
        (tmp_path / "bert" / name).write_text("a 1\nb 1\n")
    stubs = tmp_path / "stubs"
    write_command(stubs / "cat", '[[ $1 != *bert/dict.txt ]] || { head -c 3 "$1"; exit 1; }')
    half = '[[ "$*" != *bert/dict.txt* ]] || { echo a >"${@: -1}/dict.txt"; exit 1; }'
    write_command(stubs / "cp", f'{half}; /bin/cp "$@"')
    given = ("scripts/text/preprocess_task.sh", tmp_path / "raw", 30, tmp_path / "out")
    settings = {"BERT": str(tmp_path / "bert"), "STAGES": "dictionary"}
    path = {"PATH": f"{stubs}:{BIN}:{os.environ['PATH']}"}
    assert sh(*given, check=False, **settings, **path).returncode == 1
    assert not (tmp_path / "out/dict.txt").exists()
    sh(*given, **settings)
    assert (tmp_path / "out/dict.txt").read_text() == "a 1\nb 1\n"
    assert (tmp_path / "out/tokenizer.json").exists()
