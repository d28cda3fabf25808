"""SelfCP by fairseq's own commands: a language model, its memory, responses to long prompts."""

import random

import numpy as np
import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

import pet_fairseq
from tests.cli.processes import LANGUAGE_MODELING, REPO, TRAIN, run

USER = ("--user-dir", REPO / "pet_fairseq")
PLAIN = [word for word in TRAIN if word not in ("--dropout", "0.1")]
TINY = (
    *("--decoder-layers", "2", "--decoder-embed-dim", "32", "--decoder-ffn-embed-dim", "64"),
    *("--decoder-attention-heads", "2", "--share-decoder-input-output-embed"),
)
SIZES = {"train": 600, "valid": 60, "test": 30}


def make_record(draw):
    """A prompt that is one word many times, and that word as the response."""
    word = f"w{draw.randrange(6)}"
    return {"query": "ask", "prompt": " ".join([word] * draw.randint(3, 30)), "response": word}


def write_subset(folder, split, rows, words):
    for part in ("query", "prompt", "response"):
        path = str(folder / f"{split}.{part}")
        builder = MMapIndexedDatasetBuilder(f"{path}.bin", dtype=np.int32)
        for row in rows:
            ids = [words.index(word) for word in row[part].split()]
            builder.add_item(torch.tensor(ids, dtype=torch.int32))
        builder.finalize(f"{path}.idx")


@pytest.fixture(scope="module")
def records():
    draw = random.Random(1)
    return {split: [make_record(draw) for _ in range(n)] for split, n in SIZES.items()}


@pytest.fixture(scope="module")
def data(records, tmp_path_factory):
    """The folder that pet-fairseq prompts makes, by hand; in lm/ the same as plain text."""
    folder = tmp_path_factory.mktemp("prompts")
    words = Dictionary()
    for i, word in enumerate(["ask", "<prompt>", *(f"w{i}" for i in range(6)), "rare"]):
        words.add_symbol(word, n=20 - i)
    words.save(str(folder / "dict.txt"))
    for split, rows in records.items():
        write_subset(folder, split, rows, words)
        text = "".join(f"ask {row['prompt']} {row['response']}\n" for row in rows)
        (folder / f"{split}.txt").write_text(text)
    splits = [f"--{split}pref={folder / split}.txt" for split in ("train", "valid")]
    given = ("--srcdict", folder / "dict.txt", "--destdir", folder / "lm")
    run("fairseq-preprocess", "--only-source", *splits, *given)
    return folder


