"""Plugins for the prompts of a language model, by fairseq's own commands."""

import random

import pytest

from tests.cli.processes import REPO, TRAIN, run

pytestmark = pytest.mark.slow

COMMON = (
    *("--user-dir", REPO / "pet_fairseq", "--task", "language_modeling"),
    *("--sample-break-mode", "eos", "--tokens-per-sample", "40"),
    *(word for word in TRAIN if word not in ("--dropout", "0.1")),
)
TINY = (
    *("--decoder-layers", "2", "--decoder-embed-dim", "32", "--decoder-ffn-embed-dim", "64"),
    *("--decoder-attention-heads", "2", "--share-decoder-input-output-embed"),
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Prompts of one word many times, then that word: full texts, and prompts alone for testing."""
    folder = tmp_path_factory.mktemp("texts")
    draw = random.Random(1)
    for split, size in (("train", 600), ("valid", 60), ("test", 20)):
        lines = []
        for _ in range(size):
            word = f"w{draw.randrange(6)}"
            prompt = " ".join([word] * draw.randint(3, 12)) + " <sep>"
            lines.append(f"{prompt}\n" if split == "test" else f"{prompt} {word} {word}\n")
        (folder / f"{split}.text").write_text("".join(lines))
    splits = [f"--{s}pref={folder / s}.text" for s in ("train", "valid", "test")]
    run("fairseq-preprocess", "--only-source", *splits, f"--destdir={folder / 'bin'}")
    return folder / "bin"


def answers(texts, path, *more):
    """Each test sentence's prompt word and the answer, in the order of the test set."""
    result = run(
        *("fairseq-generate", texts, "--user-dir", REPO / "pet_fairseq", "--cpu", "--path", path),
        *("--task", "language_modeling", "--sample-break-mode", "eos", "--beam", "2", *more),
        *("--required-batch-size-multiple", "1", "--max-len-b", "20"),
    )
    lines = result.printed("H")
    assert len(lines) == 20
    return [text.split(" <sep> ") for _, _, text in lines]


@pytest.fixture(scope="module")
def backbone(texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    run(
        *("fairseq-train", texts, "--save-dir", folder, *COMMON, "--arch", "transformer_lm"),
        *(*TINY, "--criterion", "cross_entropy", "--max-update", "150"),
    )
    return folder / "checkpoint_best.pt"


def right(found):
    return sum(prompt.split()[0] == answer.split()[0] for prompt, answer in found)


def test_compressed_prompts_are_answered(texts, backbone, tmp_path):
    assert right(answers(texts, backbone)) >= 18
    log = run(
        *("fairseq-train", texts, "--save-dir", tmp_path, *COMMON, "--arch", "variator"),
        *("--backbone-path", backbone, "--prompt-end", "<sep>", "--compression-ratio", "3"),
        *("--bottleneck-dim", "8", "--criterion", "variator_distillation", "--max-update", "60"),
    )
    distances = log.values("distance", "valid")
    assert distances[-1] < distances[0]
    plugins = tmp_path / "checkpoint_best.pt"
    assert right(answers(texts, plugins)) >= 15
    plain = answers(texts, plugins, "--model-overrides", "{'compression_ratio': 1}")
    assert plain == answers(texts, backbone)


def test_a_prompt_end_that_is_no_symbol(texts, backbone, tmp_path):
    result = run(
        *("fairseq-train", texts, "--save-dir", tmp_path, *COMMON, "--arch", "variator"),
        *("--backbone-path", backbone, "--prompt-end", "<end>"),
        *("--criterion", "variator_distillation", "--max-update", "1"),
        check=False,
    )
    assert result.status != 0
    assert "--prompt-end '<end>': not in the dictionary" in result.output.splitlines()[-1]
