"""Packed files: the same values after the round trip, every byte accounted for, wrong files."""

import os

import pytest
import torch
from fairseq import tasks

from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.nn.output_bias import ABSENT
from pet_fairseq.quantisation.packed_file import read_packed, write_packed
from pet_fairseq.quantisation.packing import pack_model, unpack_model
from pet_fairseq.quantisation.rounding import fake_quantise
from tests.translation import WORDS, make_model, make_task, save_state

MODELS = {
    "pet": ("pet_transformer_tiny", {}),
    "transformer, one embedding": ("transformer_tiny", dict(share_all_embeddings=True)),
    "can": ("can_transformer", dict(encoder_layers=1, decoder_layers=1, decoder_embed_dim=64)),
}
SMALL = dict(encoder_layers=1, decoder_layers=1, encoder_embed_dim=48, decoder_embed_dim=48)
OTHERS = {
    "marian": ("marian", dict(encoder_layers=1, decoder_layers=1, decoder_embed_dim=64)),
    "bart": ("bart_base", SMALL),
}


def save(folder, name="pet", bits=None):
    """A checkpoint and its data folder; with `bits` its weights are on the grid."""
    arch, options = {**MODELS, **OTHERS}[name]
    task = make_task(folder / "data")
    model, args = make_model(task, arch, **options)
    args._name = arch
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
            if bits:
                parameter.copy_(fake_quantise(parameter, bits))
    path = folder / "trained.pt"
    save_state(path, model, args, {**vars(task.cfg), "_name": "translation"})
    return str(path), str(folder / "data")


def parameters(checkpoint, data):
    model, task = load_transformer(str(checkpoint), "CHECKPOINT", str(data))
    assert task.target_dictionary.symbols[4:] == WORDS
    return dict(model.named_parameters())


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("name", MODELS)
def test_nothing_changes_on_the_way(name, bits, tmp_path):
    checkpoint, data = save(tmp_path, name, bits)
    sizes = pack_model(checkpoint, data, bits, tmp_path / "packed")
    assert sizes.change == 0
    os.remove(checkpoint)  # the file has all that is needed
    before = read_packed(str(tmp_path / "packed")).parameters
    unpack_model(str(tmp_path / "packed"), tmp_path / "out")
    folder = tmp_path / "out"
    assert {file.name for file in folder.iterdir()} == {"model.pt", "dict.de.txt", "dict.en.txt"}
    after = parameters(folder / "model.pt", folder)
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], before[name]) for name in after)


def test_an_output_bias_is_kept(tmp_path):
    """Marian's bias is a buffer; absent words must stay without probability."""
    checkpoint, data = save(tmp_path, "marian")
    state = torch.load(checkpoint, weights_only=True)
    bias = torch.linspace(-2, 2, len(WORDS) + 4).half().float()
    bias[5] = ABSENT
    state["model"]["decoder.output_projection.bias"] = bias
    torch.save(state, checkpoint)
    pack_model(checkpoint, data, 8, tmp_path / "packed")
    unpack_model(str(tmp_path / "packed"), tmp_path / "out")
    model, _ = load_transformer(str(tmp_path / "out/model.pt"), "CHECKPOINT", data)
    assert torch.equal(model.decoder.output_projection.bias, bias)


def test_a_file_holds_the_parameters_and_nothing_else(tmp_path):
    """Files that were packed before the output bias was have to fit their models."""
    checkpoint, data = save(tmp_path)
    pack_model(checkpoint, data, 8, tmp_path / "packed")
    model, _ = load_transformer(checkpoint, "CHECKPOINT", data)
    assert (
        read_packed(str(tmp_path / "packed")).parameters.keys()
        == dict(model.named_parameters()).keys()
    )


@pytest.mark.parametrize("bits", [8, 4])
def test_equal_to_the_checkpoint(bits, tmp_path):
    checkpoint, data = save(tmp_path, bits=bits)
    expected = parameters(checkpoint, data)
    pack_model(checkpoint, data, bits, tmp_path / "packed")
    found = read_packed(str(tmp_path / "packed")).parameters
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("bits", [8, 4])
def test_rounds_what_was_not_trained_for_it(bits, tmp_path):
    checkpoint, data = save(tmp_path)
    sizes = pack_model(checkpoint, data, bits, tmp_path / "packed")
    assert 0.9 < sizes.change * 2 * (2 ** (bits - 1) - 1) < 1.01  # half a step
    found = read_packed(str(tmp_path / "packed")).parameters
    for name, value in parameters(checkpoint, data).items():
        assert torch.equal(found[name], fake_quantise(value.detach(), bits)), name


