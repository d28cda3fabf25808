"""Some layers of a model as a student's start, through the commands that a user types."""

import pytest
import torch

from pet_fairseq.baselines.keep_layers import keep_layers, read_layers, renumbered
from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from tests.cli.processes import run, train
from tests.translation import make_task, save_model


def test_layers_get_new_numbers():
    names = [f"encoder.layers.{i}.fc1.weight" for i in range(12)]
    model = {name: torch.tensor(i) for i, name in enumerate(names)}
    model |= {"decoder.layers.1.fc1.weight": torch.tensor(20), "encoder.x": torch.tensor(30)}
    kept = renumbered(model, {"encoder": [11, 2], "decoder": [1]})
    assert {name: int(tensor) for name, tensor in kept.items()} == {
        "encoder.layers.0.fc1.weight": 10,
        "encoder.layers.1.fc1.weight": 1,
        "encoder.x": 30,
    }


CONVOLUTIONAL = {f"{stack}_layers": "[(8, 3)] * 2" for stack in ("encoder", "decoder")}
POSITIONS = {f"max_{side}_positions": 40 for side in ("source", "target")}


@pytest.mark.parametrize("arch", ["lstm", "fconv"])
def test_other_models_are_refused(arch, tmp_path):
    options = {**CONVOLUTIONAL, **POSITIONS} if arch == "fconv" else {}
    model = save_model(tmp_path / "m.pt", make_task(tmp_path), arch, **options)
    with pytest.raises(UserError, match=rf"CHECKPOINT {model}: its architecture {arch} is not "):
        keep_layers(model, {"encoder": "1", "decoder": "1"}, tmp_path / "out.pt")


def test_what_the_first_layer_of_a_t5_shares_stays(tmp_path):
    sizes = {"encoder_layers": 3, "decoder_layers": 3, "encoder_embed_dim": 8}
    sizes |= {f"{stack}_attention_heads": 2 for stack in ("encoder", "decoder")}
    path = save_model(tmp_path / "t5.pt", make_task(tmp_path), "t5", **sizes)
    keep_layers(path, {"encoder": "2,3", "decoder": "3,1"}, tmp_path / "out.pt")
    whole, _ = load_transformer(path, "FILE", str(tmp_path))
    kept, _ = load_transformer(str(tmp_path / "out.pt"), "FILE", str(tmp_path))
    for stack, layers in {"encoder": (1, 2), "decoder": (2, 0)}.items():
        for i, layer in enumerate(layers):
            expected = getattr(whole, stack).layers[layer].state_dict()
            found = getattr(kept, stack).layers[i].state_dict()
            assert found.keys() == expected.keys() and "self_attn.relative.weight" in found
            assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("text", ["", "1,,2", "a", "0", "4", "1,1", "-1"])
def test_wrong_lists(text):
    with pytest.raises(UserError, match=f"--encoder-layers {text}: give "):
        read_layers(text, "encoder", 3)


@pytest.mark.slow
def test_a_student_starts_from_the_first_layers(data, teacher, tmp_path):
    """Also after patient distillation was interrupted, and where the teacher has other widths."""
    out = tmp_path / "start.pt"
    keep = ("pet-fairseq", "keep-layers", teacher, "--out", out)
    run(*keep, "--encoder-layers", "1,2", "--decoder-layers", "1,3")
    whole = load_checkpoint(str(teacher), "teacher")["model"]
    start = load_checkpoint(str(out), "start")
    assert torch.equal(
        start["model"]["decoder.layers.1.fc1.weight"], whole["decoder.layers.2.fc1.weight"]
    )
    options = run("pet-fairseq", "model-options", out).output.split("\n")[-2].split()
    assert start["cfg"]["model"].encoder_layers == start["cfg"]["model"].decoder_layers == 2
    student = (
        *(data, tmp_path / "student", *options, "--criterion", "patient_kd"),
        *("--teacher-path", teacher, "--finetune-from-model", out, "--lr", "0"),
    )
    train(*student, "--max-update", "2")
    train(*student, "--max-update", "4")
    trained = load_checkpoint(str(tmp_path / "student/checkpoint_last.pt"), "student")["model"]
    for name, tensor in start["model"].items():
        assert torch.equal(trained[name], tensor), name
    assert not any(".layers.2." in name for name in trained)


def test_mistakes_are_one_line(teacher, tmp_path):
    keep = ("pet-fairseq", "keep-layers", teacher, "--encoder-layers")
    for words, message in (
        (("1,9", "--decoder-layers", "1", "--out", tmp_path / "a.pt"), "--encoder-layers 1,9: "),
        (("1", "--decoder-layers", "1", "--out", tmp_path / "b/a.pt"), "--out "),
    ):
        result = run(*keep, *words, check=False)
        assert result.status == 1 and message in result.output
        assert len(result.output.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
