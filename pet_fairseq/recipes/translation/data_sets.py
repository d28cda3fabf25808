"""The data sets of the translation recipes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pet_fairseq.recipes.settings import read_settings
from pet_fairseq.recipes.translation.sizes import Settings
from pet_fairseq.runner.fairseq_options import Options


@dataclass(frozen=True)
class DataSet:
    """A translation data set.

    Attributes:
        about: one line for the list of recipes.
        source_lang, target_lang: its languages; empty if the user has to say them.
        size, rows, beams, repeats: defaults of the options of these names.
        sizes: the settings by size; the file has those that are other ones for this data set.
        reference: raw text of the test set within the data folder; {lang} is the target language.
        score: what the report scores by, a choice of `pet-fairseq report --score`.
        text: options of fairseq-generate that make text of a translation's tokens.
        builtin: whether the recipe itself makes the data (the demo's).
    """

    about: str
    source_lang: str = ""
    target_lang: str = ""
    size: str = "full"
    sizes: Mapping[str, Settings] = field(default_factory=dict)
    reference: str = "raw/test.{lang}"
    score: str = "bleu"
    text: Options = ("--remove-bpe", "--tokenizer", "moses")
    rows: tuple[str, ...] = ("default",)
    beams: tuple[int, ...] = (1, 5)
    repeats: int = 3
    builtin: bool = False


def read_data_sets(path: Path, sizes: Mapping[str, Settings]) -> dict[str, DataSet]:
    """The data sets of a file by name.

    Args:
        sizes: the settings by size, for the sizes that a data set has no own ones of.
    Raises:
        UserError: a wrong file, as `read_settings` says.
    """
    found = read_settings(path, DataSet, sizes)
    return {name: replace(data, sizes={**sizes, **data.sizes}) for name, data in found.items()}
