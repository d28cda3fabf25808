"""Predicted sizes of exported models."""

from argparse import Namespace

import pytest
import torch

from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.export.ctranslate2 import convert_plain_form
from pet_fairseq.export.export import export
from pet_fairseq.export.fairseq import MODEL, plain_model
from pet_fairseq.export.size import int8_bytes
from pet_fairseq.nn.architectures import build_without_memory
from tests import helpers
from tests.export.translators import make, sentence_pieces
from tests.translation import make_model

MODELS = {
    "nothing shared": dict(arch="transformer"),
    "tied": dict(arch="transformer", share_decoder_input_output_embed=True),
    "all tied": dict(arch="transformer", share_all_embeddings=True),
    "norms first": dict(
        arch="transformer", encoder_normalize_before=True, decoder_normalize_before=True
    ),
    "learned positions": dict(
        arch="transformer", encoder_learned_pos=True, decoder_learned_pos=True
    ),
    "other widths": dict(arch="transformer", decoder_embed_dim=24, decoder_ffn_embed_dim=40),
    "deep and shallow": dict(arch="transformer", encoder_layers=6, decoder_layers=1),
    "PET": dict(arch="pet_transformer"),
    "PET, layers only": dict(
        arch="pet_transformer", encoder_pairs="layers", decoder_pairs="layers"
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_bytes_are_those_of_the_exported_file(name, tmp_path):
    pytest.importorskip("ctranslate2")
    shape = {}
    for stack in ("encoder", "decoder"):
        shape |= {f"{stack}_embed_dim": 48, f"{stack}_ffn_embed_dim": 96}
        shape |= {f"{stack}_layers": 4, f"{stack}_attention_heads": 4}
    options = shape | MODELS[name]
    options |= {"max_source_positions": 60, "max_target_positions": 50}
    task = helpers.task(500)
    model, args = make_model(task, **options)
    with torch.no_grad():  # new biases are equal, and CTranslate2 stores equal tensors once
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    plain, args = plain_model(model, args, task)
    state = {"args": None, "cfg": {"model": args}, "model": plain.state_dict()}
    torch.save(state, tmp_path / MODEL)
    for language in ("de", "en"):
        task.source_dictionary.save(str(tmp_path / f"dict.{language}.txt"))
    cfg = {"model": args, "task": {"source_lang": "de", "target_lang": "en"}}
    out = tmp_path / "out"
    convert_plain_form(tmp_path, cfg, out, "int8")
    sizes = [len(task.source_dictionary)] * 2
    estimate = int8_bytes(build_without_memory(Namespace(**options), *sizes))
    assert estimate == pytest.approx((out / "model.bin").stat().st_size, rel=0.02)


def test_bytes_of_a_student_for_marian(tmp_path):
    """Both of its stacks have the same table of positions, which is not trained."""
    pytest.importorskip("ctranslate2")

    def train(model):
        for parameter in filter(lambda p: p.requires_grad, model.parameters()):
            parameter.data.add_(torch.randn_like(parameter))

    made = make(
        *(tmp_path / "data", "marian_student", sentence_pieces),
        **{"share_all_embeddings": True, "max_source_positions": 60, "max_target_positions": 60},
        change=train,
    )
    export(str(made.checkpoint), str(made.data), "ctranslate2", tmp_path / "out", precision="int8")
    model, _ = load_transformer(str(made.checkpoint), "CHECKPOINT", str(made.data))
    size = (tmp_path / "out/model.bin").stat().st_size
    assert int8_bytes(model) == pytest.approx(size, rel=0.02)
