"""The recipes that make prompts from public data sets, on small ones of our own; offline."""

import gzip
import io
import json
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils

from tests.cli.processes import BIN
from tests.cli.shell import refuses, sh

pytestmark = pytest.mark.slow

SETS = ("movie_reviews", "cicero", "xsum", "arxiv", "cola", "duc2007")
XSUM, XSUM_IDS = (
    "XSUM-EMNLP18-Summary-Data-Original.tar.gz",
    "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json",
)
URLS = {
    "movie_reviews": "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/"
    "movie_reviews.zip",
    "cicero": "https://github.com/declare-lab/CICERO/releases/download/v2.0.0/data.zip",
    "xsum": f"https://raw.githubusercontent.com/EdinburghNLP/XSum/master/XSum-Dataset/{XSUM_IDS}",
    "arxiv": "https://archive.org/download/armancohan-long-summarization-paper-code/"
    "arxiv-dataset.zip",
    "cola": "https://dl.fbaipublicfiles.com/glue/data/CoLA.zip",
}


def recipe(name: str) -> str:
    return f"examples/{name}/prepare.sh"


@pytest.fixture
def env(tmp_path) -> dict[str, str]:
    """No known sizes, output in a folder of its own."""
    names = ("movie_reviews.zip", XSUM, XSUM_IDS, "CoLA.zip")
    (tmp_path / "expected").write_text("".join(f"{name} -\n" for name in names))
    return {"EXPECTED": str(tmp_path / "expected"), "OUT": str(tmp_path / "out")}


@pytest.fixture
def public(tmp_path) -> Path:
    folder = tmp_path / "public"
    folder.mkdir()
    return folder


def pack(path: Path, members: dict[str, str | bytes]) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)


def records(folder: Path, split: str) -> list[dict]:
    return [json.loads(line) for line in (folder / f"raw/{split}.jsonl").read_text().splitlines()]


def made(tmp_path: Path) -> dict[str, list[dict]]:
    return {split: records(tmp_path / "out", split) for split in ("train", "valid", "test")}


@pytest.mark.paper
@pytest.mark.parametrize("name", SETS)
def test_dry_run_prints_commands_and_writes_nothing(name, tmp_path, public):
    env = {"OUT": str(tmp_path / "out"), "DRY_RUN": "1", "TEXT": "a b.txt:c.txt"}
    out = sh(recipe(name), *([public] if name == "duc2007" else []), **env).stdout
    commands = {line.split()[1] for line in out.splitlines() if line.startswith("+ ")}
    assert {"python3", "pet-fairseq"} <= commands
    path = f"{BIN}:{os.environ['PATH']}"
    assert all(shutil.which(command, path=path) for command in commands)
    assert URLS.get(name, "") in out and r"--text a\ b.txt c.txt" in out
    assert [path.name for path in tmp_path.iterdir()] == ["public"]


# Movie reviews


def reviews(numbers=range(0, 1000, 50)) -> dict[str, str]:
    names = {
        f"{kind}/cv{number:03}_{number * 7}.txt": f"{kind} is \n the {number} \u00e9\n"
        for number in numbers
        for kind in ("pos", "neg")
    }
    return {f"movie_reviews/{name}": text for name, text in names.items()}


def test_movie_reviews(env, public, tmp_path):
    other = {"movie_reviews/README": "to read", "movie_reviews/pos/": ""}
    pack(public / "movie_reviews.zip", other | reviews())
    sh(recipe("movie_reviews"), **env, MIRROR=f"file://{public}", STAGES="raw")
    expected = {"train": range(0, 800, 50), "valid": (800, 850), "test": (900, 950)}
    for split, numbers in expected.items():
        assert records(tmp_path / "out", split) == [
            {
                "query": "is this review positive or negative?",
                "prompt": f"{kind} is the {number} \u00e9",
                "response": label,
            }
            for number in numbers
            for kind, label in (("neg", "negative"), ("pos", "positive"))
        ]


