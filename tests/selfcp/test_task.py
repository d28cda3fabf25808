"""Task and data set: what is in a batch, and what training draws."""

import random
import re
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from omegaconf import OmegaConf

from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.criterion import SelfCpCriterion
from pet_fairseq.selfcp.dataset import pair_with_others
from pet_fairseq.selfcp.draws import read_range
from pet_fairseq.selfcp.input_lines import split_at
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.options import SelfCpConfig
from pet_fairseq.selfcp.task import SelfCpTask, SelfCpTaskConfig
from pet_fairseq.selfcp.template import Template
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
    options = {"seed": 1, "finetune_from_model": None, **options}
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
        names = {"src_tokens", "src_lengths", "query_lengths", "prev_output_tokens"}
        assert set(net_input) == names
        for i, number in enumerate(batch["id"].tolist()):
            query, prompt, response = (data[split][part][number] for part in data[split])
            source = net_input["src_tokens"][i]
            assert source[: net_input["src_lengths"][i]].tolist() == [2, *query, 0, *prompt]
            assert source[net_input["src_lengths"][i] :].eq(1).all()
            assert net_input["query_lengths"][i] == 1 + len(query)
            assert batch["target"][i][batch["target"][i] != 1].tolist() == [*response, 2]
            previous = net_input["prev_output_tokens"][i]
            assert previous[previous != 1].tolist() == [2, *response]
            seen.append(number)
    assert sorted(seen) == list(range(SIZE))


