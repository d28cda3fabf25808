"""Graphs of ONNX on their way to files: what is equal stored once, 8 bits, files above 2 GB.

An embedding is V x D (words x width), a matrix of MatMul inputs x outputs: that of the output,
D x V, is often the decoder's embedding transposed. ONNX Runtime transposes it again as it opens the
file. This module imports onnx and ONNX Runtime where it needs them: they are extras.
"""

import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

LARGEST = 2_000_000_000  # bytes of weights in one file; Protocol Buffers allow 2 GiB with the rest
DATA = "_data"  # at the end of the name of the file with the weights of a larger one


@torch.no_grad()
def export_graph(
    module: nn.Module,
    arguments: Sequence[Any],
    inputs: dict[str, dict[int, str]],
    outputs: list[str],
) -> Any:
    """The graph of a module, an `onnx.ModelProto`.

    Args:
        arguments: tensors, or a list of them at the end. inputs: the open dimensions of each tensor
            by its name.
    """
    shapes: list[Any] = list(inputs.values())
    if isinstance(arguments[-1], list):
        single = len(arguments) - 1
        shapes = [*shapes[:single], shapes[single:]]
    with quiet():
        program = torch.onnx.export(
            module,
            tuple(arguments),
            input_names=list(inputs),
            output_names=outputs,
            dynamic_shapes=tuple(shapes),
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        return program.model_proto


def take_caches_of_none(model: Any, caches: list[str]) -> None:
    """Let a decoder's graph take empty caches of no sentences, 0 x H x 0 x D, for any batch.

    transformers.js begins with such. They, and no others, change by being given the batch's size.

    Args:
        caches: the names of inputs.
    """
    from onnx.helper import make_node

    new = [make_node("Shape", ["input_ids"], ["cache.batch"], start=0, end=1)]
    for name in caches:
        new += [
            make_node("Shape", [name], [f"{name}.sizes"], start=1),
            make_node("Concat", ["cache.batch", f"{name}.sizes"], [f"{name}.shape"], axis=0),
            make_node("Reshape", [name, f"{name}.shape"], [f"{name}.sized"], allowzero=1),
        ]
    for node in model.graph.node:
        node.input[:] = [f"{name}.sized" if name in caches else name for name in node.input]
    put_first(model, new)


def write_graph(model: Any, path: Path, rounds: bool) -> None:
    """Write a graph; a large one has its weights in a second file.

    Args:
        rounds: whether to round the weights to 8 bits.
    """
    import onnx

    fold_transposes(model)
    store_once(model)
    outputs = tied_outputs(model)
    if rounds:
        model = with_8_bits(model)
        round_embeddings(model, outputs)
    else:
        for output, embedding in outputs.items():
            take_transposed(model, output, embedding)
    drop_notes(model)
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) <= LARGEST:
        onnx.save(model, path)
    else:
        data = path.with_name(path.name + DATA)
        onnx.save(model, path, save_as_external_data=True, location=data.name)
        data.chmod(path.stat().st_mode)  # onnx lets nobody else read it


def fold_transposes(model: Any) -> None:
    """Store matrices that the exporter lets the graph transpose, as it does with shared ones.

    Only stored matrices are rounded.
    """
    from onnx.numpy_helper import from_array

    matrices = matrices_of(model)
    nodes = list(model.graph.node)
    transposed = [n for n in nodes if n.op_type == "Transpose" and n.input[0] in matrices]
    new = [
        from_array(np.ascontiguousarray(matrices[node.input[0]].T), node.output[0])
        for node in transposed
    ]
    replace_nodes(model, [node for node in nodes if node not in transposed])
    used = {name for node in model.graph.node for name in node.input}
    replace_tensors(model, [name for name in matrices if name not in used], new)


def store_once(model: Any) -> None:
    """Keep the first of tensors that are equal, such as those of layers that share parameters."""
    first: dict[tuple[int, tuple[int, ...], bytes], str] = {}
    instead = {}
    for tensor in model.graph.initializer:
        content = (tensor.data_type, tuple(tensor.dims), tensor.raw_data)
        instead[tensor.name] = (
            first.setdefault(content, tensor.name) if tensor.raw_data else tensor.name
        )
    for node in model.graph.node:
        node.input[:] = [instead.get(name, name) for name in node.input]
    replace_tensors(model, [name for name, kept in instead.items() if name != kept], [])


def drop_notes(model: Any) -> None:
    """Leave out what nothing computes with: the exporter's notes, which name files, and shapes.

    In small models they are half of the file.
    """
    graph = model.graph
    named = (*graph.node, *graph.initializer, *graph.input, *graph.output)
    for part in (model, graph, *named):
        del part.metadata_props[:]
        part.doc_string = ""
    del graph.value_info[:]