@pytest.mark.parametrize("bits", [8, 4])
def test_bytes(bits, tmp_path):
    """Each unique parameter once: bits a weight, two bytes for a row and for any other value."""
    checkpoint, data = save(tmp_path)
    sizes = pack_model(checkpoint, data, bits, tmp_path / "packed")
    matrices = [p for p in parameters(checkpoint, data).values() if p.dim() == 2]
    others = [p for p in parameters(checkpoint, data).values() if p.dim() != 2]
    assert sizes.parts["codes"] == sum(p.numel() for p in matrices) * bits // 8
    assert sizes.parts["scales"] == 2 * sum(len(p) for p in matrices)
    assert sizes.parts["floats"] == 2 * sum(p.numel() for p in others)
    assert sizes.parts["about"] < 3500
    assert sum(sizes.parts.values()) < sizes.file < sum(sizes.parts.values()) + 2500


def test_fairseq_can_validate_what_is_unpacked(tmp_path):
    checkpoint, data = save(tmp_path, bits=4)
    pack_model(checkpoint, data, 4, tmp_path / "packed")
    unpack_model(str(tmp_path / "packed"), tmp_path / "out")
    state = load_checkpoint(str(tmp_path / "out/model.pt"), "CHECKPOINT")
    assert state["criterion"] is None  # fairseq-train reads it for a criterion with parameters
    cfg = state["cfg"]
    cfg.task.data = str(tmp_path / "out")
    task = tasks.setup_task(cfg.task)
    assert task.cfg.train_subset == "train"
    assert not task.build_criterion(cfg.criterion).sentence_avg


def test_the_lengths_of_sentences_are_kept(tmp_path):
    checkpoint, data = save(tmp_path)
    state = torch.load(checkpoint, weights_only=True)
    limits = dict(max_source_positions=2048, max_target_positions=512, truncate_source=True)
    state["cfg"]["task"].update(limits)
    torch.save(state, checkpoint)
    pack_model(checkpoint, data, 8, tmp_path / "packed")
    unpack_model(str(tmp_path / "packed"), tmp_path / "out")
    task = load_checkpoint(str(tmp_path / "out/model.pt"), "CHECKPOINT")["cfg"].task
    assert {name: task[name] for name in limits} == limits


def test_a_bart_can_be_loaded_again(tmp_path):
    """fairseq's BART reads the task from its own options."""
    checkpoint, data = save(tmp_path, "bart", bits=8)
    pack_model(checkpoint, data, 8, tmp_path / "packed")
    unpack_model(str(tmp_path / "packed"), tmp_path / "out")
    before = parameters(checkpoint, data)
    after = parameters(tmp_path / "out/model.pt", tmp_path / "out")
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_a_packed_file_in_place_of_a_checkpoint(tmp_path):
    checkpoint, data = save(tmp_path)
    pack_model(checkpoint, data, 8, tmp_path / "packed")
    with pytest.raises(UserError, match="packed: is packed; pet-fairseq unpack makes a checkpoint"):
        load_checkpoint(str(tmp_path / "packed"), "CHECKPOINT")


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]


def test_wrong_files(tmp_path):
    checkpoint, data = save(tmp_path)
    file = tmp_path / "packed"
    pack_model(checkpoint, data, 4, file)
    whole = file.read_bytes()
    wrong = [b"", b"text", whole[: len(whole) // 2], whole[:-30], flip(whole, 20_000)]
    wrong.append((tmp_path / "trained.pt").read_bytes())
    for content in wrong:
        file.write_bytes(content)
        with pytest.raises(UserError, match=f"^FILE {file}: cut short, damaged or not written by"):
            unpack_model(str(file), tmp_path / "out")
        assert not (tmp_path / "out").exists()
    torch.save({"about": Evil()}, file)
    with pytest.raises(UserError, match="refused: it holds more than tensors"):
        unpack_model(str(file), tmp_path / "out")
    with pytest.raises(UserError, match="nowhere: no such file"):
        unpack_model(str(tmp_path / "nowhere"), tmp_path / "out")


def test_a_dictionary_cannot_be_written_elsewhere(tmp_path):
    checkpoint, data = save(tmp_path)
    file = tmp_path / "packed"
    pack_model(checkpoint, data, 4, file)
    packed = read_packed(str(file))
    packed.about["dictionaries"]["/../../notes"] = ["overwritten"]
    write_packed(file, packed)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"notes' cannot be the name of a language"):
        unpack_model(str(file), tmp_path / "out")
    assert not (tmp_path / "out").exists() and (tmp_path / "notes.txt").read_text() == "mine"


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


def test_wrong_options(tmp_path):
    checkpoint, data = save(tmp_path)
    with pytest.raises(UserError, match="--bits 3: give 8 or 4"):
        pack_model(checkpoint, data, 3, tmp_path / "packed")
    pack_model(checkpoint, data, 8, tmp_path / "packed")
    for there in (tmp_path / "packed", tmp_path / "trained.pt", tmp_path / "data"):
        with pytest.raises(UserError, match=f"--out {there}: is there already; give another name"):
            pack_model(checkpoint, data, 8, there)
    with pytest.raises(UserError, match=r"--out .*data: is there already; give a new folder"):
        unpack_model(str(tmp_path / "packed"), tmp_path / "data")
