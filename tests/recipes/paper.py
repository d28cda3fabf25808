"""Recipes on paper: the stages that a command line asks for."""

from pet_fairseq.recipes.catalogue import RECIPES
from pet_fairseq.recipes.commands import pipeline_of, recipe_parser
from pet_fairseq.runner.pipeline import Place
from pet_fairseq.runner.stage import Kind


def pipeline(name, base, *options, device="cpu"):
    args = recipe_parser(name).parse_args([*map(str, options), "--device", device])
    return pipeline_of(Place(name, base), args)


def stages(name, base, *options, **fields):
    """The stages by name."""
    found = pipeline(name, base, *options, **fields).stages
    assert len({stage.name for stage in found}) == len(found)
    assert len({stage.product for stage in found}) == len(found)
    return {stage.name: stage for stage in found}


def trainings(found):
    return [stage for stage in found.values() if stage.kind is Kind.TRAINING]


def names(kind):
    """The recipes whose module is of that kind, for example `datasets`."""
    return [name for name, recipe in RECIPES.items() if recipe.build.__module__.endswith(kind)]


def check_order(found):
    """No stage reads what a later one makes."""
    products = [stage.product for stage in found.values()]
    for i, stage in enumerate(found.values()):
        for path in stage.inputs:
            for later in products[i:]:
                assert later not in (path, *path.parents), (stage.name, path)
