"""Plugins for an encoder that classifies sentences: fairseq's sentence_prediction and RoBERTa."""

import json
import random

import pytest

from tests.cli.processes import REPO, TRAIN, refusal, run

pytestmark = pytest.mark.slow

COMMON = (
    *("--user-dir", REPO / "pet_fairseq"),
    *("--task", "pet_sentence_prediction", "--num-classes", "2"),
    *(
        "--max-positions",
        "40",
        "--shorten-method",
        "truncate",
        "--best-checkpoint-metric",
        "accuracy",
    ),
    *("--maximize-best-checkpoint-metric",),
    *(word for word in TRAIN if word not in ("--dropout", "0.1")),
)
TINY = (
    *("--encoder-layers", "2", "--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "64"),
    *("--encoder-attention-heads", "2"),
)


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Sentences in which 'good' outnumbers 'bad' or not, as sentence_prediction wants them."""
    folder = tmp_path_factory.mktemp("reviews")
    draw = random.Random(1)
    for split, size in (("train", 400), ("valid", 60)):
        texts, labels = [], []
        for _ in range(size):
            label = draw.randrange(2)
            words = ["good" if label else "bad"] * 3 + ["good", "bad"]
            words += [f"w{draw.randrange(10)}" for _ in range(draw.randrange(9))]
            draw.shuffle(words)
            texts.append(" ".join(words) + "\n")
            labels.append(f"{label}\n")
        (folder / f"{split}.text").write_text("".join(texts))
        (folder / f"{split}.label").write_text("".join(labels))
    for kind, name in (("text", "input0"), ("label", "label")):
        splits = [f"--{s}pref={folder / s}.{kind}" for s in ("train", "valid")]
        run("fairseq-preprocess", "--only-source", *splits, f"--destdir={folder / 'bin' / name}")
    return folder / "bin"


@pytest.fixture(scope="module")
def backbone(reviews, tmp_path_factory):
    folder = tmp_path_factory.mktemp("backbone")
    log = run(
        *("fairseq-train", reviews, "--save-dir", folder, *COMMON, "--arch", "roberta", *TINY),
        *("--criterion", "sentence_prediction", "--max-update", "60", "--init-token", "0"),
        *("--separator-token", "2"),
    )
    assert log.values("accuracy", "valid")[-1] > 90
    return folder / "checkpoint_best.pt"


@pytest.mark.parametrize("site", ["ffn", "attention"])
def test_plugins_keep_the_accuracy(reviews, backbone, site, tmp_path):
    log = run(
        *("fairseq-train", reviews, "--save-dir", tmp_path, *COMMON, "--arch", "variator"),
        *("--init-token", "0", "--separator-token", "2", "--backbone-path", backbone),
        *("--compression-ratio", "2", "--bottleneck-dim", "8", "--compression-site", site),
        *("--criterion", "variator_distillation", "--max-update", "60"),
    )
    assert log.values("distance", "valid")[-1] < log.values("distance", "valid")[0]
    accuracy = log.values("accuracy", "valid")[-1]
    assert accuracy > 75
    result = classify(tmp_path / "checkpoint_best.pt", reviews)
    assert result["accuracy"] == pytest.approx(max(log.values("accuracy", "valid")), abs=0.01)
    assert result["total"] == 60


BART = (
    *("--arch", "bart_base", "--add-prev-output-tokens"),
    *(
        word
        for stack in ("encoder", "decoder")
        for word in (
            *(f"--{stack}-layers", "1", f"--{stack}-embed-dim", "32"),
            *(f"--{stack}-ffn-embed-dim", "64", f"--{stack}-attention-heads", "2"),
        )
    ),
)


def test_plugins_for_a_bart_that_classifies(reviews, tmp_path):
    """By the head that reads its decoder at </s>, with the task's loss too."""
    ends = ("--init-token", "0", "--separator-token", "2")
    log = run(
        *("fairseq-train", reviews, "--save-dir", tmp_path / "bart", *COMMON, *BART, *ends),
        *("--criterion", "sentence_prediction", "--max-update", "60"),
    )
    assert log.values("accuracy", "valid")[-1] > 90
    log = run(
        *("fairseq-train", reviews, "--save-dir", tmp_path / "plugins", *COMMON, *ends),
        *("--arch", "variator", "--backbone-path", tmp_path / "bart/checkpoint_best.pt"),
        *("--add-prev-output-tokens", "--compression-ratio", "2", "--bottleneck-dim", "8"),
        *("--criterion", "variator_distillation", "--task-loss-weight", "0.5"),
        *("--max-update", "60"),
    )
    assert log.values("distance", "valid")[-1] < log.values("distance", "valid")[0]
    assert log.values("accuracy", "valid")[-1] > 75
    result = classify(tmp_path / "plugins/checkpoint_best.pt", reviews)
    assert result["accuracy"] == pytest.approx(max(log.values("accuracy", "valid")), abs=0.01)


def classify(checkpoint, data, *more):
    words = ("score", "classes", checkpoint, data, "--subset", "valid")
    output = run("pet-fairseq", *words, *more).output
    return json.loads(output.splitlines()[-1])


def test_plugins_without_training_and_the_table(reviews, backbone, tmp_path):
    cheap = tmp_path / "mean_copy/checkpoint_best.pt"
    cheap.parent.mkdir()
    run(
        *("pet-fairseq", "new-plugins", backbone, "--compression-ratio", "2"),
        *("--compression", "mean", "--decompression", "copy", "--out", cheap),
    )
    (tmp_path / "backbone").mkdir()
    (tmp_path / "backbone/checkpoint_best.pt").symlink_to(backbone)
    accuracies = {}
    for name in ("backbone", "mean_copy"):
        out = tmp_path / name / "result.json"
        result = classify(tmp_path / name / "checkpoint_best.pt", reviews, "--out", out)
        accuracies[name] = result["accuracy"]
        hits = json.loads(out.read_text())["by_sentence"]
        assert (hits.count("1"), len(hits)) == (result["right"], result["total"])
    table = run("pet-fairseq", "plugins", tmp_path, "--length", "16").output
    rows = [[c.strip() for c in li.split("|")[1:-1]] for li in table.splitlines() if "%" in li]
    assert [row[0] for row in rows] == ["backbone", "mean_copy"] and rows[1][2] == "0"
    assert [row[5] for row in rows] == [f"{a:.2f}" for a in accuracies.values()]
    assert rows[0][4] == "100.0%" and 40 < float(rows[1][4][:-1]) < 100
    assert (tmp_path / "plugins.png").is_file() and (tmp_path / "plugins.json").is_file()
    table = run("pet-fairseq", "score", "tasks", f"reviews={tmp_path}").output
    assert table.count("| mean_copy |") == 2 and "[" in table  # scores; differences


def test_bad_input(reviews, backbone, tmp_path):
    score = ("score", "classes")
    for command, message in (
        ((*score, backbone, reviews, "--subset", "no"), "--subset no: not in"),
        ((*score, tmp_path / "no.pt", reviews), "no.pt: no such file"),
        (("plugins", tmp_path), "no run backbone with a result.json"),
        (("plugins", tmp_path, "--length", "0"), "--length 0: give 1 or more"),
    ):
        assert message in refusal(*command)
