"""Plugin files without training: new plugins, and plugins moved to a fine-tuned backbone."""

import os
from pathlib import Path

from fairseq.models import build_model
from fairseq.tasks import FairseqTask
from omegaconf import OmegaConf, open_dict

from pet_fairseq.checkpoints.backbone import read_backbone
from pet_fairseq.checkpoints.dictionaries import vocabulary_sizes
from pet_fairseq.checkpoints.loading import build_from_state
from pet_fairseq.checkpoints.saving import derived_state, save_state
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_write
from pet_fairseq.nn.architectures import Vocabularies
from pet_fairseq.variator.model import VariatorModel, load_into, read_plugins
from pet_fairseq.variator.options import VariatorConfig, check_new_plugins
from pet_fairseq.variator.stack_wrappers import VariatorDecoder


def build_around(state: dict, cfg: VariatorConfig) -> VariatorModel:
    """Build a model around a backbone with a checkpoint's options, but with random weights.

    Args:
        state: the loaded checkpoint of the backbone.
    Raises:
        UserError: plugins do not fit into this backbone.
    """
    if getattr(state["cfg"].model, "adaptive_input", False):
        raise UserError(
            f"{cfg.backbone_path}: a model with --adaptive-input cannot be built without its data; "
            "give a model that was trained without that option"
        )
    vocabularies = Vocabularies(*(size or 4 for size in vocabulary_sizes(state["model"]).values()))
    backbone = build_model(state["cfg"].model, vocabularies)
    padding_idx = vocabularies.source_dictionary.pad()
    return VariatorModel(cfg, backbone, padding_idx, prompt_end_idx=padding_idx)


def new_plugins(cfg: VariatorConfig, out: Path) -> None:
    """Write plugins as they are before training; with `mean` and `copy` there is none to do.

    Raises:
        UserError: wrong options, or a backbone into which plugins do not fit.
    """
    check_new_plugins(cfg)
    state = read_backbone(cfg.backbone_path, "--backbone-path")
    model = build_around(state, cfg)
    cfg._name = "variator"
    with open_dict(state["cfg"]):
        state["cfg"].model = OmegaConf.structured(cfg)
    if isinstance(model.stack, VariatorDecoder) and not cfg.prompt_end:
        raise UserError(
            "--prompt-end: missing; a language model's plugins need the word that ends the prompts "
            "in the data"
        )
    model.add_plugins(cfg.compression_ratio, cfg)
    save(state, model, out)


def move_plugins(plugins: str, backbone_path: str, out: Path) -> None:
    """Write the plugins of a file as plugins of another backbone, with that one's task.

    Raises:
        UserError: files that are missing, or plugins that do not fit.
    """
    state, cfg = read_plugins(plugins, "PLUGINS")
    target = read_backbone(backbone_path, "--backbone-path")
    with open_dict(state["cfg"]):
        cfg.backbone_path, cfg.plugin_path = backbone_path, ""
        state["cfg"].task = target["cfg"].task
    model = build_around(target, cfg)
    model.add_plugins(cfg.compression_ratio, cfg)
    load_into(model.plugins, state["model"], cfg.compression_ratio, f"PLUGINS {plugins}")
    save(state, model, out)


def save(state: dict, model: VariatorModel, out: Path) -> None:
    """Write a checkpoint with the state's options and the model's plugins."""
    plugins = derived_state(state, model.state_dict())
    atomic_write(out, lambda file: save_state(plugins, file))


def load_variator(paths: str, option: str, data: str = "") -> tuple[VariatorModel, FairseqTask]:
    """Load the model of one or more plugin files `a.pt:b.pt` for one backbone, in eval mode.

    Args:
        option: names the paths in errors. data: a folder in place of the training's.
    Raises:
        UserError: a file that holds no plugins or does not fit the others, two of one ratio, or no
            such data.
    """
    path, *more = paths.split(os.pathsep)
    state, _ = read_plugins(path, option)
    return build_from_state(state, [path, *more], option, data)
