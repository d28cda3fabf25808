"""Where recipes are found: the demo in the package, the others in a folder `_recipes`.

That folder lies among the examples. It is a Python package, whatever its folder is called: its
`__init__.py` has a dictionary RECIPES of `Recipe` by name.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError
from pet_fairseq.runner.pipeline import Pipeline, Place

PACKAGE = "pet_fairseq_recipes"  # what the folder is called in Python
FOLDER = "_recipes"
BESIDE_THE_PACKAGE = Path(__file__).parents[2] / "examples" / FOLDER  # in a clone


@dataclass(frozen=True)
class Recipe:
    """A recipe: one line about it, its options, and how these become stages."""

    about: str
    add_options: Callable[[ArgumentParser], None]
    build: Callable[[Namespace, Place], Pipeline]


def find_folder(examples: Optional[Path] = None) -> Optional[Path]:
    """The folder with the recipes; None where there is none.

    Args:
        examples: the folder in which the user said that the recipe is; else that is `examples` here
            or, in a clone, beside the package.
    """
    folders = [Path("examples", FOLDER), BESIDE_THE_PACKAGE]
    if examples is not None:
        folders.insert(0, examples / FOLDER)
    return next((folder for folder in folders if (folder / "__init__.py").is_file()), None)


def load_recipes(folder: Path) -> dict[str, Recipe]:
    """The recipes of a folder by name; its code is loaded once.

    Raises:
        UserError: its code was written for another version of this package.
    """
    init = folder.resolve() / "__init__.py"
    if PACKAGE not in sys.modules:
        _load(init)
    loaded = sys.modules[PACKAGE]
    assert loaded.__file__ == str(init), f"the recipes of {loaded.__file__} are loaded"
    return loaded.RECIPES


def _load(init: Path) -> None:
    """Make the module of a package from its `__init__.py`; it finds its parts beside that file."""
    spec = spec_from_file_location(PACKAGE, init, submodule_search_locations=[str(init.parent)])
    assert spec is not None and spec.loader is not None, "a Python file can be loaded"
    sys.modules[PACKAGE] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        del sys.modules[PACKAGE]
        raise UserError(
            f"{init.parent}: does not fit the pet_fairseq that is installed ({error}); install "
            f"that of the same clone by pip install -e {init.parents[2]}"
        ) from error
