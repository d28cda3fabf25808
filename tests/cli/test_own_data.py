"""examples/own_data: from a person's two text files to training data, and what is refused."""

import random
import shlex
from pathlib import Path

import pytest

from tests.cli.processes import REPO, run
from tests.cli.shell import refuses, sh

PREPARE = "examples/own_data/prepare.sh"


def prepare(folder: Path, tmp_path: Path, *languages: str, check: bool = True, **env):
    languages = languages or ("xx", "yy")
    env = {"OUT": str(tmp_path / "out"), "STAGES": "raw", **env}
    return sh(PREPARE, folder, *languages, check=check, **env)


def read(folder: Path, split: str) -> list[tuple[str, str]]:
    sides = [(folder / f"{split}.{lang}").read_text().split("\n")[:-1] for lang in ("xx", "yy")]
    assert len(sides[0]) == len(sides[1])
    return list(zip(*sides))


def write(folder: Path, split: str, pairs: list[tuple[str, str]]) -> None:
    folder.mkdir(exist_ok=True)
    for side, lang in enumerate(("xx", "yy")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"{split}.{lang}").write_bytes(text.encode())


def letters(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


@pytest.fixture
def texts(tmp_path) -> Path:
    """300 pairs of 200 source sentences, some of them twins in case and full stop."""
    draw = random.Random(1)
    pairs = []
    for number in draw.choices(range(200), k=300):
        source = draw.choice(["Wort {}", "wort  {}.", "WORT {}!"]).format(number)
        pairs.append((source, f"word {number} number {len(pairs)}"))
    write(tmp_path / "texts", "train", pairs)
    return tmp_path / "texts"


def test_splits_off_what_is_missing(texts, tmp_path):
    result = prepare(texts, tmp_path)
    given = [(" ".join(x.split()), " ".join(y.split())) for x, y in read(texts, "train")]
    sources = {letters(x) for x, _ in given}
    sets = {split: read(tmp_path / "out/raw", split) for split in ("train", "valid", "test")}
    keys = {split: [letters(x) for x, _ in pairs] for split, pairs in sets.items()}
    for split in ("valid", "test"):
        assert len(sets[split]) == len(set(keys[split])) == len(sources) // 10
        for pair in sets[split]:  # the first one with such a source
            assert pair == next(p for p in given if letters(p[0]) == letters(pair[0]))
    assert not set(keys["train"]) & set(keys["valid"] + keys["test"])
    assert not set(keys["valid"]) & set(keys["test"])
    held_out = {*keys["valid"], *keys["test"]}
    assert sets["train"] == [pair for pair in given if letters(pair[0]) not in held_out]
    assert "are in train, too" not in result.stdout


def test_keeps_sets_that_are_given(texts, tmp_path):
    first = read(texts, "train")[0]
    own = [("Neu 1", "new 1"), first, ("", "empty"), ("Neu 2", "new 2")]
    write(texts, "test", own)
    result = prepare(texts, tmp_path, HELD_OUT="7")
    out = tmp_path / "out/raw"
    tidy = " ".join(first[0].split())
    assert read(out, "test") == [own[0], (tidy, first[1]), own[3]]
    assert len(read(out, "valid")) == 7
    assert "test: 4 pairs, 1 left out" in result.stdout
    assert letters(first[0]) in {letters(source) for source, _ in read(out, "train")}
    assert "test: 3 pairs; 1 of its sources are in train, too" in result.stdout


def test_line_ends_byte_order_mark_and_long_sentences(tmp_path):
    folder = tmp_path / "texts"
    pairs = [(f"a{n}\u2028b\u00a0 c\r", f"x{n}") for n in range(30)] + [("w " * 9, "long")]
    write(folder, "train", pairs)
    path = folder / "train.xx"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().removesuffix(b"\n"))
    prepare(folder, tmp_path, MAX_WORDS="8")
    sets = [
        pair for split in ("train", "valid", "test") for pair in read(tmp_path / "out/raw", split)
    ]
    assert sorted(sets) == sorted((f"a{n} b c", f"x{n}") for n in range(30))


