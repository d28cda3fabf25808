"""Texts with lines that cannot be answered as they are: every line has its answer all the same."""

import json
import os
import re
import subprocess

import pytest

from tests.cli.processes import command_line, refusal, run
from tests.predict.made import make_classifier, make_translator

GOOD = ["w1 w2 w3", "w5 w4", "w7", "w2 w2 w8 w9 unknown w1", "w0 w6"]
LONG = "w1 " * 1100  # the models here have 40 and 1024 positions


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    made = make_translator(tmp_path_factory.mktemp("translator"))
    return ("pet-fairseq", "predict", made.path, "--ratio", "1", "--beam", "2")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    made = make_classifier(tmp_path_factory.mktemp("classifier"))
    return ("pet-fairseq", "predict", made.backbone)


def text_of(*lines) -> bytes:
    return b"".join(line if isinstance(line, bytes) else line.encode() + b"\n" for line in lines)


def ask(command, text: bytes, folder, *options, name="texts") -> tuple[int, list[dict], list[str]]:
    """The exit status of a command over a file, the answers, and the lines on standard error."""
    (folder / name).write_bytes(text)
    words = command_line(*command, "--input", folder / name, *options, cold=False)
    ended = subprocess.run(words, capture_output=True, text=True)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    return ended.returncode, answers, ended.stderr.splitlines()


BAD = [  # a line, what its answer says beside the model's words, and whether the model has any
    ("", {}, False),
    (" \t ", {}, False),
    (b"w3 \xff w4\n", {"replaced": True}, True),
    ("w1\tw2\tw3", {"skipped": re.compile("3 fields between tabs; give a text, or")}, False),
    (LONG, {"truncated": True}, True),
    (b"\xe2\x82\n", {"replaced": True}, True),  # cut inside a character
]


def mixed() -> tuple[list, list[int]]:
    """Good and bad lines, and the numbers of the good ones."""
    lines, places = [], []
    for i, (line, _, _) in enumerate(BAD):
        if i < len(GOOD):
            places.append(len(lines))
            lines.append(GOOD[i])
        lines.append(line)
    return lines, places


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["translator", "classifier"])
def test_every_line_has_its_answer(kind, request, tmp_path):
    command = request.getfixturevalue(kind)
    lines, places = mixed()
    status, answers, errors = ask(command, text_of(*lines), tmp_path)
    assert status == 0 and len(answers) == len(lines) == 11
    _, alone, quiet = ask(command, text_of(*GOOD), tmp_path)
    assert quiet == [] and len({str(answer) for answer in alone}) > 1
    for place, answer in zip(places, alone):
        assert comparable(answers[place]) == answer
    bad = [answer for place, answer in enumerate(answers) if place not in places]
    empty = {"text": ""} if kind == "translator" else {"label": None, "probabilities": {}}
    for answer, (_, marks, answered) in zip(bad, BAD):
        words = {name: answer.pop(name) for name in empty}
        assert (words != empty) == answered
        assert answer.keys() == marks.keys()
        for name, mark in marks.items():
            assert mark.search(answer[name]) if name == "skipped" else answer[name] is mark
    assert errors == [
        "pet-fairseq predict: 6 of 11 lines: 2 empty (lines 2, 4), 1 cut (line 10), 1 skipped "
        "(line 8), 2 with broken bytes (lines 6, 11)"
    ]


def comparable(answer: dict) -> dict:
    """The answer, with room for what other texts in a batch change in the last digits."""
    if "probabilities" not in answer:
        return answer
    return {**answer, "probabilities": pytest.approx(answer["probabilities"], abs=1e-6)}


@pytest.mark.parametrize("kind", ["translator", "classifier"])
def test_long_lines_are_cut_to_what_the_model_reads(kind, request, tmp_path):
    command = request.getfixturevalue(kind)
    # the words that are left, and the symbols around them
    fits = "w1 " * (1023 if kind == "translator" else 38)
    _, (cut, whole), errors = ask(command, text_of(LONG, fits), tmp_path)
    assert cut == {**whole, "truncated": True} and "truncated" not in whole
    assert errors == ["pet-fairseq predict: 1 of 2 lines: 1 cut (line 1)"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["translator", "classifier"])
def test_long_lines_are_skipped_or_refused_on_request(kind, request, tmp_path):
    command = request.getfixturevalue(kind)
    text = text_of("w1", LONG, "w2")
    status, answers, errors = ask(command, text, tmp_path, "--long-texts", "skip")
    assert status == 0 and [("skipped" in answer) for answer in answers] == [False, True, False]
    assert re.fullmatch(r"text: 110\d tokens, at most \d+ are taken", answers[1]["skipped"])
    assert errors == ["pet-fairseq predict: 1 of 3 lines: 1 skipped (line 2)"]
    status, answers, errors = ask(command, text, tmp_path, "--long-texts", "refuse")
    assert (status, answers) == (1, [])
    assert re.search(r"texts, line 2: text: 110\d tokens, at most \d+ are taken$", errors[0])


