"""The recipes' translation data: archives, splits and lists; offline."""

import gzip
import hashlib
import io
import os
import random
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.cli.processes import BIN
from tests.cli.shell import refuses, sh

RECIPES = [
    *("iwslt14_de_en", "iwslt14_en_de", "multi30k", "tatoeba_en_fi", "wmt17_en_fi", "wmt17_en_lv")
]


@pytest.mark.paper
@pytest.mark.parametrize("recipe", RECIPES)
def test_dry_run_prints_commands_and_writes_nothing(recipe, tmp_path):
    env = {"OUT": str(tmp_path / "out"), "DOWNLOADS": str(tmp_path / "new"), "DRY_RUN": "1"}
    out = sh(f"examples/{recipe}/prepare.sh", **env).stdout
    commands = [line.split()[1] for line in out.splitlines() if line.startswith("+ ")]
    needed = {"curl", "subword-nmt", "fairseq-preprocess"}
    assert needed <= set(commands)
    dashes = [line for line in out.splitlines() if "tokenise.py" in line]
    assert dashes and all(("--no-dash-splits" in line) == ("iwslt" in recipe) for line in dashes)
    path = f"{BIN}:{os.environ['PATH']}"
    assert all(shutil.which(command, path=path) for command in commands)  # no shell functions
    assert "learn-bpe -s" in out and "apply-bpe -c" in out and "https://" in out
    assert not list(tmp_path.iterdir())
    only = sh(f"examples/{recipe}/prepare.sh", **env, STAGES="binarise").stdout
    assert "fairseq-preprocess" in only and "curl" not in only and "tokenise.py" not in only


def gz(folder: Path, name: str, text: str) -> None:
    (folder / name).write_bytes(gzip.compress(text.encode()))


