"""The ways to train a student, and the defaults of `pet-fairseq compress`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """A way to train a student.

    Attributes:
        layers: the fewest that encoder and decoder may have.
        criterion: of its training, after the simplified task if `warms_up`.
        more_layers: how many to add to these if the student would be wider than its teacher.
        rate: the default size, in percent of the teacher's layer parameters.
    """

    arch: str
    layers: tuple[int, int]
    criterion: str
    warms_up: bool = False
    more_layers: tuple[int, int] = (2, 2)
    rate: float = 10.0


METHODS = {
    "distil": Method("transformer", (2, 2), "pet_distillation"),
    # as large as the fastest student in docs/results/bytes.md that loses nothing
    "deep-shallow": Method(
        "transformer", (6, 1), "pet_distillation", more_layers=(2, 0), rate=18.0
    ),
    "pet": Method("pet_transformer", (4, 4), "pet_distillation", warms_up=True),
    "pet-patient": Method("pet_transformer", (4, 4), "patient_kd", warms_up=True),
}
DEFAULT_METHOD = "distil"  # the fastest one, and as good as the others in docs/results/pet.md
BEAM = 5
ROUNDS = 5  # how often translations are timed
MAX_LENGTH = 200  # words of a translation, as fairseq-generate's --max-len-b
