"""Word and phone error rates against a slow loop, and pet-fairseq score wer on files."""

import json
import random
import sys

import pytest

from pet_fairseq import cli
from pet_fairseq.errors import UserError
from pet_fairseq.results.word_errors import error_rates

PHONES = ("K", "AE1", "T", "S", "D", "AO1")


def edits(given, wanted):
    """The fewest insertions, deletions and replacements, by trying all of them."""
    if not given or not wanted:
        return len(given) + len(wanted)
    if given[0] == wanted[0]:
        return edits(given[1:], wanted[1:])
    return 1 + min(edits(given[1:], wanted), edits(given, wanted[1:]), edits(given[1:], wanted[1:]))


def spoken(draw, fewest):
    return [draw.choice(PHONES) for _ in range(draw.randint(fewest, 4))]


@pytest.mark.parametrize("seed", range(20))
def test_rates_are_those_of_a_slow_loop(seed):
    draw = random.Random(seed)
    words = [[spoken(draw, 1) for _ in range(draw.randint(1, 3))] for _ in range(30)]
    given = [
        draw.choice(pronunciations) if draw.random() < 0.4 else spoken(draw, 0)
        for pronunciations in words
    ]
    wrong = errors = phones = 0
    for hypothesis, pronunciations in zip(given, words):
        wrong += hypothesis not in pronunciations
        best = None
        for pronunciation in pronunciations:
            distance = edits(hypothesis, pronunciation)
            if best is None or distance < best[0]:
                best = (distance, len(pronunciation))
        errors, phones = errors + best[0], phones + best[1]
    found = error_rates(
        list(map(" ".join, given)), [[" ".join(one) for one in several] for several in words]
    )
    assert found.wer == pytest.approx(100 * wrong / 30)
    assert found.per == pytest.approx(100 * errors / phones)
    assert (found.right, found.total) == (30 - wrong, 30) and 0 < wrong < 30


def test_phones_are_compared_whole():
    """AH0 and AH1 are two phones, whose edit is one, and so are AE1 and K."""
    found = error_rates(["AH0 B", "K AE1 T"], [["AH1 B"], ["T", "K K T"]])
    assert found.wer == 100 and found.per == pytest.approx(100 * 2 / 5)


def test_other_words_are_refused():
    for hypotheses, references in ((["K"], []), ([], []), (["K"], [["K"], ["T"]])):
        with pytest.raises(ValueError, match=f"{len(hypotheses)} hypotheses for"):
            error_rates(hypotheses, references)


# Files


@pytest.fixture
def files(tmp_path):
    """The pronunciations of three words, and outputs of which the second word's is wrong."""
    (tmp_path / "right").write_text("K AE1 T\nD AO1 G\tD AA1 G\nDH AH0\tDH IY0\n")
    hypotheses = ["K AE1 T", "D AH1 G", "DH IY0"]
    printed = [f"T-{i}\tX\nH-{i}\t-0.1\tX\nD-{i}\t-0.1\t{hypotheses[i]}\n" for i in (2, 0, 1)]
    (tmp_path / "printed").write_text("".join(printed))
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in hypotheses))
    return tmp_path


@pytest.mark.parametrize("kind", ["printed", "lines"])
def test_what_fairseq_printed_and_plain_lines_score_the_same(kind, files, capsys):
    out = files / "scores.json"
    words = ["score", "wer", str(files / kind), str(files / "right"), "--out", str(out)]
    assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(out.read_text())
    assert found["wer"] == pytest.approx(100 / 3) and found["per"] == pytest.approx(100 / 8)
    assert (found["right"], found["total"]) == (2, 3)


def test_wrong_files_are_named(files, capsys):
    (files / "short").write_text("K AE1 T\n")
    (files / "empty").write_text("K AE1 T\nD AO1 G\t\nDH AH0\n")
    for output, right, message in (
        (
            "short",
            "right",
            f"OUTPUT {files}/short: 1 pronunciations, but {files}/right has 3 words",
        ),
        ("lines", "empty", f"PRONUNCIATIONS {files}/empty: line 2 has a pronunciation without"),
        ("none", "right", f"{files}/none: No such file"),
    ):
        assert cli.main(["score", "wer", str(files / output), str(files / right)]) == 1
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert message in line


def test_without_rapidfuzz_the_extra_is_named(monkeypatch):
    for name in [n for n in sys.modules if n.startswith("rapidfuzz")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(UserError, match=r"rapidfuzz is missing; pip install 'pet-fairseq\[wer\]'"):
        error_rates(["K"], [["K"]])
