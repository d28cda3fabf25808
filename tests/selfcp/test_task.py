"""Task and data set: what is in a batch, and what training draws."""

import random

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.criterion import SelfCpCriterion
from pet_fairseq.selfcp.dataset import split_at
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.options import SelfCpConfig
from pet_fairseq.selfcp.task import SelfCpTask, SelfCpTaskConfig, read_range
from tests.selfcp.test_model import TINY, make_sample, make_selfcp
from tests.selfcp.test_model import task as language_modeling  # noqa: F401  fixture
from tests.translation import save_model

SIZE = 40


def write_parts(folder, split, seed):
    """Random texts; returns them by part."""
    draw = random.Random(seed)
    lengths = {"query": (0, 4), "prompt": (0, 30), "response": (1, 6)}
    texts = {}
    for part, (low, high) in lengths.items():
        rows = [
            [draw.randrange(4, 18) for _ in range(draw.randint(low, high))] for _ in range(SIZE)
        ]
        builder = MMapIndexedDatasetBuilder(str(folder / f"{split}.{part}.bin"), dtype=np.int32)
        for row in rows:
            builder.add_item(torch.tensor(row, dtype=torch.int32))
        builder.finalize(str(folder / f"{split}.{part}.idx"))
        texts[part] = rows
    return texts


@pytest.fixture
def data(tmp_path):
    dictionary = Dictionary()
    for i in range(13):
        dictionary.add_symbol(f"w{i}", n=20 - i)
    dictionary.add_symbol("<prompt>", n=1)
    dictionary.add_symbol("\u2581", n=1)
    dictionary.save(str(tmp_path / "dict.txt"))
    return {split: write_parts(tmp_path, split, i) for i, split in enumerate(("train", "test"))}


def make_task(folder, **options):
    options = {"train_subset": "train", "seed": 1, **options}
    return SelfCpTask.setup_task(SelfCpTaskConfig(data=str(folder), **options))


@pytest.mark.parametrize("split", ["train", "test"])
def test_batches_hold_what_was_written(split, data, tmp_path):
    task = make_task(tmp_path)
    task.load_dataset(split)
    batches = task.get_batch_iterator(task.dataset(split), max_tokens=120).next_epoch_itr()
    seen = []
    for batch in batches:
        net_input = batch["net_input"]
        assert batch["ntokens"] == int(batch["target"].ne(1).sum())
        assert ("ratios" in net_input) == ("latter" in net_input) == (split == "train")
        for i, number in enumerate(batch["id"].tolist()):
            query, prompt, response = (data[split][part][number] for part in data[split])
            source = net_input["src_tokens"][i]
            assert source[: net_input["src_lengths"][i]].tolist() == [2, *query, 0, *prompt]
            assert source[net_input["src_lengths"][i] :].eq(1).all()
            assert batch["target"][i][batch["target"][i] != 1].tolist() == [*response, 2]
            previous = net_input["prev_output_tokens"][i]
            assert previous[previous != 1].tolist() == [2, *response]
            seen.append(number)
    assert sorted(seen) == list(range(SIZE))


def test_training_draws_anew_in_each_epoch(data, tmp_path):
    task = make_task(tmp_path, memory_ratio_range="3,5")
    task.load_dataset("train")
    dataset = task.dataset("train")
    draws = []
    for epoch in (1, 2, 1):
        dataset.set_epoch(epoch)
        items = [dataset[i] for i in range(SIZE)]
        draws.append([(item["ratio"], item["latter"]) for item in items])
    assert draws[0] == draws[2] != draws[1]
    assert all(3 <= ratio <= 5 for ratio, _ in draws[0])
    assert len({ratio for ratio, _ in draws[0]}) == SIZE
    assert 8 < sum(latter for _, latter in draws[0]) < 32


def test_without_a_range_nothing_is_drawn(data, tmp_path):
    task = make_task(tmp_path, memory_ratio_range="")
    task.load_dataset("train")
    assert set(task.dataset("train")[0]) == {"id", "query", "prompt", "response"}


