"""pet-fairseq score bleu and rouge on made-up outputs of fairseq-generate."""

import json
import math
import subprocess
import sys

import pytest

from pet_fairseq import cli
from tests.cli.processes import REPO, run

HYPOTHESES = ["the cat sat on the mat", "a dog", "birds are singing loudly today"]
RESPONSES = ["the cat sat on a mat", "a dog", "the birds sing today"]


def write_output(path, hypotheses=HYPOTHESES, targets=RESPONSES):
    lines = []
    for i in (2, 0, 1):  # fairseq writes the batches in another order
        if i < len(hypotheses):
            lines += [f"T-{i}\t{targets[i]}", f"H-{i}\t-0.5\tx", f"D-{i}\t-0.5\t{hypotheses[i]}"]
            lines += [f"D-{i}\t-0.9\tnot the best"]
    path.write_text("\n".join(lines) + "\n")  # as from `fairseq-generate >FILE`, without its log
    return path


@pytest.fixture
def scores(capsys):
    """Runs a scorer; its scores, or with fails=True the line it says on stderr."""

    def call(*args, fails=False):
        assert cli.main(["score", *map(str, args)]) == fails
        out, err = capsys.readouterr()
        return err if fails else json.loads(out)

    return call


def overlap(hypothesis, response, size):
    """F-measure of n-grams, by hand; none of the words here is changed by the stemmer but two."""
    stems = {"singing": "sing", "birds": "bird", "loudly": "loudli"}
    words = [[stems.get(w, w) for w in text.split()] for text in (hypothesis, response)]
    grams = [[tuple(w[i : i + size]) for i in range(len(w) - size + 1)] for w in words]
    common = sum(min(grams[0].count(g), grams[1].count(g)) for g in set(grams[0]))
    return 2 * common / (len(grams[0]) + len(grams[1]))


def test_rouge(scores, tmp_path):
    found = scores("rouge", write_output(tmp_path / "out"))
    for size in (1, 2):
        expected = [overlap(h, r, size) for h, r in zip(HYPOTHESES, RESPONSES)]
        assert found[f"rouge{size}"] == pytest.approx(100 * sum(expected) / 3)
    assert found["accuracy"] == pytest.approx(100 / 3) and found["total"] == 3
    (tmp_path / "responses").write_text("".join(f"{h}\n" for h in HYPOTHESES))
    own = scores("rouge", tmp_path / "out", "--responses", tmp_path / "responses")
    assert own["rougeL"] == own["accuracy"] == 100


def test_an_empty_reference(scores, tmp_path):
    (tmp_path / "empty").write_text("")
    error = scores("bleu", tmp_path / "empty", tmp_path / "empty", fails=True)
    assert f"error: REFERENCE {tmp_path}/empty: is empty; give the test set's" in error


# right response, response, ROUGE-1, ROUGE-2 and ROUGE-L by hand
BY_HAND = [
    # Sentences a b, c d and c d, a b: each of a to d is found in a sentence, so that L is 4/4; in
    # one piece it were c d or a b alone, 2/4. Of ab, bc, cd and cd, da, ab two pairs are common.
    ("a b . c d .", "c d . a b .", 1, 2 / 3, 1),
    # " ." is no end without a blank before it: one sentence each, and L is 2/4
    ("a b. c d.", "c d. a b.", 1, 2 / 3, 1 / 2),
    # a is hit by both sentences of the response, but counts once: 2 of 3 and 2 of 4 tokens
    ("a b e .", "a x . a b .", 2 * 2 / 7, 2 * 1 / 5, 2 * 2 / 7),
    # lower case, stems (runs, running), and no letters but a to z: "é" parts f from s
    ("The dogs RUNNING fés", "the dog runs f s", 1, 1, 1),
    ("a b", "", 0, 0, 0),
]


def test_rouge_in_the_form_of_files2rouge(scores, tmp_path):
    for case in BY_HAND:
        target, hypothesis, *expected = case
        out = write_output(tmp_path / "out", [hypothesis], [target])
        found = scores("rouge", out)
        values = [found[f"files2rouge_{kind}"] for kind in "12l"]
        assert values == pytest.approx([100 * value for value in expected]), case
    targets, hypotheses = zip(*(case[:2] for case in BY_HAND[:3]))
    found = scores("rouge", write_output(tmp_path / "out", hypotheses, targets))
    assert found["files2rouge_l"] == pytest.approx(100 * (1 + 1 / 2 + 4 / 7) / 3)