def test_from_reviews_to_binary_data_and_its_model_for_others(env, public, tmp_path):
    pack(public / "movie_reviews.zip", reviews())
    (tmp_path / "more.txt").write_text("many more words\n" * 100)
    env |= {"TEXT": f"{tmp_path}/more.txt", "VOCAB_SIZE": "130"}
    shown = sh(recipe("movie_reviews"), public, **env).stdout
    assert "train: 32 reviews, 16 positive" in shown and "test: 4 records" in shown
    out = tmp_path / "out/bin"
    dictionary = Dictionary.load(str(out / "dict.txt"))
    data = data_utils.load_indexed_dataset(str(out / "test.response"), dictionary, "mmap")
    words = [dictionary.string(data[i], "sentencepiece") for i in range(4)]
    assert words == ["negative", "positive"] * 2
    again = sh(recipe("movie_reviews"), public, **env).stdout
    assert "raw: done before" in again and "binarise: done before" in again

    write_duc(public)
    model = {"SPM": str(out / "spm.model"), "OUT": str(tmp_path / "duc")}
    shown = sh(recipe("duc2007"), public, **model).stdout
    assert "test: 2 records" in shown
    assert (tmp_path / "duc/bin/dict.txt").read_text().count("\n") == len(dictionary) - 4
    (tmp_path / "other.model").write_bytes(b"another")
    model |= {"SPM": str(tmp_path / "other.model")}
    refuses(sh(recipe("duc2007"), public, **model, check=False), "SPM", "another SentencePiece")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.txt": "x"}, "no reviews of both labels for train"),
        (reviews(range(0, 900, 50)), "no reviews of both labels for test"),
        (reviews() | {"pos/cv001_2.txt": b"caf\xe9"}, "cv001_2.txt is not UTF-8 at byte 3"),
    ],
)
def test_bad_reviews(env, public, tmp_path, members, message):
    pack(public / "movie_reviews.zip", members)
    result = sh(recipe("movie_reviews"), public, **env, STAGES="raw", check=False)
    refuses(result, "movie_reviews.zip", message)
    assert not (tmp_path / "out/raw").exists()


# CICERO


def question(dialogue: int, number: int, answers: tuple[int, ...] = (2, 0)) -> dict:
    return {
        "ID": f"daily-dialogue-{dialogue:04}",
        "Dialogue": [f"A: Hello {dialogue} .", "B:  Who is \n it ?"],
        "Target": f"Hello {dialogue}  .",
        "Question": f"What is or could be the cause of target {number}?",
        "Choices": [f"{letter} {dialogue}." for letter in "abcd"],
        "Correct Answers": list(answers),
    }


def as_record(item: dict) -> dict:
    dialogue = int(item["ID"][-4:])
    answers = [f"{'abcd'[i]} {dialogue}." for i in item["Correct Answers"]]
    return {
        "query": f"{item['Question']} Target: Hello {dialogue} .",
        "prompt": f"A: Hello {dialogue} . B: Who is it ?",
        "response": answers[0],
        "references": answers,
    }


def json_lines(items: list[dict]) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


def test_cicero(env, public, tmp_path):
    sets = {
        "train": [question(i, 1) for i in range(5)],
        "val": [question(10, 1), question(10, 2, (1,))],
        "test": [question(20, 1, (3, 1, 0))],
    }
    members = {f"data/{split}.json": json_lines(items) for split, items in sets.items()}
    pack(public / "data.zip", members | {"__MACOSX/data/._train.json": "no text"})
    sh(recipe("cicero"), **env, MIRROR=f"file://{public}", STAGES="raw")
    expected = {"train": sets["train"], "valid": sets["val"], "test": sets["test"]}
    expected = {split: list(map(as_record, items)) for split, items in expected.items()}
    assert made(tmp_path) == expected


def test_cicero_without_train(env, public, tmp_path):
    """Every tenth dialogue of val, with all its questions, is for validation."""
    val = [question(i, number) for number in (1, 2) for i in range(25)]
    for name, items in (("val", val), ("test", [question(30, 1)])):
        (public / f"{name}.jsonl.gz").write_bytes(gzip.compress(json_lines(items).encode()))
    sh(recipe("cicero"), public, **env, STAGES="raw")
    held_out = [item for item in val if item["ID"][-2:] in ("09", "19")]
    assert len(held_out) == 4
    expected = {
        "train": [as_record(item) for item in val if item not in held_out],
        "valid": list(map(as_record, held_out)),
        "test": [as_record(question(30, 1))],
    }
    assert made(tmp_path) == expected


