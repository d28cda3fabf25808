"""Sizes of checkpoints: shared tensors once, however they are stored."""

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.results.report.checkpoint import measure_sizes
from tests.results.report.made import (
    WORDS,
    layer_parameters,
    model_options,
    save_checkpoint,
    save_state,
)


@pytest.mark.parametrize("width", (8, 24))
def test_a_stock_model_saved_from_a_gpu_holds_its_embedding_once(tmp_path, width):
    """There, fairseq copies the tied embeddings to the CPU one by one."""
    shared, separate = tmp_path / "shared.pt", tmp_path / "separate.pt"
    save_checkpoint(shared, width)
    save_checkpoint(separate, width, separate=True)
    names = torch.load(separate, weights_only=True)["model"]
    tied = [n for n, t in names.items() if t.shape == (WORDS, width)]
    assert len(tied) == 3 and len({names[n].data_ptr() for n in tied}) == 3
    sizes, why = measure_sizes(separate)
    assert why is None and (sizes, None) == measure_sizes(shared)
    assert sizes.layer_parameters == sizes.active_parameters == layer_parameters(width)
    assert sizes.parameters == layer_parameters(width) + WORDS * width
    embeddings_twice = separate.stat().st_size - 4 * 100_000 - 2 * 4 * WORDS * width
    assert sizes.checkpoint_bytes == pytest.approx(embeddings_twice, abs=2500)


def test_bytes_do_not_depend_on_the_copies(tmp_path):
    """With embeddings that outweigh everything else in the file."""
    args = model_options(8, decoder_layers=1)
    save_checkpoint(tmp_path / "a.pt", 8)
    model = torch.load(tmp_path / "a.pt", weights_only=True)["model"]
    big = torch.randn(100_000, 8)
    for copies, name in ((False, "shared"), (True, "separate")):
        for key, tensor in list(model.items()):
            if tensor.size(0) in (WORDS, 100_000):
                model[key] = big.clone() if copies else big
        save_state(tmp_path / f"{name}.pt", args, model)
    shared, separate = (measure_sizes(tmp_path / f"{n}.pt")[0] for n in ("shared", "separate"))
    assert shared == separate and shared.parameters == layer_parameters(8) + 800_000
    assert 3_200_000 < shared.checkpoint_bytes < 3_300_000


def test_layers_that_share_are_stored_once_and_active_twice(tmp_path):
    pairs = dict(encoder_pairs="L1=L2", decoder_pairs="none")
    layers = dict(encoder_layers=2, decoder_layers=2)
    save_checkpoint(tmp_path / "pet.pt", 8, arch="pet_transformer", **pairs, **layers)
    sizes, why = measure_sizes(tmp_path / "pet.pt")
    attention, norm = 4 * (8 * 8 + 8), 2 * 8
    encoder_layer = attention + 2 * 8 * 16 + 16 + 8 + 2 * norm
    assert why is None and sizes.active_parameters == layer_parameters(8, layers=2)
    assert sizes.layer_parameters == layer_parameters(8, layers=2) - encoder_layer


def test_of_cut_heads_only_those_in_use_are_active(tmp_path):
    """Two layers that share two heads of 4 numbers each, and use one of them each."""
    options = dict(encoder_pairs="L1=L2", decoder_pairs="none", encoder_kept_heads="1/2")
    layers = dict(encoder_layers=2, decoder_layers=2)
    save_checkpoint(tmp_path / "cut.pt", 8, arch="pet_transformer", **options, **layers)
    sizes, why = measure_sizes(tmp_path / "cut.pt")
    one_head = 3 * (8 * 4 + 4) + 4 * 8  # rows of Q, K, V and their biases, columns of O
    assert why is None
    assert sizes.active_parameters == layer_parameters(8, layers=2) - 2 * one_head


@pytest.mark.parametrize("case", ("arch", "encoder", "options"))
def test_a_model_that_cannot_be_built_is_counted_by_its_tensors(tmp_path, case):
    path = tmp_path / "other.pt"
    save_checkpoint(path, 8, separate=True)
    model = torch.load(path, weights_only=True)["model"]
    args = model_options(8)
    if case == "arch":
        args.arch = args._name = "nobody_knows"
    if case == "options":
        args = model_options(16)
    if case == "encoder":
        model = {n: t for n, t in model.items() if not n.startswith("encoder.")}
    save_state(path, args, model)
    sizes, why = measure_sizes(path)
    marks = (".version", "._float_tensor")
    kept = {n: t.numel() for n, t in model.items() if not n.endswith(marks)}
    layers = sum(k for n, k in kept.items() if ".layers." in n)
    assert sizes.active_parameters is None and why and "\n" not in why
    assert sizes.layer_parameters == layers
    copies = 2 * WORDS * 8 if case == "options" else 0  # its ties are known
    assert sizes.parameters == sum(kept.values()) - copies


def test_it_is_said_in_the_report(runs, report):
    path = runs / "student/checkpoint_best.pt"
    model = torch.load(path, weights_only=True)["model"]
    decoder = {n: t for n, t in model.items() if n.startswith("decoder.")}
    save_state(path, model_options(8), decoder)
    text, rows = report()
    assert "* missing: student/active parameters (the file's tensors were counted: " in text
    assert "not an encoder-decoder Transformer); the row is incomplete" in text
    assert rows["student"]["active_parameters"] is None and rows["student"]["rate_percent"] > 0


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "checkpoint_best.pt"
    save_checkpoint(path, 8)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(UserError, match=r"checkpoint .*checkpoint_best.pt: not a readable"):
        measure_sizes(path)
