"""What the examples of SelfCP make: passages of reviews, the game of recall, tables."""

import json
import os
import re

import pytest

from tests.cli.processes import BIN, REPO, run
from tests.cli.shell import refuses, sh, write_command


def make(out, *args, check=True):
    return run("python", REPO / "examples/recall/make.py", out, *args, check=check)


def test_passages(tmp_path):
    prompts = [" ".join(f"w{i}" for i in range(n)) for n in (1, 9, 300)]
    records = [{"query": "good?", "prompt": p, "response": f"r{len(p)}"} for p in prompts]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    command = ("python", REPO / "examples/movie_reviews/passages.py", tmp_path / "train.jsonl")
    lines = [line.split() for line in run(*command).output.splitlines()]
    for prompt in prompts:
        own = [line for line in lines if line[-1] == f"r{len(prompt)}"]
        assert all(line[0] == "good?" for line in own)
        assert [word for line in own for word in line[1:-1]] == prompt.split()
        lengths = [len(line) - 2 for line in own]
        assert max(lengths) <= 120 and all(n >= 10 for n in lengths[:-1])
    out = run(*command, "--json", "--words", "4", "4").output
    found = [json.loads(line) for line in out.splitlines()]
    assert [len(record["prompt"].split()) for record in found] == [1, 4, 4, 1, *[4] * 75]
    assert {(record["query"], record["response"]) for record in found[1:4]} == {
        ("good?", records[1]["response"])
    }
    wrong = run(*command, "--words", "4", "3", check=False)
    assert wrong.status == 1 and "--words 4 3: give" in wrong.output


SMALL = ("--train", "30", "--valid", "5", "--test", "40", "--text", "20", "--keys", "30")


def game(line):
    """The pairs and the key of a game as text, checked."""
    query, *told, last, answer = line.split()
    pairs = dict(zip(told[::2], told[1::2]))
    assert 1 <= len(pairs) <= 9 and len(told) == 2 * len(pairs) and last == "answer"
    asked = query.removesuffix("?")
    assert pairs[asked] == answer
    return pairs, asked


