"""The settings of translation recipes by size: options of the models and of their trainings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pet_fairseq.runner.options import (
    AUTO,
    BETAS,
    PRE_NORM,
    Options,
    learning_rate,
    stacks,
    updates,
    words,
)
from pet_fairseq.runner.stage import value_of

ONE_DECODER_LAYER = ("--decoder-layers", "1")
RATES = (5, 20, 40)  # percent of the teacher's layer parameters, beside the size of all students


@dataclass(frozen=True)
class Settings:
    """Options for fairseq-train and fairseq-generate; later ones override earlier ones.

    Attributes:
        common: of every training.
        teacher, student: of their trainings; the teacher's include its architecture.
        updates: how long a student is trained.
        warmup: how long the simplified task is trained.
        finetune: how a finished student is trained further, as after head sampling.
        quantised: how a finished student is trained further with its weights in few bits.
        gold, simplified, distillation, patience: options that go with a criterion: cross-entropy,
            the simplified task, word-level distillation, patient distillation.
        plain, speed, deep, tenth, can, pet, wide: architectures of students, in small sizes with
            the learning rate for their width (`student` overrides it). All have equally many layer
            parameters, except for `speed` (PET's layers and widths, nothing shared), `tenth`
            (deep-shallow; with 8 bits a weight its file, embeddings included, is a tenth of the
            teacher's) and `wide` (PET with more heads).
        kv, qk_crosswise: PET with these pairs in its decoder, whose feed-forward networks are
            wider or narrower so that it has as many parameters as `pet` (PET, Table 5).
        at_rates: `plain`, `can` and `pet` at each of RATES, for example `pet_at5` (PET, Figure 7a).
        teacher_layers: the layers of each of its stacks.
        heads: how many heads of the wide student are kept in each attention.
        generate: of fairseq-generate.
        precision: on a GPU, unless the user says otherwise.
    """

    common: Options
    teacher: Options
    student: Options
    updates: Options
    warmup: Options
    finetune: Options
    quantised: Options
    gold: Options
    simplified: Options
    distillation: Options
    patience: Options
    plain: Options
    speed: Options
    deep: Options
    tenth: Options
    can: Options
    pet: Options
    wide: Options
    kv: Options
    qk_crosswise: Options
    at_rates: Mapping[str, Options]
    heads: int
    generate: Options
    teacher_layers: int = 6
    precision: str = "fp32"

    def architecture(self, name: str) -> Options:
        """The model options in the field of this name, or under this name in `at_rates`."""
        return self.at_rates[name] if name in self.at_rates else getattr(self, name)


def sized(arch: str, layers: int, width: int, ffn: int, heads: int) -> Options:
    """Model options, and the learning rate that suits the width."""
    return with_rate(("--arch", arch, *stacks(layers, width, ffn, heads)))


def with_rate(model: Options) -> Options:
    """Model options, and the learning rate that suits the encoder, which is never the narrower."""
    arch, width = value_of(model, "--arch"), value_of(model, "--encoder-embed-dim")
    assert arch is not None and width is not None, "a model of the table names both"
    return (*model, "--lr", f"{learning_rate(int(width), arch):g}")


def layers_of(model: Options, stack: str) -> int:
    """How many layers model options give a stack; they name them."""
    number = value_of(model, f"--{stack}-layers")
    assert number is not None, "the options of a plain student name its layers"
    return int(number)


def two_widths(arch: str, layers: int, encoder: int, decoder: int) -> Options:
    """Model options of stacks of different widths, with 4 heads and FFNs of twice the width."""
    return (
        *("--arch", arch, *stacks(layers, encoder, 2 * encoder, 4)),
        *("--decoder-embed-dim", str(decoder), "--decoder-ffn-embed-dim", str(2 * decoder)),
    )


def decoder_pairs(pairs: str, ffn: int) -> Options:
    """Model options that give the decoder other pairs, and an FFN width that keeps its size."""
    return ("--decoder-pairs", pairs, "--decoder-ffn-embed-dim", str(ffn))


def small_at_rates(
    widths: Mapping[int, tuple[int, int]], pet: str = "pet_transformer"
) -> dict[str, Options]:
    """The architectures of two-layer students by rate.

    Args:
        widths: by rate in percent, the width of all three, and the FFN's width of `plain`.
        pet: the architecture of the student that shares layers.
    """
    architectures = {}
    for rate, (width, ffn) in widths.items():
        architectures |= {
            f"pet_at{rate}": sized(pet, 4, width, 2 * width, 4),
            f"plain_at{rate}": sized("transformer", 2, width, ffn, 4),
            f"can_at{rate}": sized("can_transformer", 2, width, 2 * width, 4),
        }
    return architectures


def thesis_at_rates(
    pet: Mapping[int, tuple[int, int]],
    plain: Mapping[int, tuple[int, int]],
    can: Mapping[int, int],
) -> dict[str, Options]:
    """The architectures of students in the thesis's shapes by rate.

    Args:
        pet: by rate in percent, the widths of the encoder and of the decoder.
        plain: the width of both, and that of their FFN. can: the width of both.
    """
    return {
        **{f"pet_at{rate}": two_widths("pet_transformer", 4, *pet[rate]) for rate in pet},
        **{
            f"plain_at{rate}": ("--arch", "transformer", *stacks(3, width, ffn, 4))
            for rate, (width, ffn) in plain.items()
        },
        **{
            f"can_at{rate}": (
                *("--arch", "can_iwslt_de_en", *stacks(6, width, 2 * width, 4)),
                *("--decoder-layers", "2"),
            )
            for rate, width in can.items()
        },
    }


_PET_SMALL = sized("pet_transformer", 4, 88, 176, 4)

# For two CPU cores: a teacher takes half an hour, a student minutes. Students have about 9.6% of
# the teacher's layer parameters. Dropout was chosen by validation loss: trained on the text alone,
# students overfit without it; trained on a teacher's probabilities, they do not.
SMALL = Settings(
    common=(
        *words("--num-workers 0 --optimizer adam"),
        *BETAS,
        *words("--weight-decay 0.0001 --lr-scheduler polynomial_decay --warmup-updates 400"),
        *words("--share-decoder-input-output-embed"),
        *PRE_NORM,
    ),
    teacher=(
        *sized("transformer", 3, 192, 768, 4),
        *words("--max-tokens 3000 --dropout 0.3 --attention-dropout 0.1 --activation-dropout 0.1"),
        *updates(3000),
    ),
    student=words("--max-tokens 2000"),
    updates=updates(6000),
    warmup=(*updates(300), *words("--warmup-updates 100"), *AUTO),
    finetune=(*updates(1000), *words("--warmup-updates 50 --lr 2e-3")),
    quantised=(*updates(500), *words("--warmup-updates 50 --lr 2e-3")),
    gold=words("--dropout 0.1"),
    simplified=words("--dropout 0 --teacher-cache-mb 1000"),
    distillation=words(
        "--dropout 0 --teacher-cache-mb 1000 --distillation-alpha 0.9 --distillation-temperature 1"
    ),
    patience=words("--dropout 0 --distillation-alpha 0.9 --distillation-temperature 1"),
    plain=sized("transformer", 2, 88, 154, 4),
    speed=sized("transformer", 4, 88, 176, 4),
    deep=(*sized("transformer", 6, 72, 126, 4), *ONE_DECODER_LAYER),
    tenth=(*sized("transformer", 6, 120, 240, 5), *ONE_DECODER_LAYER),
    can=sized("can_transformer", 2, 88, 176, 4),
    pet=_PET_SMALL,
    wide=(
        *sized("pet_transformer", 4, 88, 176, 8),
        *words("--encoder-head-dim 22 --decoder-head-dim 22"),
    ),
    kv=(*_PET_SMALL, *decoder_pairs("kv", 220)),
    qk_crosswise=(*_PET_SMALL, *decoder_pairs("qk_crosswise", 132)),
    at_rates=small_at_rates({5: (64, 112), 20: (128, 224), 40: (180, 315)}),
    heads=4,
    generate=words("--num-workers 0 --max-tokens 3000"),
    teacher_layers=3,
)

_PET_IWSLT = words("--arch pet_transformer_iwslt_de_en")

# The thesis's models, for one GPU: 9.5% of transformer_iwslt_de_en's layer parameters.
FULL = Settings(
    common=(
        *words("--optimizer adam"),
        *BETAS,
        *words("--weight-decay 0.0001 --lr-scheduler inverse_sqrt --warmup-updates 4000"),
        *words("--share-decoder-input-output-embed"),
    ),
    teacher=words(
        "--arch transformer_iwslt_de_en --max-tokens 4096 --lr 5e-4 --dropout 0.3 --max-epoch 100 "
        "--patience 10"
    ),
    student=words("--max-tokens 4096 --lr 1e-3"),
    updates=words("--max-epoch 200 --patience 15"),
    warmup=(*words("--max-epoch 3"), *AUTO),
    finetune=words("--max-epoch 50 --patience 10 --warmup-updates 400 --lr 5e-4"),
    quantised=(
        *words("--lr-scheduler polynomial_decay --warmup-updates 100 --lr 5e-4"),
        *updates(1000),
    ),
    gold=words("--dropout 0.1"),
    simplified=words("--dropout 0.1 --teacher-cache-mb 20000"),
    distillation=words(
        "--dropout 0.1 --distillation-alpha 0.9 --distillation-temperature 1 "
        "--teacher-cache-mb 20000"
    ),
    patience=words("--dropout 0.1 --distillation-alpha 0.9 --distillation-temperature 1"),
    plain=("--arch", "transformer", *stacks(3, 224, 448, 4)),
    speed=two_widths("transformer", 4, 320, 240),
    deep=words("--arch deep_shallow_12_1"),
    tenth=("--arch", "deep_shallow_12_1", *stacks(12, 312, 624, 4), "--decoder-layers", "1"),
    can=words("--arch can_iwslt_de_en"),
    pet=_PET_IWSLT,
    wide=words(
        "--arch pet_transformer_iwslt_de_en --encoder-attention-heads 8 --encoder-head-dim 80 "
        "--decoder-attention-heads 8 --decoder-head-dim 60"
    ),
    kv=(*_PET_IWSLT, *decoder_pairs("kv", 640)),
    qk_crosswise=(*_PET_IWSLT, *decoder_pairs("qk_crosswise", 360)),
    at_rates=thesis_at_rates(
        pet={5: (232, 176), 20: (464, 352), 40: (656, 496)},
        plain={5: (160, 352), 20: (320, 688), 40: (456, 944)},
        can={5: 152, 20: 304, 40: 432},
    ),
    heads=4,
    generate=words("--max-tokens 12000"),
    precision="bf16",
)


# The models of FULL for small data sets such as Multi30k: a few minutes each on one large GPU, with
# a learning rate that falls to 0 over a fixed number of updates.
FULL_FAST = replace(
    FULL,
    common=(
        *words("--optimizer adam"),
        *BETAS,
        *words("--weight-decay 0.0001 --lr-scheduler polynomial_decay --warmup-updates 500"),
        *words("--share-decoder-input-output-embed"),
        *PRE_NORM,
    ),
    teacher=(
        *words("--arch transformer_iwslt_de_en --max-tokens 8192 --lr 1e-3 --dropout 0.3"),
        *updates(2500),
    ),
    student=words("--max-tokens 8192 --lr 2e-3"),
    updates=updates(2500),
    warmup=(*updates(250), *words("--warmup-updates 100"), *AUTO),
    finetune=(*updates(800), *words("--warmup-updates 50 --lr 1e-3")),
    quantised=(*updates(500), *words("--warmup-updates 50 --lr 1e-3")),
)

_PET_HALF = with_rate(two_widths("pet_transformer", 4, 160, 120))

# The thesis's design at half its widths, for hours on two CPU cores: PET and its rivals have 9.5 to
# 9.9% of a teacher that is deeper than they are. Trained as in SMALL.
HALF = replace(
    SMALL,
    teacher=(
        *sized("transformer", 6, 256, 512, 4),
        *words("--max-tokens 3000 --dropout 0.3 --attention-dropout 0.1 --activation-dropout 0.1"),
        *updates(5000),
    ),
    teacher_layers=6,
    updates=updates(7500),
    plain=with_rate(two_widths("transformer", 2, 160, 120)),
    speed=with_rate(two_widths("transformer", 4, 160, 120)),
    deep=(*sized("transformer", 12, 84, 168, 4), *ONE_DECODER_LAYER),
    tenth=(*sized("transformer", 12, 156, 312, 4), *ONE_DECODER_LAYER),
    can=(*sized("can_transformer", 6, 104, 208, 4), "--decoder-layers", "2"),
    pet=_PET_HALF,
    wide=(
        *with_rate(two_widths("pet_transformer", 4, 160, 120)),
        *words("--encoder-attention-heads 8 --encoder-head-dim 40"),
        *words("--decoder-attention-heads 8 --decoder-head-dim 30"),
    ),
    kv=(*_PET_HALF, *decoder_pairs("kv", 320)),
    qk_crosswise=(*_PET_HALF, *decoder_pairs("qk_crosswise", 180)),
    at_rates={
        name: with_rate(model)
        for name, model in thesis_at_rates(
            pet={5: (116, 88), 20: (232, 176), 40: (328, 248)},
            plain={5: (80, 176), 20: (160, 344), 40: (228, 472)},
            can={5: 76, 20: 152, 40: 216},
        ).items()
    },
)

_PET_DEMO = sized("pet_transformer_tiny", 4, 48, 96, 4)

# The demo's short sentences: minutes on two CPU cores.
DEMO = replace(
    SMALL,
    common=(
        *words("--num-workers 0 --max-tokens 2000 --optimizer adam"),
        *BETAS,
        *words("--weight-decay 0.0001 --lr-scheduler polynomial_decay --warmup-updates 200"),
        *words("--share-decoder-input-output-embed"),
        *PRE_NORM,
    ),
    teacher=(
        *sized("transformer", 3, 128, 256, 4),
        *words("--dropout 0.2"),
        *updates(1000),
    ),
    student=words("--max-tokens 1000"),
    updates=updates(1800),
    warmup=(*updates(100), *words("--warmup-updates 30"), *AUTO),
    finetune=(*updates(400), *words("--warmup-updates 50 --lr 2e-3")),
    quantised=(*updates(400), *words("--warmup-updates 50 --lr 2e-3")),
    gold=words("--dropout 0.1"),
    simplified=words("--dropout 0"),
    distillation=words(
        "--dropout 0 --distillation-alpha 0.9 --distillation-temperature 1 --teacher-cache-mb 500"
    ),
    patience=words("--dropout 0 --distillation-alpha 0.9 --distillation-temperature 1"),
    plain=sized("transformer", 2, 48, 84, 4),
    speed=sized("transformer", 4, 48, 96, 4),
    deep=(*sized("transformer", 6, 40, 64, 4), *ONE_DECODER_LAYER),
    tenth=(*sized("transformer", 6, 56, 112, 4), *ONE_DECODER_LAYER),
    can=sized("can_transformer", 2, 48, 96, 4),
    pet=_PET_DEMO,
    wide=(
        *sized("pet_transformer_tiny", 4, 48, 96, 8),
        *words("--encoder-head-dim 12 --decoder-head-dim 12"),
    ),
    kv=(*_PET_DEMO, *decoder_pairs("kv", 120)),
    qk_crosswise=(*_PET_DEMO, *decoder_pairs("qk_crosswise", 72)),
    at_rates=small_at_rates(
        {5: (36, 63), 20: (72, 126), 40: (100, 176)}, pet="pet_transformer_tiny"
    ),
    generate=words("--num-workers 0 --max-tokens 2000"),
)

# Only shows that every command of a recipe runs; the models learn nothing.
TINY = replace(
    SMALL,
    common=(
        *words("--num-workers 0 --optimizer adam --lr 5e-3 --max-tokens 500 --dropout 0.1"),
        *words("--share-decoder-input-output-embed"),
    ),
    teacher=words("--arch transformer_tiny --max-update 10"),
    teacher_layers=2,
    student=(),
    updates=words("--max-update 3"),
    warmup=words("--max-update 2"),
    finetune=words("--max-update 2"),
    quantised=words("--max-update 2"),
    gold=(),
    simplified=(),
    distillation=words("--teacher-cache-mb 10"),
    patience=(),
    plain=words("--arch transformer_tiny --encoder-layers 2 --decoder-layers 2"),
    speed=words("--arch transformer_tiny"),
    deep=words("--arch transformer_tiny --decoder-layers 1"),
    tenth=words("--arch transformer_tiny --decoder-layers 1"),
    can=("--arch", "can_transformer", *stacks(2, 16, 32, 2)),
    pet=words("--arch pet_transformer_tiny"),
    wide=words("--arch pet_transformer_tiny --encoder-head-dim 16"),
    kv=(*words("--arch pet_transformer_tiny"), *decoder_pairs("kv", 160)),
    qk_crosswise=(*words("--arch pet_transformer_tiny"), *decoder_pairs("qk_crosswise", 96)),
    at_rates=small_at_rates({5: (16, 28), 20: (24, 42), 40: (32, 56)}),
    heads=1,
    generate=words("--num-workers 0 --max-tokens 3000 --max-len-a 0 --max-len-b 10"),
)

SIZES = {
    "small": SMALL,
    "half": HALF,
    "full": FULL,
    "full_fast": FULL_FAST,
    "demo": DEMO,
    "tiny": TINY,
}
