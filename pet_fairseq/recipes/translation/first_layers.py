"""Patient distillation started from the teacher's layers, as in the thesis (section 2.2.1).

Layers fit a student of their own widths only, and one or two of the teacher's are larger than PET.
So the teacher is distilled into as many layers of the student's widths first; the student starts
from the first of these, as in Patient-KD's paper (S. Sun et al., EMNLP 2019).
"""

from pet_fairseq.recipes.translation.setup import Setup
from pet_fairseq.recipes.translation.sizes import layers_of
from pet_fairseq.recipes.translation.trainings import Training, train
from pet_fairseq.runner.fairseq_commands import BEST
from pet_fairseq.runner.stage import PRODUCT, Stage

NARROW = "narrow_kd"  # the row that gives the layers
START = "first_layers.pt"


def build_narrow(setup: Setup, row: str, seed: int) -> list[Stage]:
    """A student of the plain one's widths with as many layers as the teacher, distilled."""
    layers = str(setup.settings.teacher_layers)
    depth = ("--encoder-layers", layers, "--decoder-layers", layers)
    return train(setup, row, seed, Training("distil", "plain", options=depth))


def from_narrow(setup: Setup, row: str, seed: int) -> list[Stage]:
    """The plain student, started from the first layers of the narrow one of the same seed."""
    folder = setup.folder(row, seed)
    narrow, start = setup.folder(NARROW, seed) / BEST, folder / START
    plain = setup.settings.architecture("plain")
    layers = [
        word
        for stack in ("encoder", "decoder")
        for word in (f"--{stack}-layers", first_layers(layers_of(plain, stack)))
    ]
    keep = Stage(
        f"{folder.name}/first-layers",
        (row,),
        command=("pet-fairseq", "keep-layers", str(narrow), *layers, "--out", PRODUCT),
        product=start,
        inputs=(narrow,),
    )
    return [keep, *train(setup, row, seed, Training("patient", "plain", start=START))]


def first_layers(number: int) -> str:
    """The first layers as a list: 1,2,3."""
    return ",".join(map(str, range(1, number + 1)))
