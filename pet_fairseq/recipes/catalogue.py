"""The recipes by name: adding one is an entry here and a module with its rows."""

import argparse
from dataclasses import dataclass
from functools import partial
from typing import Callable

from pet_fairseq.recipes import datasets
from pet_fairseq.recipes.job import Job, Place


@dataclass(frozen=True)
class Recipe:
    """A recipe: one line about it, its options and its stages."""

    about: str
    add_options: Callable[[argparse.ArgumentParser], None]
    build: Callable[[argparse.Namespace, Place], Job]


def _translation(name: str, about: str) -> Recipe:
    return Recipe(about, partial(datasets.add_options, name=name), datasets.build)


RECIPES = {
    "demo": _translation("demo", "a toy corpus from teacher to table, minutes on two CPU cores"),
    "multi30k": _translation("multi30k", "German to English image captions"),
    "tatoeba_en_fi": _translation("tatoeba_en_fi", "English to Finnish everyday sentences"),
    "iwslt14_de_en": _translation("iwslt14_de_en", "German to English talks"),
    "iwslt14_en_de": _translation("iwslt14_en_de", "English to German talks"),
    "wmt17_en_fi": _translation("wmt17_en_fi", "English to Finnish news"),
    "wmt17_en_lv": _translation("wmt17_en_lv", "English to Latvian news"),
    "own_data": _translation("own_data", "two languages of yours"),
}
