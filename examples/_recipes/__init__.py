"""The recipes of the papers' tables by name; `pet-fairseq recipe` loads them from here.

A new one needs an entry in RECIPES, or in the file of data sets of its kind.
"""

from pathlib import Path

from pet_fairseq.recipes.catalogue import Recipe
from pet_fairseq.recipes.translation import recipe as translation
from pet_fairseq.recipes.translation.data_sets import read_data_sets
from pet_fairseq.recipes.translation.sizes import read_sizes

from .selfcp import recipe as prompts
from .selfcp.setup import DATA_SETS as PROMPTS
from .variator import glue, language_model
from .variator import recipe as plugins

HERE = Path(__file__).parent
SIZES = read_sizes(HERE / "translation/larger_sizes.yaml")
TRANSLATIONS = read_data_sets(HERE / "translation/data_sets.yaml", SIZES)
RECIPES = {
    "demo": translation.make_demo(SIZES),
    **{name: translation.make_recipe(data_set) for name, data_set in TRANSLATIONS.items()},
    "multi30k_variator": Recipe(
        "plugins for a model of the recipe multi30k",
        plugins.add_multi30k_options,
        plugins.build_multi30k,
    ),
    "glue": Recipe(
        "plugins for a classifier, or for an encoder-decoder that answers questions",
        glue.add_glue_options,
        glue.build_glue,
    ),
    "squad": Recipe(
        "plugins for an encoder-decoder that answers questions about a text",
        plugins.add_squad_options,
        plugins.build_squad,
    ),
    "language_model": Recipe(
        "plugins for the prompts of a language model",
        language_model.add_options,
        language_model.build,
    ),
    **{name: prompts.make_recipe(data_set) for name, data_set in PROMPTS.items()},
}