def test_wrong_inputs(texts, tmp_path):
    def check(*named, languages=("xx", "yy"), folder=texts, **env):
        refuses(prepare(folder, tmp_path, *languages, check=False, **env), *named)
        assert not (tmp_path / "out/raw").exists()

    check("none: no such folder", folder=tmp_path / "none")
    check("train.zz: no such file", languages=("xx", "zz"))
    check("zz/top: give a language's code", languages=("xx", "zz/top"))
    check("xx xx: give two languages", languages=("xx", "xx"))
    check("usage: prepare.sh FOLDER SRC TGT", languages=("xx",))
    good = (texts / "train.yy").read_bytes()
    (texts / "train.yy").write_bytes(good + b"one more\n")
    check("train.xx has 300 lines", "train.yy has 301", "line n of one has to translate")
    (texts / "train.yy").write_bytes(b"good\ncaf\xe9\n" + good)
    check("train.yy: line 2 is not UTF-8", "save the file as UTF-8")
    for nothing in (b"", b"\n \n"):
        (texts / "train.yy").write_bytes(nothing)
        check("train.yy: empty; give a text")
    (texts / "train.yy").write_bytes(good)
    (texts / "valid.xx").write_text("nur eine Seite\n")
    check("valid.yy: no such file")
    (texts / "valid.xx").unlink()
    check("no usable pair", MAX_WORDS="1")
    write(texts, "train", read(texts, "train")[:15])
    check("different sentences, too few to split valid and test off", "files of your own")


def test_changed_texts_are_not_taken_for_the_old_ones(texts, tmp_path):
    prepare(texts, tmp_path)
    assert "raw: done before" in prepare(texts, tmp_path).stdout
    changed = f"{tmp_path}/out was made from other texts or settings"
    refuses(prepare(texts, tmp_path, check=False, HELD_OUT="5"), changed, "OUT=")
    refuses(prepare(texts, tmp_path, "yy", "xx", check=False), changed)
    write(texts, "train", read(texts, "train")[1:])
    refuses(prepare(texts, tmp_path, check=False), changed)


@pytest.mark.slow
def test_from_texts_to_binary_data(texts, tmp_path):
    prepare(texts, tmp_path, STAGES="", BPE_MERGES="30")
    for split in ("train", "valid", "test"):
        assert (tmp_path / f"out/bin/{split}.xx-yy.yy.bin").stat().st_size > 0


def test_dry_run_writes_nothing(texts, tmp_path):
    out = prepare(texts, tmp_path, STAGES="", DRY_RUN="1").stdout
    for command in ("split.py", "tokenise.py", "learn-bpe -s 8000", "fairseq-preprocess"):
        assert command in out
    assert not (tmp_path / "out").exists()


def shown_command() -> list[str]:
    """The words of the command that the guide shows for training."""
    text = (REPO / "docs/howto/own_text.md").read_text().replace("\\\n", " ")
    (line,) = [line for line in text.splitlines() if line.startswith("pet-fairseq recipe ")]
    return shlex.split(line)


def trainings(output: str) -> list[str]:
    """The commands in a dry run's output that train, with paths as seen from the project."""
    whole = output.replace("\\\n", "")  # lines that go on
    lines = [" ".join(line.split()) for line in whole.replace(f"{REPO}/", "").splitlines()]
    return [line for line in lines if line.startswith(("fairseq-train ", "pet-fairseq train"))]


@pytest.mark.slow
def test_the_command_of_the_guide_and_run_sh_train_teacher_and_student():
    command = shown_command()
    lines = trainings(run(*command, "--dry-run", cwd=REPO).output)
    assert ["--teacher-path" in line for line in lines] == [False, True]
    for line in lines:
        assert "--source-lang de --target-lang en" in line
    options = command[command.index("own_data") + 1 :]
    assert trainings(sh("examples/own_data/run.sh", *options, "--dry-run").stdout) == lines