class Recorder(torch.nn.Module):
    """Stands for criterion and optimizer: notes what training gives the model."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, model, sample):
        net_input = sample["net_input"]
        self.seen.append((sample["id"].tolist(), net_input["ratios"], net_input["latter"]))
        return torch.zeros((), requires_grad=True), 1, {}

    def backward(self, loss):
        pass


class NoModel(torch.nn.Module):
    encoder = SimpleNamespace(cfg=SelfCpConfig())

    def set_num_updates(self, number):
        pass


def train_epochs(folder, epochs, workers, skip=0, **options):
    """What training draws for the records of some epochs; `skip` batches were trained before."""
    task = make_task(folder, **options)
    task.load_dataset("train")
    batches = task.get_batch_iterator(
        task.dataset("train"), max_sentences=7, seed=3, num_workers=workers, epoch=epochs[0]
    )
    if skip:
        place = {"version": 2, "epoch": epochs[0], "iterations_in_epoch": skip, "shuffle": True}
        batches.load_state_dict(place)
    model, drawn = NoModel(), []
    for epoch in epochs:
        recorder = Recorder()
        iterator = batches.next_epoch_itr()
        assert batches.epoch == epoch
        task.begin_epoch(epoch, model)
        for sample in iterator:
            task.train_step(sample, model, recorder, recorder, 0)
        drawn.append(recorder.seen)
    return drawn


@pytest.mark.parametrize("workers", [0, 1])
def test_training_draws_anew_in_each_epoch(workers, data, tmp_path):
    first, second = train_epochs(tmp_path, (1, 2), workers, memory_ratio_range="3,5")
    draws = [
        {n: (r, side) for some in epoch for n, r, side in zip(*some)} for epoch in (first, second)
    ]
    assert draws[0].keys() == draws[1].keys() == set(range(SIZE))
    assert not any(draws[0][i][0] == draws[1][i][0] for i in range(SIZE))
    assert all(3 <= ratio <= 5 for ratio, _ in draws[0].values())
    assert len({ratio for ratio, _ in draws[0].values()}) == SIZE
    assert 8 < sum(latter for _, latter in draws[0].values()) < 32


def test_a_resumed_training_reads_and_draws_what_the_other_would_have(data, tmp_path):
    whole = train_epochs(tmp_path, (1, 2, 3), 1)
    assert train_epochs(tmp_path, (2, 3), 1, skip=2) == [whole[1][2:], whole[2]]
    assert train_epochs(tmp_path, (1, 2, 3), 0) == whole


def test_without_a_range_and_in_validation_nothing_is_drawn(data, tmp_path):
    task = make_task(tmp_path, memory_ratio_range="")
    task.load_dataset("train")
    dataset = task.dataset("train")
    assert set(dataset[0]) == {"id", "query", "prompt", "response"}
    recorder, sample = Recorder(), dataset.collater([dataset[0]])
    for step in (
        lambda: task.train_step(sample, NoModel(), recorder, recorder, 0),
        lambda: make_task(tmp_path).valid_step(sample, NoModel(), recorder),
    ):
        with pytest.raises(KeyError, match="ratios"):
            step()


@pytest.mark.slow
@pytest.mark.parametrize("most", [40, 20, 4])
def test_what_is_longer_than_max_tokens_is_a_batch_of_its_own(most, data, tmp_path, caplog):
    task = make_task(tmp_path)
    task.load_dataset("train")
    sizes = task.dataset("train").sizes
    batches = task.get_batch_iterator(task.dataset("train"), max_tokens=most).frozen_batches
    assert sorted(i for batch in batches for i in batch) == list(range(SIZE))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(sizes[batch]) <= most
    longer = (sizes > most).sum()
    message = f"--max-tokens {most}: {longer} of 40 records are longer, up to {sizes.max()} tokens"
    assert (message in caplog.text) == bool(longer)


# --- the control: segments of other prompts -------------------------------------------------------


def test_another_prompt_comes_with_each(data, tmp_path):
    task = make_task(tmp_path, segments_from="other")
    task.load_dataset("train")
    dataset, prompts = task.dataset("train"), data["train"]["prompt"]
    batch = dataset.collater([dataset[i] for i in range(SIZE)])["net_input"]
    for i, (row, n) in enumerate(zip(batch["others"], batch["other_lengths"])):
        other = row[:n].tolist()
        assert other in prompts and other != prompts[i]
        if len(other) < len(prompts[i]):  # only of the longest ones
            assert len(prompts[i]) == max(map(len, prompts))


def test_copies_of_a_prompt_are_no_others():
    texts = [[5, 6], [5, 6], [7, 8], [5, 6], []]
    rows = Rows(texts)
    *others, of_empty = (texts[i] for i in pair_with_others(rows))
    assert others == [[7, 8], [7, 8], [5, 6], [7, 8]] and of_empty in ([5, 6], [7, 8])
    with pytest.raises(UserError, match="--segments-from other: all prompts are the same"):
        pair_with_others(Rows([[5, 6], [5, 6], []]))


def test_the_other_prompt_is_no_neighbour():
    """Neighbours in a file may be parts of one document, and say much about each other."""
    others = pair_with_others(Rows([[i, 2] for i in range(400)]))
    distances = [abs(int(other) - i) for i, other in enumerate(others)]
    assert min(distances) > 0 and sum(d < 10 for d in distances) < 40  # 20 expected by chance
    assert len(set(others.tolist())) >= 399  # but for the last one, each is another one's


class Rows:
    """Tokens as fairseq's data sets have them."""

    def __init__(self, texts):
        self.texts = texts
        self.sizes = np.array([len(text) for text in texts])

    def __getitem__(self, index):
        return torch.tensor(self.texts[index])


def test_a_models_own_task_says_whose_segments_are_read(data, tmp_path):
    task = make_task(tmp_path)
    task.load_dataset("test", task_cfg=SelfCpTaskConfig(segments_from="other"))
    assert "other" in task.dataset("test")[0]
    task.load_dataset("test", task_cfg=object())  # of a checkpoint before there was the option
    assert "other" not in task.dataset("test")[0]


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


def test_a_line_may_hold_the_symbol_that_ends_it(data, tmp_path):
    """A chat's text has the end of its turns in it; </s> ends fairseq's lines, too."""
    task = make_task(tmp_path)
    symbol = task.dictionary.index("<prompt>")
    dataset = task.build_dataset_for_inference([torch.tensor([5, 2, 6, symbol, 7, 2, 8, 2])], [8])
    net_input = dataset.collater([dataset[0]])["net_input"]
    assert net_input["src_tokens"].tolist() == [[2, 5, 2, 6, 0, 7, 2, 8]]


