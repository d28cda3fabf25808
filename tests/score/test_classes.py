"""Which sentences a classifier gets right, in the order of the data and not of the batches."""

from types import SimpleNamespace

import torch

from pet_fairseq.score import classes


class Sign(torch.nn.Module):
    """Class 1 for inputs above 0."""

    classification_heads = {"head": None}

    def forward(self, x, features_only, classification_head_name):
        assert features_only and classification_head_name == "head"
        return torch.stack([-x, x], dim=-1), {}


def test_sentences_are_in_their_order(monkeypatch):
    inputs, targets = [1.0, 1.0, -1.0, 1.0, -1.0], [1, 0, 0, 1, 1]

    def batch(*ids):
        return {
            "id": torch.tensor(ids),
            "net_input": {"x": torch.tensor([inputs[i] for i in ids])},
            "target": torch.tensor([[targets[i]] for i in ids]),
            "ntokens": 3 * len(ids),
        }

    batches = [batch(3, 1), batch(4), batch(0, 2)]
    task = SimpleNamespace(cfg=SimpleNamespace(classification_head_name="head"))
    monkeypatch.setattr(classes, "load_model", lambda *args: (Sign(), task))
    monkeypatch.setattr(classes, "read_batches", lambda *args, **options: batches)
    assert classes.class_scores("x", "y", device="cpu") == {
        **{"accuracy": 60.0, "right": 3, "total": 5, "length": 3.0},
        "by_sentence": "10110",
    }
