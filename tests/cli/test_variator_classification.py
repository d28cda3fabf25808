"""Plugins for an encoder that classifies sentences: fairseq's sentence_prediction and RoBERTa."""

import random

import pytest

from tests.cli.processes import REPO, TRAIN, run

COMMON = (
    *("--user-dir", REPO / "pet_fairseq", "--task", "sentence_prediction", "--num-classes", "2"),
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
    assert log.values("accuracy", "valid")[-1] > 75