def test_lines_of_interactive(data, tmp_path):
    task = make_task(tmp_path)
    words = task.dictionary
    lines = ["w1 w2 <prompt> w3 w4 w5", "w6 w7", "<prompt> w1", "w1 <prompt> w2 <prompt> w3"]
    lines += ["w1 \u2581 <prompt> w2"]  # as SentencePiece makes it of "w1 <prompt> w2"
    tokens = [words.encode_line(line, add_if_not_exist=False).long() for line in lines]
    dataset = task.build_dataset_for_inference(tokens, [len(t) for t in tokens])
    batch = dataset.collater([dataset[i] for i in range(len(lines))])
    texts = [" ".join(words[i] for i in row) for row in batch["net_input"]["src_tokens"]]
    assert [t.replace(" <pad>", "") for t in texts] == [
        "</s> w1 w2 <s> w3 w4 w5",
        "</s> <s> w6 w7",
        "</s> <s> w1",
        "</s> w1 <s> w2 <prompt> w3",
        "</s> w1 <s> w2",
    ]
    assert batch["target"] is None and "prev_output_tokens" not in batch["net_input"]


def test_split_at():
    assert [t.tolist() for t in split_at(torch.tensor([5, 9, 6, 9]), 9)] == [[5], [6, 9]]
    assert [t.tolist() for t in split_at(torch.tensor([9]), 9)] == [[], []]


@pytest.mark.parametrize("text", ["2", "a,b", "0.5,3", "5,4", "1,inf", "nan,3", "1,2,3"])
def test_wrong_ranges(text):
    with pytest.raises(UserError, match=f"--memory-ratio-range {text}: give LOW,HIGH"):
        read_range(text)


def test_wrong_folders(data, tmp_path):
    with pytest.raises(UserError, match=r"none/dict.txt: no such file; give a folder made by"):
        make_task(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="Dataset not found: valid"):
        make_task(tmp_path).load_dataset("valid")
    task = make_task(tmp_path, prompt_symbol="<text>")
    with pytest.raises(UserError, match="--prompt-symbol <text>: not in the dictionary"):
        task.build_dataset_for_inference([torch.tensor([5, 2])], [2])


def test_another_dictionary_than_the_backbones(data, tmp_path, language_modeling):  # noqa: F811
    other = tmp_path / "other"
    other.mkdir()
    language_modeling.args.data = str(other)
    words = [f"v{i}" for i in range(14)]
    (other / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))
    path = save_model(tmp_path / "lm.pt", language_modeling, "transformer_lm", **TINY)
    task = make_task(tmp_path)
    cfg = SelfCpConfig(backbone_path=path, window=7)
    with pytest.raises(UserError, match=r"lm.pt: made with another dictionary"):
        SelfCpModel.build_model(cfg, task)


def test_the_loss_is_over_the_response_only(language_modeling, tmp_path):  # noqa: F811
    model = make_selfcp(language_modeling, tmp_path)
    sample = make_sample(language_modeling, [(2, 5), (1, 23)])
    sample |= {"ntokens": int(sample["target"].ne(1).sum()), "nsentences": 2}
    criterion = SelfCpCriterion(language_modeling, sentence_avg=False)
    loss, size, log = criterion(model, sample)
    with torch.no_grad():
        scores = model(**sample["net_input"])[0].log_softmax(dim=-1)
    real = [(b, t) for b in range(2) for t in range(sample["target"].size(1))]
    real = [(b, t) for b, t in real if sample["target"][b, t] != 1]
    expected = -sum(scores[b, t, sample["target"][b, t]] for b, t in real)
    assert loss.item() == pytest.approx(expected.item()) and size == len(real)
    right = sum(scores[b, t].argmax() == sample["target"][b, t] for b, t in real)
    assert log["right"] == right
    # 3 + 5 tokens, 2 + 23; the second's prompt: 16 in three segments, of which 2 tokens each, and 7
    assert log["prompt"] == 8 + 25 and log["read"] == 8 + 2 + 3 * 2 + 7


def test_a_batch_of_short_prompts_has_gradients_of_zero(language_modeling, tmp_path):  # noqa: F811
    model = make_selfcp(language_modeling, tmp_path).train()
    sample = make_sample(language_modeling, [(2, 5), (1, 7)])
    sample |= {"ntokens": int(sample["target"].ne(1).sum()), "nsentences": 2}
    SelfCpCriterion(language_modeling, sentence_avg=False)(model, sample)[0].backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert len(trained) == 3 and all(not p.grad.any() for p in trained)
