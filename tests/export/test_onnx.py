"""Models in ONNX: the same logits and the same translations as here."""

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch

from pet_fairseq.decoding.task import PetTranslationTask
from pet_fairseq.errors import UserError
from tests.translation import make_model, make_task, save_state

for package in ("onnx", "onnxruntime", "onnxscript"):
    pytest.importorskip(package)

from pet_fairseq.export.onnx import export_onnx  # noqa: E402
from pet_fairseq.predict.onnx_model import OnnxModel, OnnxTranslator, find_graph  # noqa: E402
from pet_fairseq.predict.options import Search  # noqa: E402
from pet_fairseq.predict.text import Text  # noqa: E402
from pet_fairseq.predict.translator import Translator  # noqa: E402

SIZES = {"embed_dim": 16, "ffn_embed_dim": 24, "layers": 1, "attention_heads": 2}
SHAPE = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in SIZES.items()}
SHAPE |= {"max_source_positions": 20, "max_target_positions": 20}
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
WIDE_ENCODER = {"encoder_embed_dim": 24, "encoder_layers": 2, "encoder_attention_heads": 4}
LANGUAGES = {"source_prefix": ["w3"], "decoder_start": ["</s>", "w4"]}
MODELS = {
    "plain": ("transformer", {"share_decoder_input_output_embed": True}),
    "widths": ("transformer", WIDE_ENCODER | PRE_NORM),
    "learned": (
        "transformer",
        {"encoder_learned_pos": True, "decoder_learned_pos": True, "layernorm_embedding": True},
    ),
    "pet": ("pet_transformer", {"decoder_layers": 2, "encoder_layers": 2}),
    "marian": ("marian", {"swish": True, "share_all_embeddings": True}),
    "bilingual": ("bilingual_transformer", LANGUAGES | {"share_all_embeddings": True}),
    "bilingual_marian": ("bilingual_marian", {"source_prefix": ["w3"], "swish": True}),
}
SOURCES = [["w1", "w5", "w3", "w2", "w6"], ["w2"], ["w4", "nothing", "w1"], ["w9"] * 7]


class Exported:
    """A random model, its checkpoint, and the folder of its ONNX form."""

    def __init__(self, folder, arch, options, precision=None):
        self.task = make_task(folder / "data")
        self.model, args = make_model(self.task, arch, **SHAPE | options)
        args._name = arch
        randomise(self.model.eval())
        self.path = folder / "model.pt"
        save_state(self.path, self.model, args, {**vars(self.task.cfg), "_name": "translation"})
        self.out = folder / "onnx"
        export_onnx(str(self.path), str(folder / "data"), self.out, precision)

    def expected(self, search):
        """What the fast search finds of SOURCES, as words."""
        task = PetTranslationTask.like(self.task, vars(self.task.cfg))
        translator = Translator(self.model, task, Text(), search=search)
        texts = [translator.numbers(" ".join(source)) for source in SOURCES]
        found = translator.find_pieces([translator.join([text]) for text in texts], None)
        return [[line.split() for line in some] for some in found]


@torch.no_grad()
def randomise(model):
    """Weights with which what is translated depends on the source."""
    torch.manual_seed(1)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            weight.normal_(std=0.7)
        elif "norm" in name:
            weight.normal_(std=0.3).add_(float(name.endswith("weight")))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    made = {}

    def export(name, precision=None):
        if (name, precision) not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name, precision] = Exported(folder, *MODELS[name], precision)
        return made[name, precision]

    return export


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [1, 4])
def test_the_same_translations(name, beam, exported):
    one = exported(name)
    search = Search(beam=beam, lenpen=0.7, nbest=beam)
    found = OnnxModel(one.out, threads=1).translate(SOURCES, beam, 0.7)
    expected = one.expected(search)
    assert found == expected
    assert beam == 1 or len({tuple(some[0]) for some in expected}) > 1


def test_the_same_logits(exported):
    """Of steps with a cache, of several words at once, and beside padding."""
    one = exported("widths")
    model = OnnxModel(one.out, threads=1)
    assert_equal_logits(model, one.model, atol=1e-4)


def assert_equal_logits(exported, model, atol):
    tokens = torch.tensor([[5, 9, 4, 7, 2], [6, 2, 1, 1, 1]])
    targets = torch.tensor([[2, 6, 9, 4], [2, 7, 5, 8]])
    with torch.no_grad():
        expected = model(tokens, torch.tensor([5, 2]), targets)[0].numpy()
    mask = tokens.ne(1).long().numpy()
    inputs = {"input_ids": tokens.numpy(), "attention_mask": mask}
    source = {
        "encoder_hidden_states": exported.encoder.run(None, inputs)[0],
        "encoder_attention_mask": mask,
    }
    for parts in ([4], [1, 1, 1, 1], [2, 1, 1]):
        cache = {i.name: i.shape for i in exported.decoder.get_inputs() if "past" in i.name}
        cache = {
            n: np.zeros((2, shape[1], 0, shape[3]), np.float32) for n, shape in cache.items()
        }
        found = []
        for part in np.split(targets.numpy(), np.cumsum(parts)[:-1], axis=1):
            logits, *presents = exported.decoder.run(None, {"input_ids": part, **source, **cache})
            cache = dict(zip(cache, presents))
            found.append(logits)
        assert np.allclose(np.concatenate(found, axis=1), expected, atol=atol)


def test_int8_is_smaller_and_near(tmp_path):
    wide = {"encoder_embed_dim": 64, "decoder_embed_dim": 64, "encoder_ffn_embed_dim": 256}
    options = (*("transformer", wide), None)
    sizes, models = [], []
    for precision in (None, "int8"):
        folder = tmp_path / str(precision)
        folder.mkdir()
        one = Exported(folder, "transformer", wide, precision)
        files = [find_graph(one.out, name) for name in ("encoder_model", "decoder_model_merged")]
        sizes.append(sum(file.stat().st_size for file in files))
        models.append(OnnxModel(one.out, threads=1))
    assert [file.name for file in files] == [
        "encoder_model_quantized.onnx",
        "decoder_model_merged_quantized.onnx",
    ]
    assert sizes[1] < 0.6 * sizes[0]
    found, near = (model.translate(SOURCES, 1) for model in models)
    assert near and found
