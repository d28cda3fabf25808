"""The loss of each record's response, and rows side by side."""

import json
import math

import pytest
import torch

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.response_loss import compare_losses, response_losses
from pet_fairseq.selfcp.task import load_selfcp
from tests.selfcp.test_choose import folder  # noqa: F401  fixture


@pytest.mark.parametrize("strategy", ["former", "truncate", "full"])
@pytest.mark.parametrize("max_tokens", [60, 8000])
def test_record_by_record(folder, strategy, max_tokens):  # noqa: F811
    """In batches of any size, as each record alone gives it."""
    options = {"prompt_strategy": strategy, "window": 3, "memory_ratio": 2}
    found = response_losses(
        str(folder / "selfcp.pt"), str(folder), max_tokens=max_tokens, **options
    )
    model, task = load_selfcp(str(folder / "selfcp.pt"), str(folder), **options)
    task.load_dataset("test")
    dataset = task.dataset("test")
    nats, tokens, read = [], [], []
    with torch.inference_mode():
        for i in range(len(dataset)):
            sample = dataset.collater([dataset[i]])
            logits, extra = model(**sample["net_input"])[:2]
            (target,) = sample["target"]
            lprobs = logits[0].double().log_softmax(dim=-1)
            nats.append(-sum(float(lprobs[t, word]) for t, word in enumerate(target.tolist())))
            tokens.append(len(target))
            read.append(int(extra["read"]))
    assert list(found["tokens"]) == tokens and found["total"] == len(dataset)
    torch.testing.assert_close(
        torch.tensor(found["nats"]), torch.tensor(nats), rtol=1e-5, atol=1e-5
    )
    assert found["nll"] == pytest.approx(sum(nats) / sum(tokens), rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(found["nll"]))
    assert found["read"] == pytest.approx(sum(read) / len(read))


@pytest.mark.parametrize("sentences", [1, 7, 20, 50])
def test_some_of_the_records(folder, sentences):  # noqa: F811
    """They are from all over the subset, not the short ones that batches begin with."""
    given = (str(folder / "selfcp.pt"), str(folder))
    options = {"prompt_strategy": "truncate", "max_tokens": 60}
    all_of_them = response_losses(*given, **options)
    some = response_losses(*given, sentences=sentences, **options)
    number = min(sentences, 20)
    records = [20 * i // number for i in range(number)]
    assert some["total"] == number
    assert list(some["tokens"]) == [all_of_them["tokens"][i] for i in records]
    expected = [all_of_them["nats"][i] for i in records]
    assert list(some["nats"]) == pytest.approx(expected, rel=1e-5)


def test_the_folder_of_the_file_is_made(folder, tmp_path):  # noqa: F811
    given, out = (str(folder / "selfcp.pt"), str(folder)), tmp_path / "new" / "losses.json"
    found = response_losses(*given, prompt_strategy="truncate", out=out)
    assert json.loads(out.read_text())["nats"] == pytest.approx(list(found["nats"]))


def test_a_folder_that_cannot_be_made_is_found_before_the_work(folder, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("pet_fairseq.selfcp.response_loss.load_selfcp", None)  # the work begins so
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=f"--out {tmp_path}/file: is a file"):
        response_losses("selfcp.pt", str(folder), out=tmp_path / "file" / "losses.json")


@pytest.mark.parametrize("trained", ["own", "other"])
def test_memory_of_another_prompt(trained, folder, tmp_path):  # noqa: F811
    """A model is tested with either memory, whichever it was trained with."""
    words = {"prompt_strategy": "former", "window": 3, "memory_ratio": 2}
    path = folder / "selfcp.pt"
    state = load_checkpoint(str(path), "CHECKPOINT")
    state["cfg"].task.segments_from = trained
    torch.save(state, tmp_path / "selfcp.pt")

    def losses(**options):
        return response_losses(str(tmp_path / "selfcp.pt"), str(folder), **words, **options)["nats"]

    own, other = losses(segments_from="own"), losses(segments_from="other")
    assert own != other and losses() == (own if trained == "own" else other)


def write(path, nats, tokens=(2, 3), read=7):
    path.write_text(json.dumps({"nats": nats, "tokens": tokens, "read": read}))
    return path


def test_rows(tmp_path):
    """A mean over seeds, and differences of the same records, of which every one is 0.2 better."""
    own = [write(tmp_path / f"own{i}", [1.6 + d, 2.4 - d], read=6) for i, d in enumerate((-1, 1))]
    other = write(tmp_path / "other", [2.0, 3.0])
    words = [f"other={other}", *(f"own={file}" for file in own)]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in compare_losses(words, "other").splitlines()[2:]
    ]
    assert rows == [
        ["other", "7.0", "1.000", "2.72", ""],
        ["own", "6.0", "0.800", "2.23", "-0.200 [-0.200, -0.200]"],
    ]


def test_bad_rows(tmp_path):
    good, short = write(tmp_path / "a", [1.0, 2.0]), write(tmp_path / "b", [1.0], tokens=(2,))
    (tmp_path / "none").write_text("{}")
    for words, against, message in (
        ([f"a={good}"], "b", "--against b: not among a"),
        (["a"], "a", "a: give NAME=FILE"),
        ([f"a={good}", f"b={short}"], "a", "b: has other responses than a"),
        ([f"a={tmp_path}/none"], "a", "none: has no losses; make it by pet-fairseq response-loss"),
        ([f"a={tmp_path}/missing"], "a", "missing: no such file"),
    ):
        with pytest.raises(UserError, match=message):
            compare_losses(words, against)