def test_bad_dialogues(env, public, tmp_path):
    good = question(1, 1)
    without = {key: value for key, value in good.items() if key != "Choices"}
    for bad in (without, good | {"Correct Answers": []}, good | {"Correct Answers": [4]}, [1]):
        for name, items in (("val", [good, bad]), ("test", [good])):
            (public / f"{name}.json").write_text(json_lines(items))
        result = sh(recipe("cicero"), public, **env, STAGES="raw", check=False)
        refuses(result, "val: line 2: not as CICERO is")
    (public / "test.json").unlink()
    result = sh(recipe("cicero"), public, **env, STAGES="raw", check=False)
    refuses(result, f"{public}: has neither data.zip nor val and test")
    assert not (tmp_path / "out/raw").exists()


# XSum


def article(number: int, summary: str | None = None, body: str | None = None) -> str:
    summary = f"Summary {number}.\nIt  is." if summary is None else summary
    body = f"Share this with\n\nBody {number}.\nEmail me.\nFacebook\n" if body is None else body
    return (
        f"[SN]URL[SN]\nhttp://web.archive.org/{number}\n\n[SN]TITLE[SN]\nTitle {number}\n\n"
        f"[SN]FIRST-SENTENCE[SN]\n{summary}\n\n[SN]RESTBODY[SN]\n{body}\n"
    )


def write_xsum(folder: Path, articles: dict[str, str | bytes], ids: dict) -> None:
    with tarfile.open(folder / XSUM, "w:gz") as archive:
        for number, text in articles.items():
            data = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(f"bbc-summary-data/{number}.summary")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    (folder / XSUM_IDS).write_text(json.dumps(ids))


def test_xsum(env, public, tmp_path):
    articles = {str(i): article(i) for i in range(8)}
    articles |= {"8": article(8, summary=""), "9": article(9, body="Email\n"), "10": "no marks"}
    ids = {"train": ["3", "1", "8", "9", "10"], "validation": ["0", "2"], "test": ["4", "99"]}
    write_xsum(public, articles, ids)
    shown = sh(recipe("xsum"), **env, MIRROR=f"file://{public}", STAGES="raw").stdout
    assert "left out: 3 in no split, 3 empty, 1 of the list not in the archive" in shown
    for split, numbers in (("train", (1, 3)), ("valid", (0, 2)), ("test", (4,))):
        assert records(tmp_path / "out", split) == [
            {
                "query": "summarize",
                "prompt": f"Body {number}. Email me.",
                "response": f"Summary {number}. It is.",
            }
            for number in numbers
        ]


def test_bad_articles(env, public, tmp_path):
    ids = {"train": ["1"], "validation": ["2"], "test": ["3"]}
    articles = {str(i): article(i) for i in range(1, 4)}
    for changed, chosen, message in (
        ({}, {"train": ["1"], "test": ["3"]}, "not XSum's list of splits (KeyError('validation'))"),
        ({}, ids | {"test": ["4"]}, "not an article for each split"),
        ({"2": b"[SN]RESTBODY[SN]\n\xff"}, ids, "2.summary is not UTF-8 at byte 17"),
    ):
        write_xsum(public, articles | changed, chosen)
        refuses(sh(recipe("xsum"), public, **env, STAGES="raw", check=False), message)
    assert not (tmp_path / "out/raw").exists()


# arXiv


def paper(number: int, article=None, abstract=None) -> dict:
    return {
        "article_id": f"1001.{number}",
        "article_text": [f"paper {number} .", " it is\n long ."] if article is None else article,
        "abstract_text": [f"<S> paper {number} . </S>", "<S> short .</S>"]
        if abstract is None
        else abstract,
        "labels": None,
        "section_names": ["i"],
        "sections": [[f"paper {number} ."]],
    }