def test_recall(tmp_path):
    make(tmp_path / "a", *SMALL, "--pairs", "3", "9")
    make(tmp_path / "b", *SMALL, "--pairs", "3", "9")
    sizes = {"train": 30, "valid": 5, "test": 40}
    seen = set()
    for split, size in sizes.items():
        text = (tmp_path / "a" / f"{split}.jsonl").read_text()
        assert text == (tmp_path / "b" / f"{split}.jsonl").read_text()
        records = [json.loads(line) for line in text.splitlines()]
        assert len(records) == size
        for record in records:
            *told, last = record["prompt"].split()
            keys, values = told[::2], told[1::2]
            assert last == "answer" and len(values) == len(keys)
            assert 3 <= len(set(keys)) == len(keys) <= 9
            asked = record["query"].removesuffix("?")
            place = keys.index(asked)
            assert values[place] == record["response"]
            assert record["distance"] == len(keys) - 1 - place
            assert record["prompt"] not in seen
            seen.add(record["prompt"])
    lines = (tmp_path / "a/text.txt").read_text().splitlines()
    assert len(lines) == 20 + 10
    for line in lines[:20:2]:
        game(line)
    for line in lines[1:20:2]:
        many, first, *others = re.split(r" (?=\w+\?)", line)
        pairs, asked = game(first)
        answers = dict(re.fullmatch(r"(\w+)\? answer (\w+)", other).groups() for other in others)
        assert many == "many" and answers == {k: v for k, v in pairs.items() if k != asked}
    for line in lines[20:]:  # drills
        words = line.split()
        told = list(zip(words[::2], words[1::2]))
        first, again, *others = (told[i * len(told) // 4 :][: len(told) // 4] for i in range(4))
        assert 4 <= len(first) <= 9 and len(dict(first)) == len(first) and again == first
        assert all(sorted(other) == sorted(first) for other in others)
    for pairs in (("9", "3"), ("0", "3"), ("3", "31")):
        result = make(tmp_path / "c", *SMALL, "--pairs", *pairs, check=False)
        assert result.status == 1 and f"--pairs {' '.join(pairs)}: give" in result.output


def test_recall_of_other_settings(tmp_path):
    """Those that failed are not kept: they can be mended."""
    script, settings = "examples/recall/prepare.sh", {"OUT": str(tmp_path), "STAGES": "raw"}
    refuses(sh(script, check=False, **settings, PAIRS="9 3"), "--pairs 9 3: give")
    sh(script, **settings, PAIRS="3 9")
    assert "raw: done before" in sh(script, **settings, PAIRS="3 9").stdout
    other = sh(script, check=False, **settings, PAIRS="4 9")
    refuses(other, f"{tmp_path} was made with other settings (3 9 1, now 4 9 1); give another")
    refuses(sh(script, check=False, **settings, PAIRS="3 9", SEED="2"), "now 3 9 2")


def test_accuracy_by_distance(tmp_path):
    distances = [0, 1, 2, 3, 4, 5, 6, 7]
    records = [{"response": f"v{d}", "distance": d} for d in distances]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    answers = ["v0", "v1", "v2", "x", "v4", "x", "x", "x"]
    run_folder = tmp_path / "former.seed1"
    run_folder.mkdir()
    lines = [f"D-{i}\t-0.1\t{a}" for i, a in reversed(list(enumerate(answers)))]
    (run_folder / "generate.txt").write_text("\n".join(lines) + "\n")
    script = REPO / "examples/recall/by_distance.py"
    out = run("python", script, tmp_path / "test.jsonl", run_folder / "generate.txt").output
    assert "| output | 0 to 1 | 2 to 3 | 4 to 5 | 6 to 7 | all |" in out
    assert "| former.seed1 | 100.0 | 50.0 | 50.0 | 0.0 | 50.0 |" in out
    (run_folder / "generate.txt").write_text(lines[0])
    cut = run("python", script, tmp_path / "test.jsonl", run_folder / "generate.txt", check=False)
    assert cut.status == 1 and "1 answers to 8 questions" in cut.output


def test_a_dry_run_over_text_that_fills_a_pipe(tmp_path):
    (tmp_path / "tokenizer.json").touch()
    (tmp_path / "text").write_text("word\n" * 200_000)
    words = ("examples/next_text/prepare.sh", tmp_path, tmp_path / "text", tmp_path / "text")
    shown = sh(*words, DRY_RUN="1", OUT=str(tmp_path / "out")).stdout
    assert shown.count("+ python3 ") == 2 and "+ pet-fairseq prompts " in shown
    assert not (tmp_path / "out").exists()


def test_movie_reviews_as_tables(tmp_path):
    raw, script = tmp_path / "raw", REPO / "examples/movie_reviews/tables.py"
    raw.mkdir()
    for split in ("train", "valid", "test"):
        records = [
            {"query": "?", "prompt": f"a\tlong {split}  film", "response": "negative"},
            {"query": "?", "prompt": "fine", "response": "positive"},
        ]
        (raw / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    run("python", script, raw, tmp_path / "out")
    for split, name in (("train", "train"), ("valid", "dev"), ("test", "test")):
        table = (tmp_path / f"out/{name}.tsv").read_text()
        assert table == f"sentence\tlabel\na long {split} film\t0\nfine\t1\n"
    (raw / "test.jsonl").write_text('{"prompt": "x", "response": "maybe"}')
    wrong = run("python", script, raw, tmp_path / "out", check=False)
    assert wrong.status == 1 and "test.jsonl: no records of movie reviews" in wrong.output


def test_language_model_of_other_settings(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"a": 0, "\u010a": 1}, unk_token="a")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "text").write_text("a a a\ta a\n" * 50)
    given = ("examples/language_model/prepare.sh", tmp_path, tmp_path / "text", tmp_path / "text")
    settings = {"OUT": str(tmp_path / "out"), "STAGES": "raw"}
    sh(*given, **settings)
    assert "raw: done before" in sh(*given, **settings).stdout
    other = sh(*given, check=False, **settings, PROMPT_WORDS="3")
    refuses(other, f"{tmp_path}/out was made with other settings (200 60 ", "now 3 60 ")


def test_table_over_seeds(tmp_path):
    for name, scores in {
        "former.seed1": {"accuracy": 70.0, "total": 9},
        "former.seed2": {"accuracy": 73.0, "total": 9},
        "truncate.seed1": {"accuracy": 60.0, "rouge1": 12.345},
        "formerly.seed1": {"accuracy": 1.0},
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps(scores))
    command = ("pet-fairseq", "score", "table", tmp_path)
    table = (tmp_path / "table.md", run(*command, "former", "truncate").output)
    assert table[1].endswith(table[0].read_text())
    assert table[0].read_text().splitlines() == [
        "| run | seeds | accuracy | rouge1 |",
        "| --- | ---: | ---: | ---: |",
        "| former | 2 | 71.50 ± 2.12 | - |",
        "| truncate | 1 | 60.00 | 12.35 |",
    ]
    missing = run(*command, "latter", check=False)
    assert missing.status == 1 and "no scores of latter" in missing.output.splitlines()[-1]


def test_next_text(tmp_path):
    """Every record is a piece of the text, in its order; the last ones are for validation."""
    tokenizers = pytest.importorskip("tokenizers")
    words = [f"w{i}" for i in range(60)]
    text = [words[i * 7 % 60] for i in range(200)]
    model = tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="w0")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.txt").write_text(" = Heading =\n" + " ".join(text[:120]) + "\n\n")
    (tmp_path / "b.txt").write_text(" ".join(text[120:]) + "\n")
    script = "examples/next_text/prepare.sh"
    settings = {"PROMPT_TOKENS": "6", "RESPONSE_TOKENS": "4", "STAGES": "raw"}
    settings |= {"OUT": str(tmp_path / "out"), "TEST_RECORDS": "3", "VALID_RECORDS": "5"}
    files = (f"{tmp_path}/a.txt:{tmp_path}/b.txt", tmp_path / "a.txt")
    sh(script, tmp_path, *files, **settings)
    found = {
        split: [json.loads(line) for line in (tmp_path / f"out/raw/{split}.jsonl").open()]
        for split in ("train", "valid", "test")
    }
    assert {split: len(records) for split, records in found.items()} == {
        "train": 15,
        "valid": 5,
        "test": 3,
    }
    for number, record in enumerate(found["train"] + found["valid"]):
        piece = text[10 * number : 10 * number + 10]
        assert record == {
            "query": "",
            "prompt": " ".join(piece[:6]),
            "response": " ".join(piece[6:]),
        }
    write_command(tmp_path / "stubs/cat", '/bin/cat "$@"; exit 1')  # such as a disk that fails
    stubs = {"PATH": f"{tmp_path}/stubs:{BIN}:{os.environ['PATH']}"}
    broken = settings | stubs | {"OUT": str(tmp_path / "broken")}
    assert sh(script, tmp_path, *files, check=False, **broken).returncode == 1
    assert not (tmp_path / "broken/raw").exists()
    starts = [text.index(record["prompt"].split()[0]) for record in found["test"]]
    assert len(set(starts)) == 3
    assert "raw: done before" in sh(script, tmp_path, *files, **settings).stdout
    other = sh(script, tmp_path, *files, check=False, **settings | {"TEST_RECORDS": "4"})
    refuses(other, f"{tmp_path}/out was made with other settings (6 4 3 5 ", "now 6 4 4 5 ")
    refuses(sh(script, tmp_path, "no", "no", check=False), "'no': no such file; give prepare.sh")
    settings["OUT"] = str(tmp_path / "out2")
    long = sh(script, tmp_path, *files, check=False, **settings | {"PROMPT_TOKENS": "900"})
    refuses(long, "the text has fewer than 904 tokens; give more")
