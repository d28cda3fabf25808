"""How wide a student has to be to have a wanted size."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import nn

from pet_fairseq.errors import UserError
from pet_fairseq.nn.architectures import build_without_memory
from pet_fairseq.nn.parameters import count_parameters
from pet_fairseq.pet.params import parse_model_options
from pet_fairseq.runner.options import Options, stacks
from pet_fairseq.runner.stage import last_wins

HEADS = 4
STEP = 8  # widths are multiples of it, and so of HEADS
FFN_OVER_WIDTH = 2
SMALLEST = 16  # width


@dataclass(frozen=True)
class Shape:
    """The shape of a student.

    Attributes:
        layers: of the encoder and of the decoder.
        width, ffn: of the layers and of their feed-forward networks, the same in both.
    """

    layers: tuple[int, int]
    width: int
    ffn: int

    @property
    def options(self) -> Options:
        encoder_layers, decoder_layers = self.layers
        options = stacks(encoder_layers, self.width, self.ffn, HEADS)
        return last_wins((*options, "--decoder-layers", str(decoder_layers)))


@dataclass(frozen=True)
class Sized:
    """A shape and the size of its model, as `measure` gives it."""

    shape: Shape
    size: float


Measure = Callable[[nn.Module], float]


def find_shape(
    options: Options,
    vocabularies: tuple[int, int],
    layers: tuple[int, int],
    measure: Measure,
    target: float,
) -> Sized:
    """The shape whose model comes closest to a size: first the width is chosen, then the FFN's.

    Args:
        options: the model's, with --arch; those of its shape are replaced.
        vocabularies: sizes of the source and target dictionaries.
        layers: of encoder and decoder.
        measure: gives the size of a model on torch's meta device; it grows with the width.
        target: the wanted size.
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
    return min(sized, key=lambda candidate: abs(candidate.size - target))


def _with_shape(args: Namespace, shape: Shape) -> Namespace:
    changed = Namespace(**vars(args))
    for stack in ("encoder", "decoder"):
        setattr(changed, f"{stack}_embed_dim", shape.width)
        setattr(changed, f"{stack}_ffn_embed_dim", shape.ffn)
    changed.decoder_input_dim = changed.decoder_output_dim = shape.width
    return changed


def _with_fitting_ffn(
    layers: tuple[int, int], width: int, size: Callable[[Shape], float], target: float
) -> Iterator[Shape]:
    """Yield two shapes of a width, just below and above a size, with FFNs 1 to 4 times as wide."""
    fits = _largest(lambda n: size(Shape(layers, width, n * STEP)) <= target) * STEP
    for ffn in (fits, fits + STEP):
        yield Shape(layers, width, min(max(ffn, width), 4 * width))


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest n that fits, 0 if 1 does not, where every n fits that is below one that fits."""
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


def check_size(option: str, wanted: float, reached: float, tolerance: float, unit: str) -> None:
    """Raises UserError if the nearest student is too far from the wanted size."""
    if abs(reached - wanted) > tolerance * wanted:
        raise UserError(
            f"{option} {wanted:g}: the nearest student of this method has {reached:.3g}{unit}; "
            f"give {'more' if reached > wanted else 'less'}"
        )