@pytest.mark.parametrize("zipped", [True, False])
def test_arxiv(env, public, tmp_path, zipped):
    sets = {
        "train": [paper(1), paper(2, article=[]), paper(3, abstract=["<S> </S>"]), paper(4)],
        "val": [paper(5)],
        "test": [paper(6)],
    }
    members = {f"{split}.txt": json_lines(items) for split, items in sets.items()}
    if zipped:
        members = {f"arxiv-dataset/{name}": text for name, text in members.items()}
        pack(public / "arxiv-dataset.zip", members | {"arxiv-dataset/vocab": "the 1\n"})
        where = {"MIRROR": f"file://{public}"}
        shown = sh(recipe("arxiv"), **env, **where, STAGES="raw").stdout
    else:
        for name, text in members.items():
            (public / name).write_text(text)
        shown = sh(recipe("arxiv"), public, **env, STAGES="raw").stdout
    assert "train: 2 papers, 2 without text or abstract left out" in shown
    for split, numbers in (("train", (1, 4)), ("valid", (5,)), ("test", (6,))):
        assert records(tmp_path / "out", split) == [
            {
                "query": "summarize",
                "prompt": f"paper {number} . it is long .",
                "response": f"paper {number} . short .",
            }
            for number in numbers
        ]


def test_bad_papers(env, public, tmp_path):
    good = json_lines([paper(1)])
    for train, message in (
        (good + '{"article_id": "1"}', "train.txt: line 2: not a paper"),
        (good + "paper", "train.txt: line 2: not a paper"),
        ("", "train.txt: no papers"),
    ):
        members = {"train.txt": train, "val.txt": good, "test.txt": good}
        pack(public / "arxiv-dataset.zip", members)
        refuses(sh(recipe("arxiv"), public, **env, STAGES="raw", check=False), message)
    pack(public / "arxiv-dataset.zip", {"train.txt": good, "test.txt": good})
    result = sh(recipe("arxiv"), public, **env, STAGES="raw", check=False)
    refuses(result, "there is no val.txt")
    assert not (tmp_path / "out/raw").exists()


# CoLA


def table(sentences: list[str]) -> str:
    rows = (f"gj04\t{len(s) % 2}\t{'*' * (len(s) % 2)}\t{s}\n" for s in sentences)
    return "".join(rows)


LABELS = ("unacceptable", "acceptable")


@pytest.mark.parametrize("zipped", [True, False])
def test_cola(env, public, tmp_path, zipped):
    train = [f"Sentence {'so ' * (i % 7)}{i}." for i in range(45)]
    sets = {"train": [*train, train[3]], "dev": ["A new  one.", train[0]]}
    members = {f"{name}.tsv": table(sentences) for name, sentences in sets.items()}
    if zipped:
        others = {"original/raw/in_domain_train.tsv": "no table", "test.tsv": "index\tsentence\n"}
        members = {f"CoLA/{name}": text for name, text in (members | others).items()}
        pack(public / "CoLA.zip", members)
    else:
        for name, text in members.items():
            (public / name).write_text(text)
    sh(recipe("cola"), public, **env, STAGES="raw", SHOTS="6")

    held_out = [train[19], train[39]]
    kept = [sentence for sentence in train if sentence not in held_out]
    possible = {f"Sentence: {s} Answer: {LABELS[len(s) % 2]}" for s in kept}
    expected = {"train": kept, "valid": held_out, "test": ["A new one.", train[0]]}
    seen = set()
    for split, sentences in expected.items():
        asked = [f"is this sentence acceptable or unacceptable? {s}" for s in sentences]
        found = records(tmp_path / "out", split)
        assert [record["query"] for record in found] == asked
        for sentence, record in zip(sentences, found):
            assert record["response"] == LABELS[len(sentence.replace("new one", "new  one")) % 2]
            shots = record["prompt"].split("Sentence: ")[1:]
            shots = {f"Sentence: {shot.strip()}" for shot in shots}
            assert len(shots) == 6 and shots <= possible
            assert not any(shot.startswith(f"Sentence: {sentence} ") for shot in shots)
            seen.add(record["prompt"])
    assert len(seen) == 47  # each has others
    result = sh(recipe("cola"), public, **env, SHOTS="5", check=False)
    refuses(result, "SHOTS=5", "has prompts of 6 examples")