def tied_outputs(model: Any) -> dict[str, str]:
    """The matrices of MatMul that are embeddings transposed: the names of both."""
    matrices = matrices_of(model)
    factors = [node.input[1] for node in model.graph.node if node.op_type == "MatMul"]
    embeddings, found = embeddings_of(model, matrices), {}
    for output in matrices.keys() & set(factors):
        for embedding in embeddings:
            if np.array_equal(matrices[output].T, matrices[embedding]):
                found[output] = embedding
    return found


def matrices_of(model: Any) -> dict[str, np.ndarray]:
    """The stored matrices in float32, by their names."""
    import onnx
    from onnx.numpy_helper import to_array

    return {
        tensor.name: to_array(tensor)
        for tensor in model.graph.initializer
        if len(tensor.dims) == 2 and tensor.data_type == onnx.TensorProto.FLOAT
    }


def embeddings_of(model: Any, matrices: dict[str, np.ndarray]) -> list[str]:
    """Those of the matrices from which rows are taken."""
    first = [node.input[0] for node in model.graph.node if node.op_type == "Gather"]
    return sorted(matrices.keys() & set(first))


def take_transposed(model: Any, output: str, stored: str) -> None:
    """Compute a stored matrix from its transpose, and leave it out of the file."""
    from onnx.helper import make_node

    replace_tensors(model, [output], [])
    put_first(model, [make_node("Transpose", [stored], [output], perm=[1, 0])])


def with_8_bits(model: Any) -> Any:
    """A graph in which the matrices of MatMul have 8 bits, with a scale for each output.

    They use 7 of the 8, with which no CPU's sums of products overflow.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder, quiet():
        path = Path(folder, "model.onnx")
        quantize_dynamic(
            model,
            path,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=True,  # of any size
        )
        return onnx.load(path)


def round_embeddings(model: Any, outputs: dict[str, str]) -> None:
    """Give all embeddings 8 bits, with a scale for each row.

    Args:
        outputs: matrices of MatMul, by now in 8 bits, that are an embedding transposed, which takes
            their numbers.
    """
    from onnx.numpy_helper import from_array, to_array
    from onnxruntime.quantization.quant_utils import TENSOR_NAME_QUANT_SUFFIX as QUANTISED

    matrices = matrices_of(model)
    tied = {embedding: output for output, embedding in outputs.items()}
    for name in embeddings_of(model, matrices):
        rows, scales = f"{name}.rows", f"{name}.scales"
        output = tied.get(name)
        if output is None:
            stored, sizes = round_rows(matrices[name])
        else:
            tensors = {tensor.name: tensor for tensor in model.graph.initializer}
            stored = to_array(tensors[output + QUANTISED]).T
            sizes = to_array(tensors[f"{output}_scale"])
            take_transposed(model, output + QUANTISED, rows)
        new = [from_array(np.ascontiguousarray(stored), rows), from_array(sizes, scales)]
        replace_tensors(model, [name], new)
        look_up_rounded(model, name, rows, scales)


def round_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round each row of V x D to 8 bits, symmetric around 0; returns them and V scales."""
    largest = np.abs(matrix).max(axis=1)
    scales = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales


def look_up_rounded(model: Any, name: str, rows: str, scales: str) -> None:
    """Take rows in 8 bits, times their scales, where the graph takes those of an embedding."""
    import onnx
    from onnx.helper import make_node
    from onnx.numpy_helper import from_array

    last = f"{name}.last"
    replace_tensors(model, [], [from_array(np.array([-1]), last)])
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Gather" or node.input[0] != name:
            nodes.append(node)
            continue
        words, found = node.input[1], node.output[0]
        nodes += [
            make_node("Gather", [rows, words], [f"{found}.rows"]),
            make_node("Cast", [f"{found}.rows"], [f"{found}.values"], to=onnx.TensorProto.FLOAT),
            make_node("Gather", [scales, words], [f"{found}.scales"]),
            make_node("Unsqueeze", [f"{found}.scales", last], [f"{found}.scale"]),
            make_node("Mul", [f"{found}.values", f"{found}.scale"], [found]),
        ]
    replace_nodes(model, nodes)


def put_first(model: Any, nodes: Sequence[Any]) -> None:
    """Put nodes before all others, which may use what they compute."""
    replace_nodes(model, [*nodes, *model.graph.node])


def replace_nodes(model: Any, nodes: Sequence[Any]) -> None:
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def replace_tensors(model: Any, names: Sequence[str], tensors: Sequence[Any]) -> None:
    """Store tensors in place of others, which are named."""
    stored, gone = model.graph.initializer, set(names)
    for i in reversed(range(len(stored))):  # those that stay may be gigabytes: they are not copied
        if stored[i].name in gone:
            del stored[i]
    stored.extend(tensors)


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back what the exporter and its libraries say of every step."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
