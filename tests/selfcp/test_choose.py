"""Choosing among responses by their losses, against each response alone."""

import argparse
import json
import random

import numpy as np
import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.choose import choose, encode, losses
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.options import SelfCpConfig
from pet_fairseq.selfcp.task import SelfCpTask, SelfCpTaskConfig
from tests.selfcp.test_model import LENGTHS, TINY, logits_slowly, make_sample, make_selfcp
from tests.selfcp.test_model import task as language_modeling  # noqa: F401  fixture
from tests.translation import save_model, save_state


@pytest.mark.parametrize("kind", ["post-norm", "learned", "llama"])
@pytest.mark.parametrize("strategy", ["former", "truncate"])
def test_losses(kind, strategy, language_modeling, tmp_path):  # noqa: F811
    model = make_selfcp(language_modeling, tmp_path, kind, prompt_strategy=strategy)
    net_input = make_sample(language_modeling, LENGTHS)["net_input"]
    prompts = {k: v for k, v in net_input.items() if k != "prev_output_tokens"}
    candidates = [torch.tensor(c) for c in ([5], [6, 7, 8], [9, 5])]
    with torch.no_grad():
        found, read = losses(model, prompts, candidates)
        assert read.equal(model.encoder.read(**prompts).lengths)
    for i in range(len(LENGTHS)):
        for j, candidate in enumerate(candidates):
            previous = torch.cat([torch.tensor([2]), candidate])
            alone = {"net_input": {**net_input, "prev_output_tokens": previous.expand(5, -1)}}
            with torch.no_grad():
                scores = logits_slowly(model, alone, i).log_softmax(dim=-1)
            target = [*candidate.tolist(), 2]
            expected = -sum(scores[t, word] for t, word in enumerate(target)) / len(target)
            assert found[i, j].item() == pytest.approx(expected.item(), abs=1e-5)


def test_losses_where_a_candidate_needs_more_positions_than_there_are(
    language_modeling,  # noqa: F811
    tmp_path,
):
    model = make_selfcp(language_modeling, tmp_path, prompt_strategy="full")
    prompts = make_sample(language_modeling, [(0, 60)])["net_input"]
    del prompts["prev_output_tokens"]
    fits, too_long = torch.tensor([5, 6]), torch.tensor([5, 6, 7])
    assert losses(model, prompts, [fits])[0].isfinite().all()
    with pytest.raises(UserError, match=r"come to 65 tokens, but the backbone has 64 positions"):
        losses(model, prompts, [fits, too_long])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data with a SentencePiece model, a backbone and an untrained model for it."""
    folder = tmp_path_factory.mktemp("choices")
    draw = random.Random(0)
    words = ["good", "bad", "film", "plot", "actor", "scene"]
    texts = [" ".join(draw.choices(words, k=6)) for _ in range(300)]
    (folder / "text").write_text("\n".join(texts))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "spm"), vocab_size=24, minloglevel=2
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    dictionary = Dictionary()
    for i in range(3, pieces.get_piece_size()):
        dictionary.add_symbol(pieces.id_to_piece(i), n=i)
    dictionary.save(str(folder / "dict.txt"))
    records = {"query": ["good or bad"] * 20, "prompt": texts[:20], "response": []}
    records["response"] = ["good" if i % 2 else "bad" for i in range(19)] + ["film"]
    for part, lines in records.items():
        builder = MMapIndexedDatasetBuilder(str(folder / f"test.{part}.bin"), dtype=np.int32)
        for line in lines:
            ids = [dictionary.index(piece) for piece in pieces.encode(line, out_type=str)]
            builder.add_item(torch.tensor(ids, dtype=torch.int32))
        builder.finalize(str(folder / f"test.{part}.idx"))
    task = SelfCpTask.setup_task(SelfCpTaskConfig(data=str(folder), seed=1, memory_ratio_range=""))
    task.args = argparse.Namespace(data=str(folder))
    path = save_model(folder / "lm.pt", task, "transformer_lm", **TINY)
    cfg = SelfCpConfig(backbone_path=path, window=4, memory_ratio=2)
    model = SelfCpModel.build_model(cfg, task)
    task_options = {"_name": "selfcp", "data": str(folder), "train_subset": "train", "seed": 1}
    save_state(folder / "selfcp.pt", model, {**vars(cfg), "_name": "selfcp"}, task_options)
    return folder


def test_accuracy_equals_asking_one_at_a_time(folder, tmp_path):
    names = ["good", "bad"]
    path, out = str(folder / "selfcp.pt"), tmp_path / "result.json"
    result = choose(path, str(folder), names, out=out, max_tokens=60)
    assert json.loads(out.read_text()) == result
    model, task = load_model(path, "CHECKPOINT", str(folder))
    task.load_dataset("test")
    dataset, candidates = task.dataset("test"), encode(names, task)
    chosen, alone = [], []
    for i in range(20):
        net_input = dataset.collater([dataset[i]])["net_input"]
        alone.append({k: net_input[k] for k in ("src_tokens", "src_lengths")})
        found = []
        for candidate in candidates:
            net_input["prev_output_tokens"] = torch.cat([torch.tensor([2]), candidate])[None]
            with torch.no_grad():
                scores = model(**net_input)[0][0].log_softmax(dim=-1)
            target = torch.cat([candidate, torch.tensor([2])])
            found.append(-scores.gather(1, target[:, None]).mean().item())
        chosen.append(names[found.index(min(found))])
    right = ["good" if i % 2 else "bad" for i in range(19)] + ["film"]
    assert result["accuracy"] == pytest.approx(5 * sum(map(str.__eq__, chosen, right)))
    assert result["chosen"] == {name: chosen.count(name) for name in names}
    lengths = [model.encoder.read(**net).lengths.item() for net in alone]
    assert result["read"] == pytest.approx(sum(lengths) / 20)
    assert result["total"] == 20 and result["not among the candidates"] == 1


def test_options_of_the_model_can_be_replaced(folder):
    given = (str(folder / "selfcp.pt"), str(folder), ["good", "bad"])
    with pytest.raises(UserError, match=r"--memory-ratio 0.5: give 1 or more"):
        choose(*given, memory_ratio=0.5)
    assert choose(*given, prompt_strategy="truncate")["total"] == 20


@pytest.mark.parametrize("candidates", [["good"], ["good", "good"], []])
def test_candidates_that_are_none(folder, candidates):
    with pytest.raises(UserError, match="give two or more different ones"):
        choose(str(folder / "selfcp.pt"), str(folder), candidates)


def test_an_empty_candidate(folder):
    with pytest.raises(UserError, match="--candidates: one of them is empty"):
        choose(str(folder / "selfcp.pt"), str(folder), ["good", " ", "bad"])


def test_candidates_of_equal_tokens(folder):
    message = "--candidates film,film : they are the same tokens for the tokenizer of the data"
    with pytest.raises(UserError, match=message):
        choose(str(folder / "selfcp.pt"), str(folder), ["film", "good", "film "])


def test_another_model(folder):
    with pytest.raises(UserError, match=r"CHECKPOINT .*: "):
        choose(str(folder / "lm.pt"), str(folder), ["good", "bad"])
