"""GELU in half precision: fairseq's values, without a copy in float32."""

import pytest
import torch
import torch.nn.functional as F
from fairseq.modules import gelu
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pet_fairseq.checkpoints.backbone import load_backbone
from pet_fairseq.checkpoints.frozen_models import FrozenModels
from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.huggingface.importer import import_model
from tests.huggingface.bert import write_bert
from tests.translation import make_batch, make_model, make_task, save_model

WIDTH = 56  # of the feed-forward networks, and of nothing else
OPTIONS = {
    **{"activation_fn": "gelu", "encoder_ffn_embed_dim": WIDTH, "decoder_ffn_embed_dim": WIDTH},
}


class WideDtypes(TorchDispatchMode):
    """The dtypes of all tensors of that width that are made inside the block."""

    def __init__(self, width: int):
        super().__init__()
        self.width, self.dtypes = width, set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        outputs = function(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves(outputs) if isinstance(x, torch.Tensor) and x.dim()]
        self.dtypes |= {x.dtype for x in tensors if x.size(-1) == self.width}
        return outputs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_torchs_values_are_fairseqs(dtype):
    x = (4 * torch.randn(10_000, generator=torch.Generator().manual_seed(1))).to(dtype)
    assert torch.equal(F.gelu(x), gelu(x))


def teacher(task, folder):
    return FrozenModels([make_model(task, "transformer_tiny", **OPTIONS)[0]]).models[0]


def backbone(task, folder):
    return load_backbone(save_model(folder / "model.pt", task, "transformer_tiny", **OPTIONS), task)


@pytest.mark.parametrize("make", [teacher, backbone])
def test_translation_models(make, tmp_path):
    task = make_task(tmp_path)
    model = make(task, tmp_path).bfloat16()
    with WideDtypes(WIDTH) as seen:
        model(**make_batch(task, [3, 7, 2])["net_input"])
    assert seen.dtypes == {torch.bfloat16}


def test_bert(tmp_path):
    write_bert(tmp_path / "bert")
    import_model(tmp_path / "bert", tmp_path / "out")
    model, _ = load_model(str(tmp_path / "out/checkpoint.pt"), "FILE")
    width = model.encoder.sentence_encoder.layers[0].fc1.out_features
    with WideDtypes(width) as seen:
        model.bfloat16()(torch.tensor([[0, 5, 6, 2]]))
    assert seen.dtypes == {torch.bfloat16}
