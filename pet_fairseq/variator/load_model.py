"""Loads a model with its plugins, and its task, from plugin files."""

import os

from fairseq.tasks import FairseqTask

from pet_fairseq.checkpoints.loading import build_loaded
from pet_fairseq.variator.model import VariatorModel, read_plugins


def load_variator(paths: str, option: str, data: str = "") -> tuple[VariatorModel, FairseqTask]:
    """Load the model of one or more plugin files `a.pt:b.pt` for one backbone, in eval mode.

    Args:
        option: names the paths in errors. data: a folder in place of the training's.
    Raises:
        UserError: a file that holds no plugins or does not fit the others, two of one ratio, or no
            such data.
    """
    path, *more = paths.split(os.pathsep)
    state, cfg = read_plugins(path, option)
    if more:
        VariatorModel.check_files([path, *more], option)
        cfg.plugin_path = os.pathsep.join(more)
    return build_loaded(state, path, option, data)
