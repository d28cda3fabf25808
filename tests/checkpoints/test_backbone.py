"""Which checkpoints hold a model that another one can be built around."""

from argparse import Namespace

import pytest

from pet_fairseq.nn.architectures import model_class
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.variator.backbone_wrapper import BackboneWrapper


@pytest.mark.parametrize(
    "name", ["variator", "token_pruning", "narrow_ffn", "first_layers", "low_rank", "selfcp"]
)
def test_models_around_a_backbone_are_no_backbones(name):
    kind = model_class(Namespace(_name=name))
    assert issubclass(kind, (BackboneWrapper, SelfCpModel))
    assert kind.wraps_backbone


@pytest.mark.parametrize("name", ["transformer", "pet_transformer", "roberta", "transformer_lm"])
def test_others_are(name):
    assert not hasattr(model_class(Namespace(_name=name)), "wraps_backbone")
