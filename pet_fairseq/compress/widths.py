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
OVERHEAD_PER_VARIABLE = 60  # bytes for the name and the shape of a tensor in CTranslate2's file


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
    tensors: dict[tuple, int] = {}
    for stack in (model.encoder, model.decoder):
        joined: set[int] = set()
        for module in stack.modules():
            for group in _joined_projections(module):
                joined |= {id(linear) for linear in group}
                _add_linears(tensors, group)
        for module in stack.modules():
            if id(module) not in joined:
                _add_module(tensors, module)
        _add_positions(tensors, stack.embed_positions)
    return sum(tensors.values()) + OVERHEAD_PER_VARIABLE * len(tensors)


def _joined_projections(module: nn.Module) -> Iterator[list[nn.Module]]:
    if not hasattr(module, "q_proj"):
        return
    if module.self_attention:
        yield [module.q_proj, module.k_proj, module.v_proj]
    else:
        yield [module.k_proj, module.v_proj]


def _add_linears(tensors: dict[tuple, int], linears: list[nn.Module]) -> None:
    """Add matrices that are stored as one, and their biases."""
    weights = [linear.weight for linear in linears]
    tensors[tuple(map(id, weights))] = sum(w.numel() + 4 * w.size(0) for w in weights)
    biases = [linear.bias for linear in linears if linear.bias is not None]
    if biases:
        tensors[tuple(map(id, biases))] = sum(4 * b.numel() for b in biases)


def _add_module(tensors: dict[tuple, int], module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        _add_linears(tensors, [module])
    elif isinstance(module, nn.Embedding) and not _holds_positions(module):
        tensors[(id(module.weight),)] = module.weight.numel() + 4 * module.weight.size(0)
    elif isinstance(module, nn.LayerNorm):
        for vector in (module.weight, module.bias):
            tensors[(id(vector),)] = 4 * vector.numel()


def _holds_positions(module: nn.Module) -> bool:
    return hasattr(module, "max_positions")


def _add_positions(tensors: dict[tuple, int], positions: nn.Module) -> None:
    """Sinusoidal tables of one size are equal, learned ones are not."""
    learned = isinstance(positions, nn.Embedding)
    table = positions.weight if learned else positions.weights
    rows, width = table.size(0) - positions.padding_idx - 1, table.size(1)
    key = (id(table),) if learned else ("positions", rows, width)
    tensors[key] = 4 * rows * width


def check_size(option: str, wanted: float, reached: float, tolerance: float, unit: str) -> None:
    """Raises UserError if the nearest student is too far from the wanted size."""
    if abs(reached - wanted) > tolerance * wanted:
        smaller = "smallest" if reached > wanted else "largest"
        raise UserError(
            f"{option} {wanted:g}: the {smaller} student of this method has {reached:.3g}{unit}; "
            f"give {'more' if reached > wanted else 'less'}"
        )