def test_interactive_does_not_tell_where_a_query_with_the_boundary_ends(data, tmp_path):
    task = make_task(tmp_path)
    symbol = task.dictionary.index("<prompt>")
    generator = SimpleNamespace(generate=lambda models, sample, **options: "answers")
    dataset = task.build_dataset_for_inference([torch.tensor([0, 5, symbol, 6, 2])], [5])
    net_input = dataset.collater([dataset[0]])["net_input"]
    assert net_input["query_lengths"].tolist() == [3]
    assert task.inference_step(generator, [], {"net_input": net_input}) == "answers"
    del net_input["query_lengths"]  # as fairseq-interactive does
    with pytest.raises(UserError, match="input: a line has <s> in its text, and fairseq-"):
        task.inference_step(generator, [], {"net_input": net_input})


def test_interactive_knows_the_boundaries_of_the_template(data, tmp_path):
    """Llama's templates begin with <s>."""
    task = make_task(tmp_path)
    task.template = Template(before="<s> w1 ")
    tokens, _ = task.get_interactive_tokens_and_lengths(["w2 <prompt> w3", "w4"], str)
    dataset = task.build_dataset_for_inference(tokens, [])
    net_input = dataset.collater([dataset[0], dataset[1]])["net_input"]
    expected = net_input.pop("query_lengths")
    generator = SimpleNamespace(generate=lambda models, sample, **options: sample["net_input"])
    found = task.inference_step(generator, [], {"net_input": net_input})["query_lengths"]
    assert found.tolist() == expected.tolist() == [4, 3]
    task.template = Template(before="w1 <prompt> ")
    with pytest.raises(UserError, match="--prompt-symbol <prompt>: stands in the text in front of"):
        task.get_interactive_tokens_and_lengths(["w2 <prompt> w3"], str)


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
    with pytest.raises(UserError, match=r"--prompt-symbol <text>: not in .*; give a word of it"):
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


def test_a_cue_of_the_folder(data, tmp_path):
    (tmp_path / "cue.txt").write_text("w3 w1\n")
    task = make_task(tmp_path)
    task.load_dataset("test")
    dataset = task.dataset("test")
    batch = dataset.collater([dataset[0], dataset[1]])
    assert batch["net_input"]["cue"].tolist() == [task.dictionary.index(w) for w in ("w3", "w1")]
    lengths = [len(data["test"][part][0]) for part in ("query", "prompt", "response")]
    assert dataset.size(0) == sum(lengths) + 5  # </s> before and behind, <s>, and the cue
    lines = task.build_dataset_for_inference([torch.tensor([5, 6])], [2])
    assert lines.collater([lines[0]])["net_input"]["cue"].tolist() == task.cue.tolist()
    asked = []
    generator = SimpleNamespace(generate=lambda models, sample, **options: asked.append(sample))
    tokens = lines.collater([lines[0]])["net_input"]["src_tokens"]
    task.inference_step(generator, [], {"net_input": {"src_tokens": tokens}})  # interactive's
    task.inference_step(generator, [], {"net_input": {"src_tokens": tokens, "cue": None}})
    assert [sample["net_input"]["cue"] for sample in asked] == [task.cue, None]
    for text, message in (("w3 w99\n", "the dictionary lacks w99"), ("\n", "is empty")):
        (tmp_path / "cue.txt").write_text(text)
        with pytest.raises(UserError, match=f"cue.txt: {message}; make the folder again"):
            make_task(tmp_path)


def test_a_validation_set_that_does_not_fit_is_refused_before_the_first_epoch(data, tmp_path):
    """Of a query, a prompt, the cue and a response; in training a drawn ratio would be raised."""
    (tmp_path / "cue.txt").write_text("w3 w1\n")
    path = save_model(tmp_path / "lm.pt", make_task(tmp_path), "transformer_lm", **TINY)
    lengths = [tuple(map(len, record)) for record in zip(*data["test"].values())]
    most = max(1 + query + max(prompt + 2 + response, 0) for query, prompt, response in lengths)
    refused = f"^--valid-subset test: .* come to {most} tokens at --memory-ratio 12, but"
    for positions in (most, most - 1):
        task = make_task(tmp_path, valid_subset="valid1,test")
        model = SelfCpModel.build_model(SelfCpConfig(backbone_path=path, window=31), task)
        model.decoder.inner.max_target_positions = positions
        task.load_dataset("train")
        task.begin_epoch(1, model)  # as with --disable-validation
        task.load_dataset("test")
        task.begin_epoch(2, model)
        if positions == most:
            task.begin_epoch(1, model)
            continue
        with pytest.raises(UserError, match=refused):
            task.begin_epoch(1, model)


