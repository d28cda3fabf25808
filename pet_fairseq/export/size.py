"""How many bytes a model will have when it is exported to CTranslate2 in int8."""

from collections.abc import Iterator

from torch import nn

OVERHEAD_PER_TENSOR = 75  # bytes, about, for its name and shape in CTranslate2's file


def int8_bytes(model: nn.Module) -> int:
    """Predict the bytes of model.bin when a translation model is exported to CTranslate2 in int8.

    A matrix takes a byte for each number and 4 bytes for the scale of each row; biases, norms and
    tables of positions are float32. CTranslate2 stores equal tensors once: tied embeddings, and
    layers that share parameters. It joins the projections of an attention that read the same input
    into one matrix, so that these are stored once only where all of them are shared.
    """
    tensors = [tensor for stack in (model.encoder, model.decoder) for tensor in _tensors(stack)]
    return sum(dict(tensors).values()) + OVERHEAD_PER_TENSOR * len(tensors)


Tensor = tuple[tuple, int]  # a key, which equal tensors have in common, and the tensor's bytes


def _tensors(stack: nn.Module) -> Iterator[Tensor]:
    """Yield the tensors of an encoder or a decoder as exported, a shared one for each use."""
    joined: set[str] = set()
    for name, module in stack.named_modules(remove_duplicate=False):
        projections = _joined_projections(module)
        if projections:
            joined |= {f"{name}.{projection}" for projection in projections}
            yield from _linear([getattr(module, projection) for projection in projections])
        elif isinstance(module, nn.Linear) and name not in joined:
            yield from _linear([module])
        elif isinstance(module, nn.LayerNorm):
            for vector in (module.weight, module.bias):
                yield (id(vector),), 4 * vector.numel()
    matrix = stack.embed_tokens.weight
    yield (id(matrix),), matrix.numel() + 4 * matrix.size(0)
    if stack.embed_positions is not None:
        yield _positions(stack.embed_positions)


def _joined_projections(module: nn.Module) -> tuple[str, ...]:
    """The names of an attention's projections that are stored as one matrix; none for others."""
    if not hasattr(module, "q_proj"):
        return ()
    return ("q_proj", "k_proj", "v_proj") if module.self_attention else ("k_proj", "v_proj")


def _linear(linears: list[nn.Linear]) -> Iterator[Tensor]:
    """The joined matrix of linear layers, and their joined bias."""
    weights = [linear.weight for linear in linears]
    yield tuple(map(id, weights)), sum(w.numel() + 4 * w.size(0) for w in weights)
    biases = [linear.bias for linear in linears if linear.bias is not None]
    if biases:
        yield tuple(map(id, biases)), sum(4 * b.numel() for b in biases)


def _positions(positions: nn.Module) -> Tensor:
    """The table of positions: fixed tables of one size are equal, trained ones are not."""
    is_trained = isinstance(positions, nn.Embedding) and positions.weight.requires_grad
    table = positions.weight if isinstance(positions, nn.Embedding) else positions.weights
    rows, width = table.size(0) - positions.padding_idx - 1, table.size(1)
    return (id(table),) if is_trained else ("positions", rows, width), 4 * rows * width
