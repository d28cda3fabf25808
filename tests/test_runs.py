"""Names and files of a folder of runs."""

import json

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.runs import Result, read_order, read_result, row_name, seed_of


@pytest.mark.parametrize(
    "run, row, seed",
    [
        *(("pet.seed2", "pet", 2), ("pet.seed10", "pet", 10), ("k[4].seed1", "k[4]", 1)),
        *(("pet", "pet", None), ("pet.seedling", "pet.seedling", None), (".seed1", ".seed1", None)),
    ],
)
def test_seeds_are_in_names(run, row, seed):
    assert (row_name(run), seed_of(run)) == (row, seed)


def test_order(tmp_path):
    assert read_order(tmp_path) == []
    (tmp_path / "order.txt").write_text("k8\n\n the model \nk8\n")
    assert read_order(tmp_path) == ["k8", "the model", "k8"]
    (tmp_path / "order.txt").write_bytes(b"k8\n\xff")
    with pytest.raises(UserError, match=r"order .*order.txt: not UTF-8"):
        read_order(tmp_path)


def test_result(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"f1": 2, "total": 7, "accuracy": 1.5, "by_sentence": "101"}))
    result = read_result(path)
    assert list(result.scores.items()) == [("accuracy", 1.5), ("f1", 2.0)]
    assert result == Result({"accuracy": 1.5, "f1": 2.0}, hits=(1, 0, 1), cut=1, majority_class=0)
    path.write_text(json.dumps({"perplexity": 3, "cut": 4, "majority_class": 50.5}))
    assert read_result(path) == Result({"perplexity": 3.0}, cut=4, majority_class=50.5)


@pytest.mark.parametrize(
    "content, message",
    [
        *(("", "no scores in it"), ("[]", "no scores in it"), ("{}", "has none of accuracy, ")),
        *(('{"f1": "x"}', "no scores in it"), ('{"total": 3}', "has none of accuracy, ")),
        *(('{"f1": 1, "cut": 1e999}', "no scores"), ('{"f1": 1, "by_sentence": 3}', "no scores")),
    ],
)
def test_a_result_that_is_none(tmp_path, content, message):
    path = tmp_path / "result.json"
    path.write_text(content)
    with pytest.raises(UserError, match=f"result.json: {message}.*; evaluate the run again"):
        read_result(path)
