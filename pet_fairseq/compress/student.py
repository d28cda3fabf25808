"""The student for a teacher: its architecture by the method, its shape by the wanted size."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Optional

from torch import nn

from pet_fairseq.compress.teacher import Teacher
from pet_fairseq.compress.training import Method, StudentForm
from pet_fairseq.errors import UserError
from pet_fairseq.export.size import int8_bytes
from pet_fairseq.nn.architectures import build_without_memory
from pet_fairseq.nn.parameter_counts import count_parameters
from pet_fairseq.pet.params import parse_model_options
from pet_fairseq.runner.fairseq_options import Options, stacks
from pet_fairseq.runner.stage import drop_overridden

MEGABYTE = 1e6
TOLERANCE = 0.1  # of the wanted size
HEADS = 4
STEP = 8  # widths are multiples of it, or of that of a form, and so of HEADS
FFN_OVER_WIDTH = 2
SMALLEST = 16  # width


@dataclass(frozen=True)
class Size:
    """The size that the user wants: percent of the teacher's layer parameters, or megabytes."""

    rate: Optional[float] = None
    megabytes: Optional[float] = None


@dataclass(frozen=True)
class Student:
    """A student's model.

    Attributes:
        options: all of its options. width: of its layers. parameters: their number in the model.
    """

    options: Options
    width: int
    parameters: int


def choose_student(teacher: Teacher, method: Method, size: Size, form: StudentForm) -> Student:
    """The student of a size; of the method's default size if `size` says nothing.

    It has more layers than the method needs if it would be wider than the teacher otherwise.

    Raises:
        UserError: a size that no student has, or both sizes at once.
    """
    check_wanted(teacher, size)
    wanted = size if size != Size() else Size(rate=method.rate)
    options = model_options(teacher, method, form)
    for layers in depths(method, *teacher.layers):
        nearest = _nearest(teacher, layers, wanted, options, form.step)
        if nearest.shape.width <= teacher.width:
            break
    shape, parameters = nearest.shape, count_parameters(nearest.model).total
    return Student((*options, *shape.options), shape.width, parameters)


def depths(method: Method, teacher_encoder: int, teacher_decoder: int) -> Iterator[tuple[int, int]]:
    """Yield the layers of encoder and decoder that a student may have, the fewest first.

    They are the method's own, then more of them, as long as there are not more than the teacher's
    in the decoder and in both together.
    """
    encoder, decoder = method.layers
    while True:
        yield encoder, decoder
        encoder, decoder = encoder + method.more_layers[0], decoder + method.more_layers[1]
        if decoder > teacher_decoder or encoder + decoder > teacher_encoder + teacher_decoder:
            return


def check_size_options(size: Size) -> None:
    """Check what needs no teacher of the size that the user wants.

    Raises:
        UserError: it is given in two ways, or is no size.
    """
    if size.rate is not None and size.megabytes is not None:
        raise UserError("--rate and --megabytes: both say how small; give one of them")
    if size.rate is not None and not 0 < size.rate < 100:
        raise UserError(
            f"--rate {size.rate:g}: give a percentage of the teacher's layer parameters above 0 "
            "and below 100"
        )
    if size.megabytes is not None and not size.megabytes > 0:
        raise UserError(f"--megabytes {size.megabytes:g}: give a number above 0")


def check_wanted(teacher: Teacher, size: Size) -> None:
    """Raise UserError for a size in megabytes that is not below the teacher's in int8."""
    if size.megabytes is None or teacher.int8_bytes is None:
        return
    limit = teacher.int8_bytes / MEGABYTE
    if size.megabytes >= limit:
        raise UserError(
            f"--megabytes {size.megabytes:g}: the teacher itself has {limit:.2f} MB in int8; give "
            "less"
        )


def _nearest(
    teacher: Teacher, layers: tuple[int, int], size: Size, options: Options, step: int
) -> "Sized":
    """The model with these layers that comes closest to a size.

    Raises:
        UserError: it is too far from that.
    """
    if size.megabytes is not None:
        option, wanted, unit = "--megabytes", size.megabytes, " MB"
        measure = lambda model: int8_bytes(model) / MEGABYTE  # noqa: E731
    else:
        assert size.rate is not None, "a size is one of the two"
        option, wanted, unit = "--rate", size.rate, "%"
        whole = teacher.layer_parameters
        measure = lambda model: 100 * count_parameters(model).layers / whole  # noqa: E731
    nearest = find_shape(options, teacher.vocabularies, layers, measure, wanted, step)
    check_size(option, wanted, nearest.size, TOLERANCE, unit)
    return nearest


def model_options(teacher: Teacher, method: Method, form: StudentForm) -> Options:
    """Options of the student's model but its shape; embeddings and positions as the teacher's."""
    return (
        *("--arch", method.arch, *form.options),
        *position_options(teacher),
        *(teacher.embedding_options or form.embedding_options),
    )


def position_options(teacher: Teacher) -> Options:
    """The options for sentences as long as the teacher reads."""
    source, target = teacher.max_positions
    return ("--max-source-positions", str(source), "--max-target-positions", str(target))


# --- the shape of a wanted size -------------------------------------------------------------------


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
        return drop_overridden((*options, "--decoder-layers", str(decoder_layers)))


@dataclass(frozen=True)
class Sized:
    """A shape and its model, whose size is as `measure` gives it."""

    shape: Shape
    model: nn.Module
    size: float


Measure = Callable[[nn.Module], float]


def find_shape(
    options: Options,
    vocabularies: tuple[int, int],
    layers: tuple[int, int],
    measure: Measure,
    target: float,
    step: int = STEP,
) -> Sized:
    """The shape whose model comes closest to a size: first the width is chosen, then the FFN's.

    Args:
        options: the model's, with --arch; those of its shape are replaced.
        vocabularies: sizes of the source and target dictionaries.
        layers: of encoder and decoder.
        measure: gives the size of a model on torch's meta device; it grows with the width.
        target: the wanted size. step: widths are multiples of it.
    """
    args = parse_model_options([*options, *Shape(layers, STEP, STEP).options])

    def sized(shape: Shape) -> Sized:
        model = build_without_memory(_with_shape(args, shape), *vocabularies)
        return Sized(shape, model, measure(model))

    def size(shape: Shape) -> float:
        return sized(shape).size

    def of_width(width: int) -> Shape:
        return Shape(layers, width, FFN_OVER_WIDTH * width)

    width = _largest(lambda n: size(of_width(n * step)) <= target) * step
    width = max(width, step, SMALLEST)
    candidates = [width, width + step]
    shapes = [shape for w in candidates for shape in _with_fitting_ffn(layers, w, size, target)]
    return min(map(sized, shapes), key=lambda candidate: abs(candidate.size - target))


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


def check_size(option: str, wanted: float, reached: float, tolerance: float, unit: str) -> None:
    """Raises UserError if the nearest student is too far from the wanted size."""
    if abs(reached - wanted) > tolerance * wanted:
        raise UserError(
            f"{option} {wanted:g}: the nearest student of this method has {reached:.3g}{unit}; "
            f"give {'more' if reached > wanted else 'less'}"
        )
