"""Controls for PET: students as wide as the plain student that run the same layers several times.

They separate what a second pass through stored layers is worth from what more layers are worth.
"""

from pet_fairseq.recipes.translation.setup import Setup
from pet_fairseq.recipes.translation.sizes import layers_of
from pet_fairseq.recipes.translation.trainings import Builder, Training, train
from pet_fairseq.runner.fairseq_options import Options
from pet_fairseq.runner.stage import value_of

ONE_LAYER = ("--encoder-layers", "1", "--decoder-layers", "1")


def distilled(encoder_passes: int, decoder_passes: int, options: Options = ()) -> Builder:
    """The plain student with word-level distillation, whose stacks run several times.

    Where a stack runs more than once, its learning rate is PET's, if PET's has one of its own and
    the students have no common one.

    Args:
        encoder_passes, decoder_passes: how often each stack's layers run.
        options: model options that give it another number of layers.
    """

    def build(setup: Setup, row: str, seed: int) -> list:
        settings = setup.settings
        plain = (*settings.architecture("plain"), *options)
        passes = {"encoder": encoder_passes, "decoder": decoder_passes}
        repeated = [word for stack in passes for word in repeat(plain, stack, passes[stack])]
        own_rate = max(passes.values()) > 1 and "--lr" not in settings.student
        lr = value_of(settings.architecture("pet"), "--lr") if own_rate else None
        changed = ("--arch", "pet_transformer", *options, *repeated, *(("--lr", lr) if lr else ()))
        return train(setup, row, seed, Training("distil", "plain", options=changed))

    return build


def repeat(model_options: Options, stack: str, passes: int) -> Options:
    """Model options that run all layers of a stack, in turn, `passes` times.

    Two layers with three passes run as L1 L2 L1 L2 L1 L2.
    """
    layers = layers_of(model_options, stack)
    pairs = [
        f"L{number}=L{number + layers * earlier_passes}"
        for earlier_passes in range(1, passes)
        for number in range(1, layers + 1)
    ]
    return (
        *(f"--{stack}-layers", str(layers * passes)),
        *(f"--{stack}-pairs", " ".join(pairs) or "none"),
    )
