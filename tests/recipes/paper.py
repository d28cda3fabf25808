"""Recipes on paper: the stages that a command line asks for."""

from pet_fairseq.recipes.commands import pipeline_of, recipe_parser
from pet_fairseq.runner.pipeline import Place
from pet_fairseq.runner.stage import Kind
from tests.recipes import RECIPES


def parser(name):
    return recipe_parser(name, RECIPES[name])


def pipeline(name, base, *options, device="cpu"):
    args = parser(name).parse_args([*map(str, options), "--device", device])
    return pipeline_of(RECIPES[name], Place(name, base), args)


def stages(name, base, *options, **fields):
    """The stages by name."""
    found = pipeline(name, base, *options, **fields).stages
    assert len({stage.name for stage in found}) == len(found)
    assert len({stage.product for stage in found}) == len(found)
    return {stage.name: stage for stage in found}


def trainings(found):
    return [stage for stage in found.values() if stage.kind is Kind.TRAINING]


def check_order(found):
    """No stage reads what it or a later one makes."""
    to_be_made = {stage.product for stage in found.values()}
    for stage in found.values():
        for path in stage.inputs:
            assert not to_be_made & {path, *path.parents}, (stage.name, path)
        to_be_made.remove(stage.product)