def find_what_fits(task, model, split, draw):
    """Compare what is refused before the first epoch with what the model reads, record by record.

    Args:
        draw: gives what training draws for a batch.
    """
    task.load_dataset(split)
    dataset = task.dataset(split)

    @torch.no_grad()
    def fits(record):
        sample = dataset.collater([record])
        try:
            model(**sample["net_input"], **draw(sample))
        except UserError:
            return False
        return True

    seen = set()
    for positions in range(6, max(map(sum, dataset.lengths())) + 1):
        model.decoder.inner.max_target_positions = positions
        all_fit = all(map(fits, dataset))
        seen.add(all_fit)
        refused = pytest.raises(UserError, match=f"^--.* {split}: .* has {positions} positions; ")
        with nullcontext() if all_fit else refused:
            task.begin_epoch(1, model)
    assert seen == {True, False}


@pytest.mark.parametrize("strategy", ["perplexity", "perplexity_equal"])
def test_thinned_out_prompts_are_read_before_the_first_epoch(strategy, data, tmp_path, caplog):
    """How much is left of them is known when the backbone has read them."""
    path = save_model(tmp_path / "lm.pt", make_task(tmp_path), "transformer_lm", **TINY)
    cfg = SelfCpConfig(backbone_path=path, window=9, prompt_strategy=strategy, memory_ratio=3)
    task = make_task(tmp_path, valid_subset="test")
    model = SelfCpModel.build_model(cfg, task).eval()
    find_what_fits(task, model, "test", lambda sample: {})
    caplog.clear()
    long = sum(sum(lengths) > 30 for lengths in task.dataset("test").lengths())
    model.decoder.inner.max_target_positions = 30
    caplog.set_level("INFO")
    task.begin_epoch(1, model)
    assert long and f"reading {long} long records of test, to see how much" in caplog.text
    caplog.clear()
    model.decoder.inner.max_target_positions = 100
    task.begin_epoch(1, model)
    assert "long records" not in caplog.text


@pytest.mark.parametrize("ratios", ["", "3,3"])
@pytest.mark.parametrize("strategy", ["auto", "recursive", "truncate", "perplexity_equal", "full"])
def test_a_training_set_that_does_not_fit_is_refused_before_the_first_epoch(
    strategy, ratios, data, tmp_path
):
    """Drawn ratios are raised, where they count; without a range they are what they are."""
    path = save_model(tmp_path / "lm.pt", make_task(tmp_path), "transformer_lm", **TINY)
    cfg = SelfCpConfig(backbone_path=path, window=14, prompt_strategy=strategy, memory_ratio=4)
    task = make_task(tmp_path, train_subset="train", memory_ratio_range=ratios)
    model = SelfCpModel.build_model(cfg, task)
    find_what_fits(task, model, "train", lambda sample: task._draws(sample, epoch=1))


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("ratios", ["", "3,5"])
@pytest.mark.parametrize(
    ("strategy", "raised", "counts"),
    [("former", True, True), ("truncate_equal", False, True), ("perplexity_equal", False, True)]
    + [(name, False, False) for name in ("truncate", "truncate_latter", "perplexity", "full")],
)
def test_the_refusal_names_what_would_help(strategy, raised, counts, ratios, split, data, tmp_path):
    path = save_model(tmp_path / "lm.pt", make_task(tmp_path), "transformer_lm", **TINY)
    cfg = SelfCpConfig(backbone_path=path, window=14, prompt_strategy=strategy, memory_ratio=4)
    task = make_task(tmp_path, train_subset="train", valid_subset="test", memory_ratio_range=ratios)
    model = SelfCpModel.build_model(cfg, task)
    task.load_dataset(split)
    model.decoder.inner.max_target_positions = 8
    drawn = ratios and split == "train"
    at = " at the least of --memory-ratio-range, 3" if drawn else " at --memory-ratio 4"
    at = " at any memory ratio" if drawn and raised else at
    larger = "a larger ratio, " if not (drawn and raised) else ""
    remedy = f"{larger if counts else ''}a smaller --window or shorter records"
    if strategy == "full":
        remedy = "a --prompt-strategy that reads less or shorter records"
    with pytest.raises(UserError) as refused:
        task.begin_epoch(1, model)
    said = (
        rf"--\w+-subset {split}: .* come to \d+ tokens{at if counts else ''}, but .*; give {remedy}"
    )
    assert re.fullmatch(said, str(refused.value))