def test_bad_tables(env, public, tmp_path):
    good = table([f"Sentence {i}." for i in range(25)])
    for train, shots, message in (
        (good + "gj04\t2\t\tA.\n", "3", "train.tsv: line 26: not source, 0 or 1, mark, sentence"),
        (good + "gj04\t1\tA.\n", "3", "train.tsv: line 26: not source"),
        (table(["A."]), "3", "train.tsv: fewer than 20 sentences"),
        (good, "24", "--shots 24: there are 24 sentences to train on"),
        (good, "-1", "--shots -1:"),
    ):
        (public / "train.tsv").write_text(train)
        (public / "dev.tsv").write_text(good)
        result = sh(recipe("cola"), public, **env, STAGES="raw", SHOTS=shots, check=False)
        refuses(result, message)
    assert not (tmp_path / "out/raw").exists()


# DUC 2007


def write_duc(folder: Path) -> None:
    """Two topics as NIST's archives unpack."""
    topics = ""
    models = folder / "mainEval/ROUGE/models"
    models.mkdir(parents=True)
    (folder / "mainEval/ROUGE/peers").mkdir()
    for number in ("01", "02"):
        documents = ("XIE19980304.0061", f"NYT199807{number}.0137")
        topics += (
            f"<topic>\n<num> D07{number}A </num>\n<title> Title {number} </title>\n<narr>\nWhat is "
            f"{number}?\nWhy &amp; how? \n</narr>\n<docs>\n{chr(10).join(documents)}\n</docs>\n"
            "</topic>\n"
        )
        place = folder / f"duc2007_testdocs/main/D07{number}A"
        place.mkdir(parents=True)
        for name in documents:
            (place / name).write_text(
                f"<DOC>\n<DOCNO> {name} </DOCNO>\n<BODY>\n<HEADLINE> Head </HEADLINE>\n<TEXT>\n"
                f"<P>\n  {number} in {name}\n</P>\n<P>A &lt; B</P>\n</TEXT>\n</BODY>\n</DOC>\n"
            )
        for letter in "DCB":
            text = f"Summary {number}\nby {letter}.\n"
            (models / f"D07{number}.M.250.A.{letter}").write_text(text)
        (folder / f"mainEval/ROUGE/peers/D07{number}.M.250.A.10").write_text("by a system")
    (models / "D0701.M.250.A.D").write_bytes(b"caf\xe9")
    (folder / "duc2007_topics.sgml").write_text(topics)


def test_duc2007(public, tmp_path):
    write_duc(public)
    sh(recipe("duc2007"), public, OUT=str(tmp_path / "out"), SPM="a.model", STAGES="raw")
    references = {n: [f"Summary {n} by {letter}." for letter in "BCD"] for n in ("01", "02")}
    references["01"][2] = "caf\u00e9"
    assert records(tmp_path / "out", "test") == [
        {
            "query": f"What is {number}? Why & how?",
            "prompt": f"{number} in XIE19980304.0061 A < B "
            f"{number} in NYT199807{number}.0137 A < B",
            "response": f"Summary {number} by B.",
            "references": references[number],
        }
        for number in ("01", "02")
    ]
    assert not (tmp_path / "out/raw/train.jsonl").exists()


def test_duc2007_with_something_missing(public, tmp_path):
    env = {"OUT": str(tmp_path / "out"), "SPM": "a.model", "STAGES": "raw"}
    refuses(sh(recipe("duc2007"), **env, check=False), "FOLDER: missing")
    refuses(sh(recipe("duc2007"), public, OUT=env["OUT"], check=False), "SPM: missing")
    for gone, message in (
        ("mainEval/ROUGE/models/D0702.M.250.A.*", "there is no summary D0702.M.250"),
        ("duc2007_testdocs/main/D0701A/NYT*", "there is no document D0701A/NYT19980701.0137"),
        ("duc2007_topics.sgml", "there is no duc2007_topics.sgml"),
    ):
        folder = tmp_path / "folder"
        folder.mkdir()
        write_duc(folder)
        for path in folder.glob(gone):
            path.unlink()
        refuses(sh(recipe("duc2007"), folder, **env, check=False), message)
        shutil.rmtree(folder)
    assert not (tmp_path / "out/raw").exists()
