"""Files of graphs: what is stored, and that ONNX Runtime computes the same from it."""

import numpy as np
import pytest
import torch

from tests.packages import ONNX, need

need(*ONNX)

import onnx  # noqa: E402
import onnxruntime  # noqa: E402

from pet_fairseq.environment import version_numbers  # noqa: E402
from pet_fairseq.export import onnx_files  # noqa: E402
from pet_fairseq.export.onnx import TORCH  # noqa: E402

if version_numbers(torch.__version__) < TORCH:
    pytest.skip("torch is too old to export to ONNX", allow_module_level=True)

WORDS, WIDTH = 200, 32
LARGE = 160  # more numbers in a matrix than the exporter itself folds or compares


class Words(torch.nn.Module):
    """Words to logits of words, of B x T to B x T x V, and the places of words have vectors."""

    def __init__(self, tied):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH, padding_idx=1)
        self.places = torch.nn.Embedding(9, WIDTH)
        self.inner = torch.nn.Linear(WIDTH, WIDTH)
        self.output = torch.nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.output.weight = self.words.weight

    def forward(self, input_ids):
        places = torch.arange(input_ids.size(1))
        x = self.words(input_ids) + self.places(places)
        return self.output(torch.relu(self.inner(x)))


def write(module, path, rounds):
    dimensions = {"input_ids": {0: "batch", 1: "target"}}
    tokens = torch.ones(2, 3, dtype=torch.long)
    graph = onnx_files.export_graph(module, (tokens,), dimensions, ["logits"])
    onnx_files.write_graph(graph, path, rounds)


def run(path, tokens):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"input_ids": tokens})[0]


def stored(path, numbers):
    """How many tensors of so many numbers a file has."""
    return sum(np.prod(tensor.dims) == numbers for tensor in onnx.load(path).graph.initializer)


@pytest.mark.parametrize("tied", [False, True])
def test_each_word_has_a_scale_of_its_own(tied, tmp_path):
    """Words whose vectors are a million times smaller than others' keep their logits."""
    torch.manual_seed(3)
    module = Words(tied)
    with torch.no_grad():
        module.words.weight.mul_(torch.logspace(-3, 3, WORDS)[:, None])
        module.places.weight.zero_()
        module.inner.bias.zero_()
    write(module.eval(), tmp_path / "a.onnx", rounds=True)
    words = torch.arange(2, WORDS)
    with torch.no_grad():
        expected = module(words[:, None])[:, 0, 2:].numpy()
    sizes = np.abs(expected).mean(axis=0)  # of outputs, which in a tied model are those of words
    for word, logits in zip(words, expected):
        found = run(tmp_path / "a.onnx", word[None, None].numpy())[0, 0, 2:]
        assert np.corrcoef(found / sizes, logits / sizes)[0, 1] > 0.98


class Twice(torch.nn.Module):
    """Three linear layers, of which the first and the last have equal weights."""

    def __init__(self, shares):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(LARGE, LARGE) for _ in range(3))
        if shares:
            self.layers[2] = self.layers[0]
        else:
            self.layers[2].load_state_dict(self.layers[0].state_dict())

    def forward(self, states):
        for layer in self.layers:
            states = torch.relu(layer(states))
        return states


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("shares", [False, True])
def test_equal_layers_are_stored_and_rounded_once(shares, rounds, tmp_path):
    torch.manual_seed(4)
    module = Twice(shares).eval()
    states = torch.randn(2, 3, LARGE)
    dimensions = {"states": {0: "batch", 1: "target"}}
    graph = onnx_files.export_graph(module, (states,), dimensions, ["out"])
    onnx_files.write_graph(graph, tmp_path / "a.onnx", rounds)
    matrices = [t for t in onnx.load(tmp_path / "a.onnx").graph.initializer if len(t.dims) == 2]
    kind = onnx.TensorProto.INT8 if rounds else onnx.TensorProto.FLOAT
    assert [t.data_type for t in matrices] == [kind] * 2
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx")
    found = session.run(None, {"states": states.numpy()})[0]
    with torch.no_grad():
        expected = module(states).numpy()
    assert np.allclose(found, expected, atol=0.05 * expected.max() if rounds else 1e-5)


def test_nothing_of_this_machine_is_in_a_file(tmp_path):
    write(Words(True).eval(), tmp_path / "a.onnx", rounds=False)
    content = (tmp_path / "a.onnx").read_bytes()
    assert b"output.weight" in content
    assert __file__.encode() not in content and b"pkg.torch" not in content


def test_rounding_of_rows():
    """As one number after the other: 127 steps to the largest of a row."""
    matrix = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    matrix[3] = 0
    matrix[5] *= 1e-20
    numbers, scales = onnx_files.round_rows(matrix)
    assert numbers.dtype == np.int8 and scales.dtype == np.float32
    for row, rounded, scale in zip(matrix.tolist(), numbers.tolist(), scales.tolist()):
        largest = max(map(abs, row))
        steps = [round(127 * number / largest) if largest else 0 for number in row]
        assert rounded == steps
        assert not largest or scale == pytest.approx(largest / 127)
