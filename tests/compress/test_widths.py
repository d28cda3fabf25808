"""Sizes of exported models, and shapes that reach a size."""

import itertools
from argparse import Namespace

import pytest
import torch

from pet_fairseq.compress.export_size import int8_bytes
from pet_fairseq.compress.student import STEP, Shape, check_size, depths, find_shape
from pet_fairseq.compress.training import METHODS
from pet_fairseq.decoding.export import MODEL, write_ctranslate2
from pet_fairseq.decoding.plain import plain_model
from pet_fairseq.errors import UserError
from pet_fairseq.nn.architectures import build_without_memory
from pet_fairseq.pet.params import parse_model_options
from tests import helpers
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
    write_ctranslate2(tmp_path, cfg, out, "int8")
    sizes = [len(task.source_dictionary)] * 2
    estimate = int8_bytes(build_without_memory(Namespace(**options), *sizes))
    assert estimate == pytest.approx((out / "model.bin").stat().st_size, rel=0.02)


def slow_size(shape, measure):
    args = parse_model_options(["--arch", "transformer", *shape.options])
    return measure(build_without_memory(args, 30, 30))


@pytest.mark.parametrize(
    "layers, target", [((1, 1), 9_000), ((1, 1), 31_000), ((1, 1), 60_123), ((3, 1), 60_123)]
)
def test_nearest_shape(layers, target):
    def measure(model):
        return sum(p.numel() for p in model.parameters())

    found = find_shape(("--arch", "transformer"), (30, 30), layers, measure, target)
    assert found.size == slow_size(found.shape, measure)
    assert found.shape.width % STEP == found.shape.ffn % STEP == 0
    steps = [STEP * n for n in range(2, 14)]
    pairs = itertools.product(steps, steps)
    every = [Shape(layers, w, f) for w, f in pairs if w <= f <= 4 * w]
    best = min(abs(slow_size(shape, measure) - target) for shape in every)
    assert abs(found.size - target) <= max(2 * best, 0.03 * target)


def test_layers_of_encoder_and_decoder():
    options = Shape((6, 1), 40, 80).options
    assert options[options.index("--encoder-layers") + 1] == "6"
    assert options.count("--decoder-layers") == 1
    assert options[options.index("--decoder-layers") + 1] == "1"


@pytest.mark.parametrize(
    "method, teacher, expected",
    [
        ("distil", (6, 6), [(2, 2), (4, 4), (6, 6)]),
        ("distil", (12, 2), [(2, 2)]),
        ("distil", (3, 3), [(2, 2)]),
        ("pet", (6, 6), [(4, 4), (6, 6)]),
        ("deep-shallow", (6, 6), [(6, 1), (8, 1), (10, 1)]),
        ("deep-shallow", (3, 3), [(6, 1)]),
    ],
)
def test_depths(method, teacher, expected):
    assert list(depths(METHODS[method], *teacher)) == expected


def test_a_size_that_is_out_of_reach():
    check_size("--rate", 10, 10.9, 0.1, "%")
    with pytest.raises(UserError, match=r"--rate 1: the nearest student .* 1\.7%; give more"):
        check_size("--rate", 1, 1.7, 0.1, "%")
    with pytest.raises(UserError, match=r"--megabytes 5: the nearest student .* 4 MB; give less"):
        check_size("--megabytes", 5, 4, 0.1, " MB")
