"""The settings of translation recipes by size: options of the models and of their trainings.

`demo_and_small_sizes.yaml` has those of the demo; other recipes may have more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pet_fairseq.recipes.settings import read_settings
from pet_fairseq.runner.fairseq_options import Options, learning_rate
from pet_fairseq.runner.stage import value_of

OWN = Path(__file__).with_name("demo_and_small_sizes.yaml")
BY_WIDTH = "by width"
RATES = (5, 20, 40)  # percent of the teacher's layer parameters, beside the size of all students


@dataclass(frozen=True)
class Model:
    """An architecture; what is 0 or empty is not among its options.

    Attributes:
        arch: a name that fairseq knows.
        layers, width, ffn, heads: of the encoder and of the decoder: how many layers, their width,
            that of their feed-forward networks, how many heads.
        decoder_layers, decoder_width, decoder_ffn: of the decoder, if it has others.
        lr: the peak learning rate; BY_WIDTH for the one that suits the encoder's width, which is
            never the smaller one.
        options: more options of fairseq-train.
    """

    arch: str
    layers: int = 0
    width: int = 0
    ffn: int = 0
    heads: int = 0
    decoder_layers: int = 0
    decoder_width: int = 0
    decoder_ffn: int = 0
    lr: str = ""
    options: Options = ()

    def words(self) -> Options:
        """The options of fairseq-train."""
        encoder = (self.layers, self.width, self.ffn, self.heads)
        decoder = (
            self.decoder_layers or self.layers,
            self.decoder_width or self.width,
            self.decoder_ffn or self.ffn,
            self.heads,
        )
        names = ("layers", "embed-dim", "ffn-embed-dim", "attention-heads")
        sizes = [
            word
            for stack, values in (("encoder", encoder), ("decoder", decoder))
            for name, value in zip(names, values)
            if value
            for word in (f"--{stack}-{name}", str(value))
        ]
        lr = f"{learning_rate(self.width, self.arch):g}" if self.lr == BY_WIDTH else self.lr
        return ("--arch", self.arch, *sizes, *(("--lr", lr) if lr else ()), *self.options)


@dataclass(frozen=True)
class Settings:
    """Options for fairseq-train and fairseq-generate; later ones override earlier ones.

    Attributes:
        about: for whom this size is, in words that continue its name.
        common: of every training. more: the same, for what data or a user add to a size.
        teacher, student: of their trainings; `student` overrides what the models have.
        updates: how long a student is trained.
        warmup: how long the simplified task is trained.
        finetune: how a finished student is trained further, as after head sampling.
        quantised: how a finished student is trained further with its weights in few bits.
        gold, simplified, distillation, patience: options that go with a criterion: cross-entropy,
            the simplified task, word-level distillation, patient distillation.
        models: `teacher`, and the students `plain`, `speed`, `deep`, `tenth`, `can`, `pet`, `wide`.
            All students have equally many layer parameters, except for `speed` (PET's layers and
            widths, nothing shared), `tenth` (deep-shallow; with 8 bits a weight its file,
            embeddings included, is a tenth of the teacher's) and `wide` (PET with more heads).
            `kv`, `qk_crosswise`: PET with these pairs in its decoder, whose feed-forward networks
            are wider or narrower so that it has as many parameters as `pet` (PET, Table 5).
            `plain`, `can` and `pet` at each of RATES, for example `pet_at5` (PET, Figure 7a).
        teacher_layers: the layers of each of its stacks.
        heads: how many heads of the wide student are kept in each attention.
        generate: of fairseq-generate.
        precision: on a GPU, unless the user says otherwise.
    """

    about: str
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
    models: Mapping[str, Model]
    teacher_layers: int
    heads: int
    generate: Options
    more: Options = ()
    precision: str = "fp32"

    def architecture(self, name: str) -> Options:
        """The options of a model."""
        return self.models[name].words()


def read_sizes(*files: Path) -> dict[str, Settings]:
    """The sizes of the package by name, and those of more files, which may be based on them.

    Raises:
        UserError: a wrong file, as `read_settings` says.
    """
    sizes: dict[str, Settings] = {}
    for path in (OWN, *files):
        sizes |= read_settings(path, Settings, sizes)
    return sizes


def layers_of(model: Options, stack: str) -> int:
    """How many layers model options give a stack; they name them."""
    number = value_of(model, f"--{stack}-layers")
    assert number is not None, "the options of a plain student name its layers"
    return int(number)
