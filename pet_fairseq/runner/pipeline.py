"""What every recipe is given, and what it returns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

from pet_fairseq.runner.stage import Stage


@dataclass(frozen=True)
class Place:
    """Where a recipe works.

    Attributes:
        name: of the recipe.
        base: the folder `runs`, in which all recipes work.
        data, runs: folders that the user gave in place of those in `base`.
    """

    name: str
    base: Path
    data: Optional[Path] = None
    runs: Optional[Path] = None


@dataclass(frozen=True)
class Pipeline:
    """The stages that a recipe's options ask for.

    Attributes:
        folder: where the products are; only one run at a time may work in it.
        places: folders, by name, that may be moved without a stage having to run again.
        about: lines that say what the run takes, for the user before it starts.
    """

    stages: list[Stage]
    folder: Path
    places: Mapping[str, Path]
    about: tuple[str, ...] = ()


def merge(stages: Iterable[Stage]) -> list[Stage]:
    """Stages without duplicates: one that several groups need belongs to all of them.

    Raises:
        ValueError: two different stages have one name.
    """
    by_name: dict[str, Stage] = {}
    for stage in stages:
        first = by_name.setdefault(stage.name, stage)
        groups = tuple(dict.fromkeys((*first.groups, *stage.groups)))
        by_name[stage.name] = replace(first, groups=groups)
        if replace(stage, groups=groups) != by_name[stage.name]:
            raise ValueError(f"two different stages are called {stage.name}")
    return list(by_name.values())