def test_rouge_of_text_without_blanks(scores, tmp_path):
    """Chinese characters are tokens of their own; with rouge-score's tokens all was 0."""
    hypotheses, targets = ["今天天气好", "Привет, мир!"], ["今天下雨", "привет всем"]
    found = scores("rouge", write_output(tmp_path / "out", hypotheses, targets))
    pairs = [("今 天 天 气 好", "今 天 下 雨"), ("привет мир", "привет всем")]
    for size in (1, 2):
        expected = [overlap(h, r, size) for h, r in pairs]
        assert found[f"rouge{size}"] == pytest.approx(100 * sum(expected) / 2)
    assert found["rougeL"] > 0


@pytest.mark.parametrize("text", ["The cats' running_dogs aren't 3.5 easy-going.", "A b? C", ""])
def test_tokens_of_ascii_are_rouge_scores(text):
    from nltk.stem.porter import PorterStemmer
    from rouge_score.tokenizers import DefaultTokenizer

    from pet_fairseq.results.score.rouge import Tokenizer

    found = Tokenizer(PorterStemmer()).tokenize(text)
    assert found == DefaultTokenizer(use_stemmer=True).tokenize(text)


def test_perplexity(scores, tmp_path):
    output, log = write_output(tmp_path / "out"), tmp_path / "log"
    line = "INFO | valid | valid on 'test' subset | loss 2 | accuracy 50.5 | ppl {} | wps 0"
    log.write_text("\n".join(["loading", line.format("4.00"), line.format("11.74")]))
    assert scores("rouge", output, "--validation", log)["ppl"] == 11.74
    for large in ("1.23457e+06", "inf"):  # as fairseq prints them
        log.write_text(line.format(large))
        assert scores("rouge", output, "--validation", log)["ppl"] == float(large)
    log.write_text(line.format("4.00").replace("wps 0", "read 38.5 | wps 0") + "\n")
    assert scores("rouge", output, "--validation", log)["read"] == 38.5
    log.write_text("loading\n")
    assert f"{log}: no perplexity in it" in scores("rouge", output, "--validation", log, fails=True)


def test_bleu(scores, tmp_path):
    (tmp_path / "reference").write_text("".join(f"{r}\n" for r in RESPONSES))
    found = scores("bleu", write_output(tmp_path / "out"), tmp_path / "reference")
    assert found["total"] == 3 and "tok:13a" in found["signature"]
    precisions = []
    for size in range(1, 5):
        common = total = 0
        for hypothesis, response in zip(HYPOTHESES, RESPONSES):
            grams = [
                [tuple(w[i : i + size]) for i in range(len(w) - size + 1)]
                for w in (hypothesis.split(), response.split())
            ]
            common += sum(min(grams[0].count(g), grams[1].count(g)) for g in set(grams[0]))
            total += len(grams[0])
        precisions.append(common / total)
    lengths = [sum(len(text.split()) for text in texts) for texts in (HYPOTHESES, RESPONSES)]
    brevity = min(0, 1 - lengths[1] / lengths[0])
    expected = math.exp(brevity + sum(map(math.log, precisions)) / 4)
    assert found["bleu"] == pytest.approx(100 * expected)
    assert found["tokenised_bleu"] == pytest.approx(0)  # H-lines are all x
    assert found["chrf"] == pytest.approx(slow_chrf(HYPOTHESES, RESPONSES))
    assert "nc:6|nw:0" in found["chrf_signature"]


def slow_chrf(hypotheses, responses):
    """chrF2: the F2 of precision and recall of letters, averaged over n-grams up to 6."""
    precisions, recalls = [], []
    for size in range(1, 7):
        common = ours = theirs = 0
        for pair in zip(hypotheses, responses):
            texts = [text.replace(" ", "") for text in pair]
            grams = [[t[i : i + size] for i in range(len(t) - size + 1)] for t in texts]
            common += sum(min(grams[0].count(g), grams[1].count(g)) for g in set(grams[0]))
            ours, theirs = ours + len(grams[0]), theirs + len(grams[1])
        precisions.append(common / ours)
        recalls.append(common / theirs)
    precision, recall = sum(precisions) / 6, sum(recalls) / 6
    return 100 * 5 * precision * recall / (4 * precision + recall)


