"""How wide a student has to be for a wanted size, and what its export will weigh."""

from argparse import Namespace
from dataclasses import dataclass
from typing import Callable, Iterator

from torch import nn

from pet_fairseq.architectures import build_without_memory
from pet_fairseq.errors import UserError
from pet_fairseq.parameters import count_parameters
from pet_fairseq.pet.sizes import parse_model_options
from pet_fairseq.recipes.sizes import Options, stacks

HEADS = 4
STEP = 8  # widths are multiples of it, and so of the heads
FFN_OVER_WIDTH = 2
SMALLEST = 16
OVERHEAD_PER_TENSOR = 75  # bytes for its name and shape in CTranslate2's file


@dataclass(frozen=True)
class Shape:
    """The shape of a student's encoder, and of its decoder."""

    layers: int
    width: int
    ffn: int

    @property
    def options(self) -> Options:
        return stacks(self.layers, self.width, self.ffn, HEADS)


@dataclass(frozen=True)
class Sized:
    """A shape and the size that it has."""

    shape: Shape
    size: float


Measure = Callable[[nn.Module], float]


def find_shape(
    options: Options,
    vocabularies: tuple[int, int],
    layers: int,
    measure: Measure,
    target: float,
) -> Sized:
    """The shape whose model comes next to a size: first the width, then the FFN's width.

    Args:
        options: the model's, with --arch; those of its shape are replaced.
        layers: of each stack. measure: size of a model without memory, larger for wider
            models. target: the wanted size.
    """
    args = parse_model_options([*options, *Shape(layers, STEP, STEP).options])

    def size(shape: Shape) -> float:
        return measure(build_without_memory(_with_shape(args, shape), *vocabularies))

    def of_width(width: int) -> Shape:
        return Shape(layers, width, FFN_OVER_WIDTH * width)

    width = _largest(lambda n: size(of_width(n * STEP)) <= target) * STEP
    candidates = [max(width, SMALLEST), max(width, SMALLEST) + STEP]
    shapes = [shape for w in candidates for shape in _with_fitting_ffn(layers, w, size, target)]
    sized = [Sized(shape, size(shape)) for shape in shapes]
    return min(sized, key=lambda found: abs(found.size - target))


def _with_shape(args: Namespace, shape: Shape) -> Namespace:
    changed = Namespace(**vars(args))
    for stack in ("encoder", "decoder"):
        setattr(changed, f"{stack}_embed_dim", shape.width)
        setattr(changed, f"{stack}_ffn_embed_dim", shape.ffn)
    changed.decoder_input_dim = changed.decoder_output_dim = shape.width
    return changed


def _with_fitting_ffn(
    layers: int, width: int, size: Callable[[Shape], float], target: float
) -> Iterator[Shape]:
    """Shapes of a width with an FFN between 1 and 4 times as wide, just below and above a size."""
    fits = _largest(lambda n: size(Shape(layers, width, n * STEP)) <= target) * STEP
    for ffn in (fits, fits + STEP):
        yield Shape(layers, width, min(max(ffn, width), 4 * width))


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest n that fits, 0 if 1 does not; whatever is larger than an n that does not fit
    does not fit either."""
    high = 1
    while fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def layer_parameters(model: nn.Module) -> int:
    return count_parameters(model).layers


def int8_bytes(model: nn.Module) -> int:
    """The size of model.bin when a translation model is exported to CTranslate2 in int8.

    A matrix has a byte for each number and a float for each row; biases, norms and tables of
    positions are floats. CTranslate2 stores equal tensors once: tied embeddings, and layers that
    share parameters. It joins the projections of an attention that read the same input, so that
    these are stored once only where all of them are shared.
    """
    tensors = [tensor for stack in (model.encoder, model.decoder) for tensor in _tensors(stack)]
    return sum(dict(tensors).values()) + OVERHEAD_PER_TENSOR * len(tensors)


Tensor = tuple[tuple, int]  # what is equal if the tensor is, and its bytes


def _tensors(stack: nn.Module) -> Iterator[Tensor]:
    """The tensors of an encoder or a decoder as they are exported, shared ones each time."""
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
    yield _positions(stack.embed_positions)


def _joined_projections(module: nn.Module) -> tuple[str, ...]:
    """Of an attention: the names of those that are stored as one matrix."""
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
    """Sinusoidal tables of one size are equal, learned ones are not."""
    learned = isinstance(positions, nn.Embedding)
    table = positions.weight if learned else positions.weights
    rows, width = table.size(0) - positions.padding_idx - 1, table.size(1)
    return (id(table),) if learned else ("positions", rows, width), 4 * rows * width


def check_size(option: str, wanted: float, reached: float, tolerance: float, unit: str) -> None:
    """Raises UserError if the nearest student is too far from the wanted size."""
    if abs(reached - wanted) > tolerance * wanted:
        smaller = "smallest" if reached > wanted else "largest"
        raise UserError(
            f"{option} {wanted:g}: the {smaller} student of this method has {reached:.3g}{unit}; "
            f"give {'more' if reached > wanted else 'less'}"
        )
