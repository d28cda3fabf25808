"""examples/multilingual, from raw text of three languages to students."""

import json
import random
import re
from pathlib import Path

import pytest
import sacrebleu

from tests.cli.processes import REPO, run
from tests.cli.shell import refuses, sh

EXAMPLE = "examples/multilingual"
PAIRS = {"multi30k": ("de", "en"), "tatoeba": ("en", "fi")}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[Path]:
    """Data folders of the two examples, with words that differ in their first letter."""
    draw, made = random.Random(1), []
    for name, languages in PAIRS.items():
        folder = tmp_path_factory.mktemp("data") / name
        (folder / "raw").mkdir(parents=True)
        for split, size in (("train", 300), ("valid", 20), ("test", 10)):
            texts = [[draw.choice("aeiou") for _ in range(draw.randint(2, 6))] for _ in range(size)]
            for language in languages:
                lines = "".join(" ".join(language + x for x in text) + "\n" for text in texts)
                (folder / f"raw/{split}.{language}").write_text(lines)
        made.append(folder)
    return made


@pytest.fixture(scope="module")
def data(folders, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("multilingual") / "data"
    sh(f"{EXAMPLE}/prepare.sh", *folders, OUT=str(out), PIECES="24")
    return out


def test_prepared(data, folders):
    """One dictionary of the model's pieces for all languages, and text that can be put together."""
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_file=str(data / "bin/spm.model"))
    words = [line.split()[0] for line in (data / "bin/dict.fi.txt").read_text().splitlines()]
    kept = [word for word in words if not word.startswith("madeupword")]
    assert kept == [model.id_to_piece(number) for number in range(3, len(model))]
    for language in ("de", "en"):
        assert (data / f"bin/dict.{language}.txt").read_text() == (
            data / "bin/dict.fi.txt"
        ).read_text()
    pieces = (data / "pieces/test.en-fi.fi").read_text().splitlines()
    raw = (folders[1] / "raw/test.fi").read_text().splitlines()
    assert [model.decode(line.split()) for line in pieces] == raw


def test_other_settings_and_missing_text_are_refused(data, folders, tmp_path):
    script = f"{EXAMPLE}/prepare.sh"
    refuses(sh(script, *folders, check=False, OUT=str(data), PIECES="25"), "with other settings")
    missing = sh(script, folders[0], tmp_path, check=False, OUT=str(tmp_path / "out"))
    refuses(missing, f"{tmp_path}/raw/train.en: no such file; run that example's prepare.sh first")


def test_every_row_on_paper(data, tmp_path):
    shown = sh(
        *(f"{EXAMPLE}/run.sh", "teacher", "bilingual", "equal", "students"),
        **{"DATA": str(data), "RUNS": str(tmp_path), "DRY_RUN": "1"},
    ).stdout
    students = [line for line in shown.splitlines() if "compress" in line]
    assert len(students) == 39
    assert sum("--student-form marian" in line for line in students) == 3
    assert sum("ctranslate2 --text" in line for line in students) == 3
    assert sum("--vocabulary" in line and "teacher/ctranslate2" in line for line in students) == 6
    assert sum("--source-lang en" in line for line in students) == 18
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("broken", [False, True])
def test_a_translation_that_fails_chooses_no_checkpoint(broken, tmp_path):
    (tmp_path / "teacher/en-de").mkdir(parents=True)
    (tmp_path / "bilingual").mkdir()
    for updates in (2, 4):
        (tmp_path / f"bilingual/checkpoint_1_{updates}.pt").touch()
    works = '[[ "$2" != *_4.pt ]]' if broken else "true"
    stubs = {"pet-fairseq": works, "sacrebleu": "echo 20"}
    functions = {f"BASH_FUNC_{name}%%": f"() {{ {code}; }}" for name, code in stubs.items()}
    settings = {"DATA": str(tmp_path), "RUNS": str(tmp_path), **functions}
    result = sh(f"{EXAMPLE}/run.sh", "equal", check=False, **settings)
    assert (result.returncode == 0) != broken
    assert (tmp_path / "bilingual/checkpoint_equal.pt").is_symlink() != broken


def test_table(tmp_path):
    """Differences are of the same seeds: 1 and 2, of which one BLEU is 1 and one 2 higher."""
    bleu = {"pairs": [30.0, 31.0, 35.0], "text": [31.0, 33.0]}
    for row, values in bleu.items():
        for seed, value in enumerate(values, 1):
            folder = tmp_path / f"{row}.seed{seed}"
            folder.mkdir()
            figures = {"bytes": 2_000_000, "bleu": value, "chrf": 50.0}
            report = {"engine": "e", "student": {"engines": {"e": figures}}}
            (folder / "report.json").write_text(json.dumps(report))
    output = run("python", REPO / EXAMPLE / "table.py", tmp_path).output
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines()[2:]]
    half = 12.706 * 0.5  # of Student's t for two values: t(1) s / sqrt(2), s is sqrt(0.5)
    assert rows == [
        ["pairs", "3", "2.00", "32.00 ± 2.65", "50.00 ± 0.00", "", ""],
        [
            *("text", "2", "2.00", "32.00 ± 1.41", "50.00 ± 0.00"),
            f"+1.50 [{1.5 - half:+.2f}, {1.5 + half:+.2f}]",
            "+0.00 [+0.00, +0.00]",
        ],
    ]
    for row, seeds in bleu.items():
        for seed in range(1, len(seeds) + 1):
            folder = tmp_path / f"{row}.seed{seed}/translations"
            folder.mkdir()
            said = "a b c d e f" if row == "text" else "a b c d x f"
            for name, line in (("reference", "a b c d e f"), ("student", said)):
                (folder / f"{name}.txt").write_text(f"{line}\n" * 3)
    words = (tmp_path, "--sentences")
    last = run("python", REPO / EXAMPLE / "table.py", *words).output.splitlines()[-1]
    worse = sacrebleu.corpus_bleu(["a b c d x f"] * 3, [["a b c d e f"] * 3]).score
    gain = f"{100 - worse:+.2f}"  # of every sample, as all sentences are alike
    assert last.split("|")[6].strip() == f"{gain} [{gain}, {gain}]"
    missing = run("python", REPO / EXAMPLE / "table.py", tmp_path, "--against", "more", check=False)
    assert missing.status == 1 and "no report of the row more" in missing.output


@pytest.mark.slow
def test_to_students(data, tmp_path):
    env = {"DATA": str(data), "RUNS": str(tmp_path), "SEEDS": "1", "UPDATES": "5"}
    env |= {"TEACHER_UPDATES": "4", "BILINGUAL_UPDATES": "4", "EVERY": "2"}
    shown = sh(
        *(f"{EXAMPLE}/run.sh", "teacher", "bilingual", "equal", "students"),
        **{**env, "ROWS": "pairs bilingual"},
    ).stdout
    assert "nearest: " in shown
    for row in ("pairs", "bilingual"):
        assert "BLEU" in (tmp_path / f"students/{row}.seed1/report.md").read_text()
    # of 24 pieces; of a few sentences, or none, as this teacher's translations may all be dropped
    reasons = {"n1000": "--vocabulary 1000", "new2000": "--vocabulary 2000|--text: 0 pairs"}
    for row, reason in reasons.items():
        refused = sh(f"{EXAMPLE}/run.sh", "students", check=False, **env, ROWS=row)
        assert re.search(reason, refused.stderr)
        assert refused.returncode == 1
    assert (tmp_path / "teacher/ctranslate2/model.bin").exists()