def test_bleu_of_tokenised_text(scores, tmp_path):
    """Punctuation is a token there only where the data have it so; left out with --quiet."""
    output = write_output(tmp_path / "out", targets=[f"{text} ." for text in HYPOTHESES])
    text = output.read_text()
    for i, hypothesis in enumerate(HYPOTHESES):
        text = text.replace(f"H-{i}\t-0.5\tx\n", f"H-{i}\t-0.5\t{hypothesis} .\n")
    output.write_text(text)
    (tmp_path / "reference").write_text("".join(f"{r}\n" for r in RESPONSES))
    found = scores("bleu", output, tmp_path / "reference")
    assert found["tokenised_bleu"] == pytest.approx(100) and found["bleu"] < 99
    output.write_text("".join(line for line in text.splitlines(True) if line.startswith("D-")))
    assert "tokenised_bleu" not in scores("bleu", output, tmp_path / "reference")


def test_translations_as_plain_text(scores, tmp_path):
    """They score as in what fairseq-generate printed, but for the tokens that only that has."""
    (tmp_path / "reference").write_text("".join(f"{r}\n" for r in RESPONSES))
    (tmp_path / "plain").write_text("".join(f"{h}\n" for h in HYPOTHESES))
    expected = scores("bleu", write_output(tmp_path / "out"), tmp_path / "reference")
    del expected["tokenised_bleu"]
    assert scores("bleu", tmp_path / "plain", tmp_path / "reference") == expected


@pytest.fixture
def sacrebleu_set(tmp_path, monkeypatch):
    """A test set in the place where sacreBLEU keeps those that it has downloaded."""
    from sacrebleu.dataset import DATASETS

    folder = tmp_path / "cache"
    folder.mkdir()
    for field, lines in (("src", SOURCES), ("ref", RESPONSES)):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"multi30k_2016.en-de.{field}").write_text(text)
    monkeypatch.setattr(DATASETS["multi30k/2016"], "_outdir", str(folder))
    return "sacrebleu:multi30k/2016:en-de"


def test_a_test_set_that_sacrebleu_knows(scores, sacrebleu_set, tmp_path):
    output = write_output(tmp_path / "out")
    (tmp_path / "reference").write_text("".join(f"{r}\n" for r in RESPONSES))
    assert scores("bleu", output, sacrebleu_set) == scores("bleu", output, tmp_path / "reference")
    for word, message in (
        ("sacrebleu:multi30k/2016", "name its languages, such as sacrebleu:multi30k/2016:de-en"),
        ("sacrebleu:multi30k/2016:de-en", "has no de-en, only en-fr, en-de, en-cs; name one of"),
        ("sacrebleu:multi30k/206", "sacreBLEU has no such test set, did you mean multi30k/2016?"),
    ):
        line = scores("bleu", output, word, fails=True)
        assert f"REFERENCE {word}: {message}" in line and line.count("\n") == 1


@pytest.mark.cold  # sacreBLEU reads where its files lie when it is loaded
def test_a_test_set_that_is_not_there(tmp_path):
    """Without a network it says where the files could be put."""
    write_output(tmp_path / "out")
    words = ("score", "bleu", tmp_path / "out", "sacrebleu:multi30k/2016:en-de")
    offline = dict.fromkeys(("http_proxy", "https_proxy"), "http://localhost:9")
    env = {"SACREBLEU": str(tmp_path / "cache"), **offline}
    done = run("pet-fairseq", *words, env=env, check=False)
    assert done.status == 1
    line = done.output.splitlines()[-1]
    assert "REFERENCE sacrebleu:multi30k/2016:en-de: sacreBLEU cannot get it (" in line
    assert line.endswith(f"copy {tmp_path}/cache/multi30k/2016 from a machine that has it")


SOURCES = ["die Katze", "ein Hund", "Vögel singen"]


