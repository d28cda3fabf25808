"""What every recipe takes and gives."""

from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from pet_fairseq.recipes.stage import Stage


@dataclass(frozen=True)
class Place:
    """Where a recipe works.

    Attributes:
        name: of the recipe.
        base: folder for all that recipes make, `runs`.
        data, runs: folders that the user gave.
    """

    name: str
    base: Path
    data: Optional[Path] = None
    runs: Optional[Path] = None


@dataclass(frozen=True)
class Job:
    """The stages that a recipe's options ask for.

    Attributes:
        folder: what is made; one run at a time works in it.
        places: folders that may be moved without a stage having to run again.
        last_words: printed at the end.
    """

    stages: list[Stage]
    folder: Path
    places: Mapping[str, Path]
    last_words: str = ""