def tar(path: Path, members: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as file:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            file.addfile(info, io.BytesIO(text.encode()))


def sentences(count: int, word: str) -> list[str]:
    draw = random.Random(count)
    return [" ".join(f"{word}{draw.randint(0, 20)}" for _ in range(4)) + "." for _ in range(count)]


def sgm(lines: list[str]) -> str:
    segments = "".join(f'<seg id="{n}"> {line} </seg>\r\n' for n, line in enumerate(lines, 1))
    return f'<refset setid="x"><doc docid="1">\n<p>\n{segments}</p>\n</doc></refset>\n'


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_multi30k_checks_its_folder(tmp_path):
    out = {"OUT": str(tmp_path / "out")}
    recipe = "examples/multi30k/prepare.sh"
    refuses(sh(recipe, tmp_path / "none", check=False, **out), "no such folder")
    expected = ""
    for split in ("train", "val", "test_2016_flickr"):
        for lang in ("de", "en"):
            gz(tmp_path, f"{split}.{lang}.gz", "ein kurzer Satz\n" * 10)
            expected += f"{split}.{lang} 10\n"
    (tmp_path / "expected").write_text(expected)
    env = {**out, "EXPECTED": str(tmp_path / "expected")}
    refuses(sh(recipe, tmp_path, check=False, **out), "train.de: 10 lines, expected 29000")
    gz(tmp_path, "train.de.gz", "another text\n" * 29000)
    refuses(sh(recipe, tmp_path, check=False, **out), "train.de: checksum of the text")
    (tmp_path / "train.de.gz").write_bytes(b"not gzip")
    refuses(sh(recipe, tmp_path, check=False, **env), f"{tmp_path}/train.de.gz: damaged")
    assert not (tmp_path / "out/raw").exists()
    gz(tmp_path, "train.de.gz", "ein kurzer Satz\n" * 10)
    sh(recipe, tmp_path, **env, STAGES="raw")
    assert lines(tmp_path / "out/raw/valid.en") == ["ein kurzer Satz"] * 10


IWSLT_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


@pytest.fixture
def iwslt(tmp_path) -> tuple[Path, dict]:
    """A tiny archive of IWSLT'14's layout and the environment to prepare it."""
    members = {}
    for lang in ("de", "en"):
        text = "<url>http://x</url>\n<talkid>1</talkid>\n<keywords>a, b</keywords>\n"
        text += f"<title>Titel {lang}</title>\n<description>Kurz {lang}</description>\n"
        long = "lang " * 9 if lang == "de" else "long "  # dropped for its ratio
        members[f"de-en/train.tags.de-en.{lang}"] = (
            text + f"{long}\n" + "\n".join(sentences(90, "Wort" if lang == "de" else "Word")) + "\n"
        )
        for name in IWSLT_SETS:
            members[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = sgm(
                [f"It\u2019s well-known {name} {lang}", ""]
            )
    archive = tmp_path / "public/de-en.tgz"
    tar(archive, members)
    counts = {"train.de": 93, "train.en": 93, "test.de": 10, "test.en": 10}
    expected = "".join(f"{name} {count}\n" for name, count in counts.items())
    size, digest = archive.stat().st_size, hashlib.sha256(archive.read_bytes()).hexdigest()
    (tmp_path / "expected").write_text(expected + f"de-en.tgz {size} {digest}\n")
    return archive, {"EXPECTED": str(tmp_path / "expected"), "OUT": str(tmp_path / "out")}


@pytest.mark.slow
def test_iwslt14_from_archive_to_binary_data(iwslt, tmp_path):
    archive, env = iwslt
    sh("examples/iwslt14_de_en/prepare.sh", archive.parent, **env, BPE_MERGES="20")
    out = tmp_path / "out"
    raw = lines(out / "raw/train.en")
    assert raw[:3] == ["Titel en", "Kurz en", "long "]
    assert [text.rsplit(" ", 1)[0] for text in lines(out / "raw/test.de")[::2]] == [
        f"It's well-known {name}" for name in IWSLT_SETS
    ]
    assert lines(out / "clean/test.en")[::2] == [  # tokenizer.perl escapes, and keeps hyphens
        f"it &apos;s well-known {name.lower()} en" for name in IWSLT_SETS
    ]
    assert lines(out / "raw/test.de")[1::2] == [""] * 5
    tokens = [line.lower() for line in lines(out / "tok/train.en")]
    kept = tokens[:2] + tokens[3:]  # without the long one
    assert lines(out / "clean/valid.en") == kept[22::23]
    assert lines(out / "clean/train.en") == [t for n, t in enumerate(kept, 1) if n % 23]
    assert lines(out / "lower/test.de") == [text.lower() for text in lines(out / "raw/test.de")]
    assert (out / "bin/test.de-en.de.bin").exists() and not (out / "unpacked").exists()


def test_iwslt14_english_german_shares_recipe_and_download(iwslt, tmp_path):
    archive, env = iwslt
    env = {**env, "MIRROR": f"file://{archive.parent}", "DOWNLOADS": str(tmp_path / "downloads")}
    stages = {"STAGES": "raw"}
    sh("examples/iwslt14_en_de/prepare.sh", **env, **stages)
    archive.unlink()
    sh("examples/iwslt14_de_en/prepare.sh", **{**env, "OUT": str(tmp_path / "other")}, **stages)
    for name in ("raw/train.de", "raw/test.en"):
        assert lines(tmp_path / "out" / name) == lines(tmp_path / "other" / name)
    assert (tmp_path / "out/settings").read_text().startswith("en de 10000 175")


def test_iwslt14_refuses_other_archives(iwslt, tmp_path):
    archive, env = iwslt
    recipe = "examples/iwslt14_de_en/prepare.sh"
    result = sh(recipe, archive.parent, check=False, OUT=env["OUT"])
    refuses(result, archive, "bytes, expected 19982877")
    tar(archive, {"de-en/README": "no texts"})
    (tmp_path / "expected").write_text("de-en.tgz -\n")
    refuses(sh(recipe, archive.parent, check=False, **env), "de-en.tgz: cannot unpack")
    assert not (tmp_path / "out/raw").exists()


def wmt(folder: Path, other: str, valid: str, corpora: dict[str, str]) -> dict:
    """Tiny archives of WMT'17's layout; returns the environment to prepare them."""
    expected = f"valid.en 4\nvalid.{other} 4\ntest.en 6\ntest.{other} 6\n"
    for name, corpus in corpora.items():
        archive, prefix = corpus.split()
        text = {lang: "\n".join(sentences(30, name + lang)) + "\n" for lang in ("en", other)}
        tar(folder / archive, {f"{prefix}.{lang}": text[lang] for lang in text})
        expected += f"{name} 30\n"
    for archive, prefix, count in (("dev", valid, 4), ("test", "newstest2017", 6)):
        members = {
            f"{archive}/{prefix}-en{other}-{side}.{lang}.sgm": sgm(sentences(count, lang))
            for side, lang in (("src", "en"), ("ref", other))
        }
        tar(folder / f"{archive}.tgz", members)
    expected += "".join(f"{path.name} -\n" for path in folder.glob("*.tgz"))
    (folder / "expected").write_text(expected)
    environment = {"EXPECTED": str(folder / "expected"), "OUT": str(folder.parent / "out")}
    return environment | {"TEXT": "raw"}


FINNISH = {
    "europarl": "training-parallel-ep-v8.tgz training/europarl-v8.fi-en",
    "rapid": "rapid2016.tgz rapid2016.en-fi",
}
LATVIAN = {
    "europarl": "training-parallel-ep-v8.tgz training/europarl-v8.lv-en",
    "rapid": "rapid2016.tgz rapid2016.en-lv",
    "leta": "leta.v1.tgz LETA-lv-en/leta",
    "dcep": "dcep.lv-en.v1.tgz dcep.en-lv/dcep",
    "books": "books.lv-en.v1.tgz farewell/farewell",
}


def preprocessed(folder: Path, other: str, valid: str) -> dict:
    """Tiny files of the layout of the task's preprocessed text; the environment to prepare them."""
    folder.mkdir()
    texts = {lang: sentences(60, f"It &apos;s Well-Known @-@ {lang}") for lang in ("en", other)}
    texts["en"][7] = "long " * 9  # dropped for its ratio
    for lang, text in texts.items():
        gz(folder, f"corpus.tc.{lang}.gz", "\n".join(text) + "\n")
    sets = {f"{valid}.tc.{lang}": f"Valid &quot; {lang}\n" * 4 for lang in ("en", other)}
    tar(folder / "dev.tgz", sets | {f"{valid}-en{other}-src.en.sgm": "raw text"})
    news = {
        f"test/newstest2017-en{other}-{side}.{lang}.sgm": sgm([f"It's well-known {lang}"] * 6)
        for side, lang in (("src", "en"), ("ref", other))
    }
    tar(folder / "test.tgz", news)
    expected = f"valid.en 4\nvalid.{other} 4\ntest.en 6\ntest.{other} 6\ncorpus 60\ntest.tgz -\n"
    (folder / "expected").write_text(expected)
    return {"EXPECTED": str(folder / "expected"), "OUT": str(folder.parent / "out")}


def test_wmt17_from_the_preprocessed_text(tmp_path):
    folder = tmp_path / "public"
    env = preprocessed(folder, "fi", "newstest2016") | {"DOWNLOADS": str(tmp_path / "downloads")}
    stages = {"STAGES": "raw tokenise clean"}
    sh("examples/wmt17_en_fi/prepare.sh", folder, **env, **stages)
    out = tmp_path / "out"
    tokens = [line.lower() for line in lines(out / "raw/train.fi")]
    assert len(tokens) == 60 and tokens[0].startswith("it &apos;s well-known @-@ fi")
    assert lines(out / "clean/train.fi") == tokens[:7] + tokens[8:]  # escaped once, as they came
    assert lines(out / "clean/valid.en") == ["valid &quot; en"] * 4
    assert lines(out / "clean/test.fi") == ["it &apos; s well @-@ known fi"] * 6
    assert lines(out / "lower/test.fi") == ["it's well-known fi"] * 6
    assert lines(out / "raw/test.en") == ["It's well-known en"] * 6


def test_wmt17_preprocessed_from_its_public_place(tmp_path):
    """The archives of two languages have the same names, but not the same place."""
    public, recipe = tmp_path / "public", "examples/wmt17_en_lv/prepare.sh"
    env = preprocessed(tmp_path / "files", "lv", "newsdev2017")
    env |= {"MIRROR": f"file://{public}", "DOWNLOADS": str(tmp_path / "new"), "STAGES": "raw"}
    shutil.copytree(tmp_path / "files", public / "preprocessed/lv-en")
    (public / "preprocessed/lv-en/test.tgz").rename(public / "test.tgz")
    sh(recipe, **env)
    assert (tmp_path / "new/preprocessed/lv-en/corpus.tc.lv.gz").exists()
    assert (tmp_path / "new/test.tgz").exists()
    assert lines(tmp_path / "out/raw/valid.lv") == ["Valid &quot; lv"] * 4
    dry = sh(recipe, DRY_RUN="1", OUT=str(tmp_path / "x")).stdout
    place = "https://data.statmt.org/wmt17/translation-task/preprocessed/lv-en"
    assert all(f"{place}/{name}" in dry for name in ("corpus.tc.en.gz", "dev.tgz"))
    env["OUT"] = str(tmp_path / "other")
    refuses(
        sh(recipe, check=False, **env | {"TEXT": "both"}), "TEXT=both: give preprocessed or raw"
    )
    expected = Path(env["EXPECTED"])
    expected.write_text(expected.read_text().replace("corpus 60", "corpus 61"))
    refuses(sh(recipe, check=False, **env), "corpus: 60 pairs, expected at least 61")


@pytest.mark.slow
def test_wmt17_finnish_from_archives_to_bpe(tmp_path):
    env = wmt(tmp_path / "public", "fi", "newstest2016", FINNISH)
    env["DOWNLOADS"] = str(tmp_path / "downloads")
    stages = {"STAGES": "raw tokenise clean segment", "BPE_MERGES": "20"}
    sh("examples/wmt17_en_fi/prepare.sh", tmp_path / "public", **env, **stages)
    out = tmp_path / "out"
    expected = sentences(30, "europarlfi") + sentences(30, "rapidfi")
    assert lines(out / "raw/train.fi") == expected
    assert lines(out / "raw/valid.en") == sentences(4, "en")
    assert lines(out / "raw/test.fi") == sentences(6, "fi")
    sides = [lines(out / f"bpe/uncleaned.{lang}") for lang in ("en", "fi")]
    lengths = [(len(a.split()), len(b.split())) for a, b in zip(*sides)]
    kept = [i for i, (a, b) in enumerate(lengths) if a <= 1.5 * b and b <= 1.5 * a]
    assert lines(out / "bpe/train.fi") == [sides[1][i] for i in kept]


@pytest.mark.slow
def test_wmt17_latvian_texts(tmp_path):
    env = wmt(tmp_path / "public", "lv", "newsdev2017", LATVIAN)
    env |= {"DOWNLOADS": str(tmp_path / "downloads"), "STAGES": "raw"}
    recipe = "examples/wmt17_en_lv/prepare.sh"
    env["MIRROR"] = f"file://{tmp_path}/public"
    refuses(sh(recipe, check=False, **env, CORPORA="leta wiki"), "no 'wiki'", "leta dcep books")
    sh(recipe, **env, CORPORA="leta books")
    texts = lines(tmp_path / "out/raw/train.lv")
    assert texts == sentences(30, "letalv") + sentences(30, "bookslv")
    refuses(sh(recipe, check=False, **env), "other settings (leta books, now europarl rapid leta")
    refuses(sh(recipe, check=False, **env, CORPORA="wiki"), "no 'wiki'")
    env["STAGES"] = "tokenise"
    assert "tokenise" in sh(recipe, **env, CORPORA="books leta").stdout
    env["STAGES"] = "raw"
    shutil.rmtree(tmp_path / "out")
    sh(recipe, **env)
    assert len(lines(tmp_path / "out/raw/train.en")) == 150


@pytest.mark.slow
def test_wmt17_checks_what_it_fetches(tmp_path):
    public = tmp_path / "public"
    env = wmt(public, "lv", "newsdev2017", LATVIAN) | {"DOWNLOADS": str(tmp_path / "downloads")}
    recipe, expected = "examples/wmt17_en_lv/prepare.sh", Path(env.pop("EXPECTED"))
    result = sh(recipe, public, check=False, **env)
    refuses(result, "training-parallel-ep-v8.tgz: checksum", "07b77f254d189a5bfb7b43b7fc489716")
    env["EXPECTED"] = str(expected)
    text = expected.read_text()
    expected.write_text(text.replace("rapid 30", "rapid 31"))
    refuses(sh(recipe, public, check=False, **env), "rapid: 30 pairs, expected at least 31")
    expected.write_text(text.replace("test.lv 6", "test.lv 7"))
    refuses(sh(recipe, public, check=False, **env), "test.lv: 6 lines, expected 7")
    tar(public / "leta.v1.tgz", {"LETA-lv-en/leta.en": "a\n" * 30, "LETA-lv-en/leta.lv": "a\n"})
    refuses(sh(recipe, public, check=False, **env), "leta.en", "leta.lv", "number of lines")
    assert not (tmp_path / "out/raw").exists()


@pytest.fixture
def tatoeba(tmp_path) -> tuple[Path, list[tuple[str, str]]]:
    """A list of pairs like Tatoeba's: several translations, and twins with other punctuation."""
    draw = random.Random(3)
    pairs = []
    for number in range(2000):
        english = f"Sentence {number} is {draw.choice(['long', 'short'])}."
        for variant in {english, english.upper(), english.replace(".", "!")}:
            pairs += [(variant, f"lause {n} {variant}") for n in range(draw.randint(1, 3))]
    pairs.sort(key=lambda pair: len(pair[0]))
    (tmp_path / "expected").write_text("fin.txt 2000\n")
    return tmp_path / "public", pairs


@pytest.mark.slow
def test_tatoeba_is_divided_by_english_sentence(tatoeba, tmp_path):
    public, pairs = tatoeba
    public.mkdir()
    with zipfile.ZipFile(public / "fin-eng.zip", "w") as file:
        file.writestr("_about.txt", "about")
        file.writestr("fin.txt", "".join(f"{en}\t{fi}\tCC-BY 2.0\n" for en, fi in pairs))
    env = {"EXPECTED": str(tmp_path / "expected"), "STAGES": "raw", "OUT": str(tmp_path / "out")}
    recipe = "examples/tatoeba_en_fi/prepare.sh"
    shown = sh(recipe, MIRROR=f"file://{public}", **env).stdout
    assert "not the version" in shown

    raw = tmp_path / "out/raw"
    sets = {
        split: list(zip(lines(raw / f"{split}.en"), lines(raw / f"{split}.fi")))
        for split in ("train", "valid", "test")
    }
    keys = {
        split: {"".join(c for c in en.lower() if c.isalnum()) for en, _ in chosen}
        for split, chosen in sets.items()
    }
    assert not keys["train"] & keys["valid"] | keys["train"] & keys["test"]
    assert not keys["valid"] & keys["test"]
    assert sum(map(len, keys.values())) == 2000
    english = {split: [en for en, _ in chosen] for split, chosen in sets.items()}
    for split in ("valid", "test"):
        assert 20 < len(keys[split]) < 80  # 1 in 45 of 2,000
        assert len(english[split]) == len(set(english[split]))
        first = dict(reversed(pairs))
        assert all(first[en] == fi for en, fi in sets[split])
    held_out = set(english["valid"]) | set(english["test"])
    assert sets["train"] == [pair for pair in pairs if pair[0] not in held_out]

    # the same list gzipped gives the same sets; a cut or a wrong one is refused
    (public / "fin-eng.zip").unlink()
    gz(public, "fin.txt.gz", "".join(f"{en}\t{fi}\n" for en, fi in pairs))
    env["OUT"] = str(tmp_path / "again")
    sh(recipe, public, **env)
    assert lines(tmp_path / "again/raw/test.fi") == lines(raw / "test.fi")


def test_tatoeba_refuses_short_and_wrong_lists(tmp_path):
    recipe = "examples/tatoeba_en_fi/prepare.sh"
    env = {"STAGES": "raw", "OUT": str(tmp_path / "out")}
    gz(tmp_path, "fin.txt.gz", "Go.\tMene.\n" * 50)
    refuses(sh(recipe, tmp_path, check=False, **env), "50 pairs, expected 50000 or more")
    gz(tmp_path, "fin.txt.gz", "Go. Mene.\n" * 50)
    refuses(sh(recipe, tmp_path, check=False, **env), "without a tab")
    assert not (tmp_path / "out/raw").exists()
    refuses(sh(recipe, tmp_path / "out", check=False, **env), "out/fin-eng.zip: no such file")