@pytest.fixture(scope="module")
def backbone(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("backbone")
    run(
        *("fairseq-train", data / "lm", "--save-dir", folder, *LANGUAGE_MODELING, *PLAIN, *TINY),
        *("--arch", "transformer_lm", "--criterion", "cross_entropy", "--max-update", "150"),
        *("--max-target-positions", "64"),
    )
    return folder / "checkpoint_best.pt"


def train_selfcp(data, folder, backbone, *more, check=True):
    return run(
        *("fairseq-train", data, *USER, "--save-dir", folder, "--task", "selfcp", *PLAIN),
        *("--arch", "selfcp", "--backbone-path", backbone, "--window", "8", "--memory-ratio", "4"),
        *("--criterion", "selfcp_lm", "--max-update", "60", *more),
        check=check,
    )


@pytest.fixture(scope="module")
def trained(data, backbone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("selfcp")
    return folder / "checkpoint_best.pt", train_selfcp(data, folder, backbone)


GENERATE = ("--cpu", "--task", "selfcp", "--beam", "3", "--max-len-b", "5")


def hypotheses(data, path, *more):
    """Number, score and text of each answer."""
    result = run(
        *("fairseq-generate", data, *USER, *GENERATE, "--path", path),
        *("--required-batch-size-multiple", "1", *more),
    )
    lines = result.printed("H")
    assert len(lines) == SIZES["test"]
    return sorted(lines, key=lambda fields: int(fields[0][2:]))


def answers(data, path, *more):
    return [text for _, _, text in hypotheses(data, path, *more)]


@pytest.mark.slow
def test_low_rank_updates(data, backbone, tmp_path):
    """A model tuned on prompts that are cut, and trained further where it stopped."""
    tuned = ("--prompt-strategy", "truncate", "--lora-rank", "2", "--lora-on", "reader")
    for updates in (20, 30):
        log = train_selfcp(data, tmp_path, backbone, *tuned, "--max-update", updates)
    assert "@ 20 updates" in log.output
    path = tmp_path / "checkpoint_last.pt"
    state = load_checkpoint_to_cpu(str(path))["model"]
    assert state["encoder.low_rank.up.3"].any()  # queries and values of two layers
    assert set(state) == {
        *(f"encoder.low_rank.{side}.{i}" for side in ("down", "up") for i in range(4)),
        *("encoder.memory_tag", "encoder.connector.weight", "encoder.connector.bias"),
        *("backbone_hash", "dictionary_hash"),
    }
    assert len(answers(data, path)) == SIZES["test"]
    other = ("--model-overrides", "{'lora_rank': 0}")
    result = run(*("fairseq-generate", data, *USER, *GENERATE, "--path", path, *other), check=False)
    assert result.status != 0 and "Traceback" not in result.output
    assert "--lora-rank 0: the checkpoint has updates of rank 2" in result.output.splitlines()[-1]


def test_training(trained):
    _, log = trained
    losses = log.values("loss", "valid")
    assert losses[-1] < losses[0]
    assert log.values("read", "valid")[-1] < log.values("prompt", "valid")[-1]


def test_the_file_is_small(trained):
    state = load_checkpoint_to_cpu(str(trained[0]))["model"]
    names = {"encoder.memory_tag", "encoder.connector.weight", "encoder.connector.bias"}
    assert set(state) == names | {"backbone_hash", "dictionary_hash"}


def test_answers(data, records, trained):
    found = answers(data, trained[0])
    right = sum(a.split()[:1] == [r["response"]] for a, r in zip(found, records["test"]))
    assert right >= 20
    cut = answers(data, trained[0], "--model-overrides", "{'prompt_strategy': 'truncate'}")
    assert len(cut) == len(found)


@pytest.mark.slow
def test_interactive_answers_as_generate(data, records, trained):
    lines = "".join(f"{r['query']} <prompt> {r['prompt']}\n" for r in records["test"])
    result = run(
        *("fairseq-interactive", data, *USER, *GENERATE, "--path", trained[0]), text_in=lines
    )
    assert [text for _, _, text in result.printed("H")] == answers(data, trained[0])


def test_hub_answers_as_generate(data, records, trained):
    answerer = pet_fairseq.from_pretrained(str(trained[0]), str(data))
    lines = [f"{r['query']} <prompt> {r['prompt']}" for r in records["test"]]
    assert answerer.translate(lines, beam=3, max_len_b=5) == answers(data, trained[0])


def test_the_hub_completes_lines(data, trained, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "dict.txt").write_bytes((data / "dict.txt").read_bytes())
    (folder / "template.json").write_text('{"before": "w1 w2 "}')
    answerer = pet_fairseq.from_pretrained(str(trained[0]), str(folder))
    for line, completed in (
        ("ask <prompt> w3", "w1 w2 ask <prompt> w3"),
        ("w3", "w1 w2 <prompt> w3"),
    ):
        assert answerer.string(answerer.encode(line)) == completed


def test_a_training_resumed_within_an_epoch_is_the_same(data, backbone, tmp_path):
    """With a worker: 9 updates at once, and 7 and then 2 more, in the middle of an epoch."""
    options = ("--num-workers", "1", "--max-tokens", "4000", "--disable-validation")
    for folder, updates in (("whole", 9), ("parts", 7), ("parts", 9)):
        given = (*options, "--max-update", updates)
        log = train_selfcp(data, tmp_path / folder, backbone, *given)
    assert "Loaded checkpoint" in log.output and "epoch 3" in log.output.lower()
    states = [
        load_checkpoint_to_cpu(str(tmp_path / folder / "checkpoint_last.pt"))["model"]
        for folder in ("whole", "parts")
    ]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.slow
def test_the_control_reads_the_segments_of_other_prompts(data, records, backbone, tmp_path):
    """The checkpoint says so; answers do not have to be asked for it again."""
    train_selfcp(data, tmp_path, backbone, "--segments-from", "other", "--max-update", "3")
    path = tmp_path / "checkpoint_best.pt"
    overrides = ("--model-overrides", "{'segments_from': 'own'}")
    control, own = hypotheses(data, path), hypotheses(data, path, *overrides)
    lengths = [len(row["prompt"].split()) for row in records["test"]]
    same = [a[1] == b[1] for a, b in zip(control, own)]
    assert all(s for n, s in zip(lengths, same) if n <= 8)  # nothing is compressed
    assert not all(s for n, s in zip(lengths, same) if n > 8)


def test_prompts_over_max_tokens(data, backbone, trained, tmp_path):
    """They are read, in batches of their own, with a warning."""
    few = ("--max-tokens", "20", "--max-update", "2", "--disable-validation")
    log = train_selfcp(data, tmp_path, backbone, *few)
    assert "are longer, up to" in log.output
    assert len(answers(data, trained[0], "--max-tokens", "20")) == SIZES["test"]


def test_a_long_validation_set_stops_no_epoch_at_its_end(data, backbone, tmp_path):
    """Training raises the ratios that it draws, and would only stop when it validates."""
    words = Dictionary.load(str(data / "dict.txt"))
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "dict.txt").write_bytes((data / "dict.txt").read_bytes())
    rows = [{"query": "ask", "prompt": "w1 " * 300, "response": "w1"}] * 8
    for split in ("train", "valid"):
        write_subset(folder, split, rows, words)
    result = train_selfcp(folder, tmp_path / "out", backbone, "--max-update", "1", check=False)
    assert result.status != 0 and "Traceback" not in result.output
    last = result.output.splitlines()[-1]
    assert "--valid-subset valid: a query, its prompt and response come to" in last
    assert "tokens at --memory-ratio 4, but the backbone has" in last
    assert not list((tmp_path / "out").glob("*.pt"))
    again = ("--max-update", "1", "--disable-validation")
    assert "num_updates" in train_selfcp(folder, tmp_path / "out", backbone, *again).output


def test_a_resumed_training_reads_no_prompts_before_it(data, backbone, tmp_path):
    loads = []
    for updates in (2, 4):
        options = ("--standardise-on", "4", "--max-update", updates, "--disable-validation")
        log = train_selfcp(data, tmp_path, backbone, *options)
        loads.append(log.output.count(f"{SIZES['train']} examples from: {data / 'train.query'}"))
    assert "@ 2 updates" in log.output
    assert loads == [2, 1]  # for the connector's start, and for the training


@pytest.mark.slow
def test_bad_input(data, backbone, trained, tmp_path):
    half = tmp_path / "half.pt"
    half.write_bytes(trained[0].read_bytes()[:2000])
    other = tmp_path / "other"
    other.mkdir()
    for file in data.glob("*.*"):
        (other / file.name).write_bytes(file.read_bytes())
    (other / "dict.txt").write_text((data / "dict.txt").read_text().replace("w3", "v3"))
    for result, message in (
        (train_selfcp(data, tmp_path, backbone, "--memory-ratio", "0.5", check=False), "0.5: give"),
        (train_selfcp(data, tmp_path, backbone, "--window", "64", check=False), "--window 64: the"),
        (train_selfcp(data, tmp_path, trained[0], check=False), "holds a compressed model"),
        (train_selfcp(other, tmp_path, backbone, check=False), "made with another dictionary"),
        (train_selfcp(tmp_path, tmp_path, backbone, check=False), "dict.txt: no such file"),
        (
            train_selfcp(data, tmp_path, backbone, "--memory-ratio-range", "5,2", check=False),
            "--memory-ratio-range 5,2: give LOW,HIGH",
        ),
        (run("fairseq-generate", data, *USER, *GENERATE, "--path", half, check=False), "half.pt"),
    ):
        assert result.status != 0 and "Traceback" not in result.output
        assert message in result.output.splitlines()[-1]