def test_comet(scores, comet, sacrebleu_set, tmp_path):
    """By a model's name, its folder or its file; the source is given or sacreBLEU's."""
    for name, lines in (("source", SOURCES), ("reference", RESPONSES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    texts = (write_output(tmp_path / "out"), tmp_path / "reference")
    source = ("--source", tmp_path / "source", "--device", "cpu")
    expected = sum(
        len(s) + len(h) / 10 + len(r) / 100 for s, h, r in zip(SOURCES, HYPOTHESES, RESPONSES)
    )
    for model in ("Unbabel/tiny", comet, comet / "checkpoints/model.ckpt"):
        found = scores("bleu", *texts, "--comet", model, *source)
        assert found["comet"] == pytest.approx(100 * expected / 3)
        assert found["comet_model"] == str(model) and found["total"] == 3
    named = scores("bleu", texts[0], sacrebleu_set, "--comet", comet, "--device", "cpu")
    assert named["comet"] == pytest.approx(100 * expected / 3)


def test_wrong_words_for_comet(scores, comet, monkeypatch, tmp_path):
    (tmp_path / "short").write_text("one line\n")
    (tmp_path / "reference").write_text("".join(f"{r}\n" for r in RESPONSES))
    texts = (write_output(tmp_path / "out"), tmp_path / "reference", "--device", "cpu")
    short = ("--source", tmp_path / "short")
    whole = ("--source", tmp_path / "reference")
    (tmp_path / "empty").mkdir()
    for words, message in (
        (("Unbabel/tiny",), "--comet Unbabel/tiny: reads the source, too; give it with --source"),
        (("Unbabel/tiny", *short), f"--source {tmp_path}/short: 1 sentences, but "),
        ((tmp_path / "empty", *whole), f"--comet {tmp_path}/empty: has no checkpoint"),
        (("wmt99", *whole), "--comet wmt99: cannot be loaded ("),
    ):
        assert message in scores("bleu", *texts, "--comet", *words, fails=True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    line = scores("bleu", *texts, "--comet", "Unbabel/tiny", *whole, fails=True)
    assert "--comet Unbabel/tiny: COMET is missing; pip install 'pet-fairseq[comet]'" in line


@pytest.mark.parametrize("kind", ["bleu", "rouge"])
def test_bad_input(scores, kind, tmp_path):
    out, other = write_output(tmp_path / "out"), tmp_path / "other"
    other.write_text("one line\n")
    tokenised = tmp_path / "tokenised"
    tokenised.write_text("T-0\tx\nH-0\t-0.5\tx\n")
    more = (other,) if kind == "bleu" else ("--responses", other)
    for args, message in (
        ((out, *more), f"{out}: 3 "),
        ((tokenised, *more), f"OUTPUT {tokenised}: has no D- lines"),
        ((tmp_path / "none", *more), f"{tmp_path}/none: No such file or directory"),
    ):
        assert message in scores(kind, *args, fails=True)


def test_scoring_text_needs_no_models(tmp_path):
    """Neither torch nor fairseq is loaded: a score takes no seconds to start."""
    output = write_output(tmp_path / "out", targets=HYPOTHESES)
    (tmp_path / "reference").write_text("".join(f"{h}\n" for h in HYPOTHESES))
    words = ["score", "bleu", str(output), str(tmp_path / "reference")]
    code = f"""
import sys
from pet_fairseq import cli
from tests.cli.processes import REPO
assert cli.main({words}) == 0
assert not {{"torch", "fairseq"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPO)
    assert json.loads(done.stdout)["bleu"] == pytest.approx(100), done.stderr


@pytest.mark.parametrize("kind", ["rouge", "accuracy", "wer"])
def test_the_folder_for_scores_is_made_before_they_are_computed(kind, scores, tmp_path):
    output = write_output(tmp_path / "out")
    (tmp_path / "right").write_text("".join(f"{text}\n" for text in RESPONSES))
    given = () if kind == "rouge" else (tmp_path / "right",)
    found = scores(kind, output, *given, "--out", tmp_path / "new/scores.json")
    assert json.loads((tmp_path / "new/scores.json").read_text()) == found