@pytest.mark.parametrize(
    ("segment", "ratios", "needed", "ratio"),
    [(0, "2,16", 10, "2"), (7, "2,16", 4, "2"), (25, "3.5,4", 9, "3"), (0, "", 7, "3")],
)
def test_a_training_has_tags_for_the_longest_segment(
    segment, ratios, needed, ratio, data, tmp_path
):
    task = make_task(tmp_path, memory_ratio_range=ratios)
    path = save_model(tmp_path / "lm.pt", task, "transformer_lm", **TINY)
    given = {"_name": "selfcp", "backbone_path": path, "window": 19, "memory_ratio": 3}
    given["prompt_strategy"] = "former"
    given["segment_tokens"] = segment
    for tags in (1, needed, needed + 1):
        task.build_model(OmegaConf.create({**given, "memory_tags": tags}))
    cfg = OmegaConf.create({**given, "memory_tags": needed - 1})
    task.build_model(cfg, from_checkpoint=True)
    message = f"^--memory-tags {needed - 1}: a segment .* {needed} memory tokens at ratio {ratio};"
    with pytest.raises(UserError, match=message):
        task.build_model(cfg)
    cfg.prompt_strategy = "truncate"  # which compresses nothing
    task.build_model(cfg)


def test_a_training_starts_standardised(data, tmp_path):
    task = make_task(tmp_path)
    path = save_model(tmp_path / "lm.pt", task, "transformer_lm", **TINY)
    options = {"_name": "selfcp", "backbone_path": path, "window": 7, "standardise_on": 12}
    options["memory_tags"] = 1
    cfg = OmegaConf.create(options)
    starts = []
    for from_checkpoint in (False, True):
        torch.manual_seed(1)
        starts.append(task.build_model(cfg, from_checkpoint).encoder.connector.state_dict())
    torch.manual_seed(1)
    plain = task.build_model(OmegaConf.create({**options, "standardise_on": 0}))
    expected = plain.encoder.connector.state_dict()
    assert all(torch.equal(starts[1][name], expected[name]) for name in expected)
    assert not any(torch.equal(starts[0][name], expected[name]) for name in expected)


def test_a_finetuned_model_is_not_standardised(data, tmp_path):
    """fairseq replaces its weights by those of --finetune-from-model."""
    path = save_model(tmp_path / "lm.pt", make_task(tmp_path), "transformer_lm", **TINY)
    options = {"_name": "selfcp", "backbone_path": path, "window": 7, "standardise_on": 12}
    task = make_task(tmp_path, save_dir=str(tmp_path), finetune_from_model="a.pt")
    task.build_model(OmegaConf.create({**options, "memory_tags": 1}))
    assert "train" not in task.datasets


@pytest.mark.parametrize("name", ["checkpoint_last.pt", "other.pt"])
def test_a_resumed_training_is_not_standardised(name, data, tmp_path):
    """Its checkpoint has a connector; a file to restore that is not there resumes nothing."""
    path = save_model(tmp_path / "lm.pt", make_task(tmp_path), "transformer_lm", **TINY)
    options = {"_name": "selfcp", "backbone_path": path, "window": 7, "standardise_on": 12}
    cfg = OmegaConf.create({**options, "memory_tags": 1})
    folder = tmp_path / "out"
    folder.mkdir()
    restored = name if name == "checkpoint_last.pt" else str(folder / name)
    starts = []
    for _ in range(2):
        task = make_task(tmp_path, save_dir=str(folder), restore_file=restored)
        torch.manual_seed(1)
        starts.append(task.build_model(cfg).encoder.connector.weight)
        assert ("train" in task.datasets) == (len(starts) == 1)
        (folder / name).touch()
    torch.manual_seed(1)
    plain = task.build_model(OmegaConf.create({**cfg, "standardise_on": 0})).encoder.connector
    assert torch.equal(starts[1], plain.weight) and not torch.equal(starts[0], plain.weight)