@pytest.mark.slow
def test_strict_ends_at_the_first(translator, classifier, tmp_path):
    for line, message in (
        ("", "line 2: text: empty"),
        (b"a\xff\n", "line 2: not UTF-8 at byte 1"),
        ("w1\tw2\tw3", "line 2: 3 fields between tabs"),
        ("w1\tw2", "line 2: pair: this model translates single texts"),
        (LONG, "line 2: text: 1101 tokens, at most 1024 are taken"),
    ):
        status, answers, errors = ask(translator, text_of("w1", line), tmp_path, "--strict")
        assert (status, answers, len(errors)) == (1, [], 1) and message in errors[0]
    _, answers, _ = ask(classifier, text_of(LONG), tmp_path, "--strict")  # cut in training, too
    assert answers[0]["truncated"]


def test_json_lines(classifier, tmp_path):
    lines = ('"w1"', "{", "", '""', '{"text": "w1", "pair": " "}', '"\\ud800"', b'"w1 \xff"\n', "7")
    status, answers, errors = ask(classifier, text_of(*lines), tmp_path, name="texts.jsonl")
    assert status == 0 and len(answers) == len(lines)
    assert [answer["label"] is None for answer in answers] == [0, 1, 1, 1, 1, 1, 0, 1]
    reasons = [answer.get("skipped", "") for answer in answers]
    assert [reason.split(";")[0] for reason in reasons if reason] == [
        *("not JSON", "text: holds a lone surrogate, which is no character", "text: give a string")
    ]
    assert errors == [
        "pet-fairseq predict: 7 of 8 lines: 3 empty (lines 3, 4, 5), 3 skipped (lines 2, 6, 8), "
        "1 with broken bytes (line 7)"
    ]


def test_words_for_training(tmp_path):
    """`encode` writes a line for a line."""
    (tmp_path / "texts").write_bytes(b"ab\n\nc\xff\n")
    command = ("pet-fairseq", "encode", "--input", tmp_path / "texts", "--bpe", "characters")
    found = run(*command)
    assert sorted(found.output.splitlines()) == sorted(
        ["a b", "", "c \ufffd", "pet-fairseq encode: 1 of 3 lines: 1 with broken bytes (line 3)"]
    )
    refused = run(*command, "--strict", check=False)
    assert refused.status == 1 and refused.output.endswith("line 3: not UTF-8 at byte 1\n")
    (tmp_path / "texts").write_bytes(b"a\rb\nc\n")  # fairseq-preprocess would read three lines
    assert run(*command).output.splitlines() == ["a \u2581 b", "c"]


def test_answers_come_before_the_text_ends(classifier):
    """Of a text that has no end."""
    words = command_line(*classifier, "--input", "-", cold=False)
    with (
        subprocess.Popen(["yes", "w1"], stdout=subprocess.PIPE) as endless,
        subprocess.Popen(words, stdin=endless.stdout, stdout=subprocess.PIPE) as predict,
    ):
        endless.stdout.close()
        assert json.loads(predict.stdout.readline())["label"]
        predict.stdout.close()
    assert predict.returncode == 141  # as after `| head`


def peak_mb(command, text: bytes, folder) -> float:
    """The largest memory of a command over a file; every line of it has its answer."""
    (folder / "texts").write_bytes(text)
    words = command_line(*command, "--input", folder / "texts", cold=True)
    with (folder / "answers").open("wb") as answers:
        process = subprocess.Popen(words, stdout=answers, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert (folder / "answers").read_bytes().count(b"\n") == text.count(b"\n")
    return usage.ru_maxrss / 1024


@pytest.mark.slow
def test_memory_is_flat(classifier, tmp_path):
    """Of a file of 100,000 lines, one in ten of them bad, as of one of 5,000."""
    lines = [f"w{i % 10} w{i % 7} x{i}" for i in range(100_000)]
    lines[::20] = [""] * len(lines[::20])
    lines[10::20] = [b"w3 \xff\n"] * len(lines[10::20])
    few = peak_mb(classifier, text_of(*lines[:5_000]), tmp_path)
    many = peak_mb(classifier, text_of(*lines), tmp_path)
    assert many - few < 20


UTF_16 = "UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "words",
    [
        ("translate", "no.pt", "--input"),
        ("predict", "no.pt", "--input"),
        ("encode", "--bpe", "characters", "--input"),
        ("translate-corpus", "no.pt", "--out", "no", "--text"),
        ("score", "bleu", __file__),
    ],
    ids=lambda words: words[0],
)
def test_another_encoding(words, encoding, tmp_path):
    """It is told before the model is looked for, which is not there."""
    path = tmp_path / "text"
    path.write_bytes(f"\ufeff{GOOD[0]}\n".encode(encoding))
    option = words[-1] if words[-1].startswith("--") else "REFERENCE"
    assert refusal(*words, path).endswith(f": error: {option} {path}: {UTF_16}")


def test_another_encoding_in_a_pipe(translator):
    """Nobody can look into it before."""
    words = command_line(*translator, "--input", "-", cold=False)
    ended = subprocess.run(words, input="\ufeffw1\n".encode("utf-16-le"), capture_output=True)
    last = ended.stderr.decode().splitlines()[-1]
    assert ended.returncode and last.endswith(f"error: --input stdin: {UTF_16}")
