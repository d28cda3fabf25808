"""The student for a teacher: its architecture by the method, its shape by the wanted size."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional

from pet_fairseq.compress.export_size import int8_bytes
from pet_fairseq.compress.methods import Method
from pet_fairseq.compress.teacher import Teacher
from pet_fairseq.compress.widths import Shape, check_size, find_shape, layer_parameters
from pet_fairseq.errors import UserError
from pet_fairseq.runner.options import PRE_NORM, Options

MEGABYTE = 1e6
TOLERANCE = 0.1  # of the wanted size


@dataclass(frozen=True)
class Size:
    """The size that the user wants: percent of the teacher's layer parameters, or megabytes."""

    rate: Optional[float] = None
    megabytes: Optional[float] = None


def choose_student(teacher: Teacher, method: Method, size: Size) -> tuple[Shape, Options]:
    """Choose the student's shape; returns it, and all options of the student's model.

    The student has more layers than the method needs if it would be wider than the teacher
    otherwise.

    Raises:
        UserError: a size that no student has, or both sizes at once.
    """
    check_wanted(teacher, size)
    wanted = size if size != Size() else Size(rate=method.rate)
    options = model_options(teacher, method)
    for layers in depths(method, *teacher.layers):
        shape = _shape(teacher, layers, wanted, options)
        if shape.width <= teacher.width:
            break
    return shape, (*options, *shape.options)


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


def check_wanted(teacher: Teacher, size: Size) -> None:
    """Check the size that the user wants.

    Raises:
        UserError: it is given in two ways, not positive, or not smaller than the teacher.
    """
    if size.rate is not None and size.megabytes is not None:
        raise UserError("--rate and --megabytes: both say how small; give one of them")
    if size.rate is not None and not 0 < size.rate < 100:
        raise UserError(
            f"--rate {size.rate:g}: give a percentage of the teacher's layer parameters above 0 "
            "and below 100"
        )
    if size.megabytes is not None:
        check_megabytes(teacher, size.megabytes)


def check_megabytes(teacher: Teacher, megabytes: float) -> None:
    """Raises UserError if a size is not positive, or not smaller than the teacher's in int8."""
    if not megabytes > 0:
        raise UserError(f"--megabytes {megabytes:g}: give a number above 0")
    if teacher.why_no_plain_form() is not None:
        return  # it cannot be exported, so it has no size in int8
    limit = teacher.int8_bytes / MEGABYTE
    if megabytes >= limit:
        raise UserError(
            f"--megabytes {megabytes:g}: the teacher itself has {limit:.2f} MB in int8; give less"
        )


def _shape(teacher: Teacher, layers: tuple[int, int], size: Size, options: Options) -> Shape:
    if size.megabytes is not None:
        option, wanted, unit = "--megabytes", size.megabytes, " MB"
        measure = lambda model: int8_bytes(model) / MEGABYTE  # noqa: E731
    else:
        assert size.rate is not None, "a size is one of the two"
        option, wanted, unit = "--rate", size.rate, "%"
        measure = lambda model: 100 * layer_parameters(model) / teacher.counts.layers  # noqa: E731
    nearest = find_shape(options, teacher.vocabularies, layers, measure, wanted)
    check_size(option, wanted, nearest.size, TOLERANCE, unit)
    return nearest.shape


def model_options(teacher: Teacher, method: Method) -> Options:
    """Options of the student's model but its shape; embeddings and positions as the teacher's."""
    return (
        *("--arch", method.arch, *PRE_NORM),
        *position_options(teacher),
        *teacher.embedding_options,
    )


def position_options(teacher: Teacher) -> Options:
    """The options for sentences as long as the teacher reads."""
    source, target = teacher.max_positions
    return ("--max-source-positions", str(source), "--max-target-positions", str(target))
