"""The recipes by name. A new one needs an entry here and a module with its rows."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pet_fairseq.recipes.selfcp import recipe as selfcp
from pet_fairseq.recipes.translation import recipe as translation
from pet_fairseq.recipes.variator import language_model
from pet_fairseq.recipes.variator import recipe as variator
from pet_fairseq.runner.pipeline import Pipeline, Place


@dataclass(frozen=True)
class Recipe:
    """A recipe: one line about it, its options, and how these become stages."""

    about: str
    add_options: Callable[[argparse.ArgumentParser], None]
    build: Callable[[argparse.Namespace, Place], Pipeline]


def _translation(name: str, about: str) -> Recipe:
    return Recipe(about, partial(translation.add_options, name=name), translation.build)


def _prompts(name: str, about: str) -> Recipe:
    return Recipe(about, partial(selfcp.add_options, name=name), selfcp.build)


RECIPES = {
    "demo": _translation("demo", "short sentences from teacher to table, minutes on two CPU cores"),
    "multi30k": _translation("multi30k", "German to English image captions"),
    "tatoeba_en_fi": _translation("tatoeba_en_fi", "English to Finnish everyday sentences"),
    "iwslt14_de_en": _translation("iwslt14_de_en", "German to English talks"),
    "iwslt14_en_de": _translation("iwslt14_en_de", "English to German talks"),
    "wmt17_en_fi": _translation("wmt17_en_fi", "English to Finnish news"),
    "wmt17_en_lv": _translation("wmt17_en_lv", "English to Latvian news"),
    "cmudict": _translation("cmudict", "English words from letters to phones"),
    "own_data": _translation("own_data", "two languages of yours"),
    "multi30k_variator": Recipe(
        "plugins for a model of the recipe multi30k",
        variator.add_multi30k_options,
        variator.build_multi30k,
    ),
    "glue": Recipe(
        "plugins for a classifier, or for an encoder-decoder that answers questions",
        variator.add_glue_options,
        variator.build_glue,
    ),
    "squad": Recipe(
        "plugins for an encoder-decoder that answers questions about a text",
        variator.add_squad_options,
        variator.build_squad,
    ),
    "language_model": Recipe(
        "plugins for the prompts of a language model",
        language_model.add_options,
        language_model.build,
    ),
    "movie_reviews": _prompts("movie_reviews", "are long film reviews positive?"),
    "cicero": _prompts("cicero", "questions about dialogues"),
    "xsum": _prompts("xsum", "summaries of news in one sentence"),
    "arxiv": _prompts("arxiv", "abstracts of papers"),
    "duc2007": _prompts("duc2007", "summaries of several news texts"),
    "cola": _prompts("cola", "acceptable sentences, with demonstrations as the prompt"),
    "recall": _prompts("recall", "a game: which value belongs to a key in the prompt?"),
}
