"""Tests of the recipes; those of examples/_recipes are `pet_fairseq_recipes` in here."""

from pet_fairseq.recipes.catalogue import BESIDE_THE_PACKAGE, load_recipes

RECIPES = load_recipes(BESIDE_THE_PACKAGE)
