"""Model `variator`: a frozen model with compression plugins; its files hold the plugins only."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Optional, Union

import torch
from fairseq.models import register_model
from fairseq.modules.checkpoint_activations import unwrap_checkpoint
from torch import Tensor, nn

from pet_fairseq.checkpoints.backbone import (
    check_hash,
    drop_modules,
    file_hash,
    load_backbone,
    restore_modules,
)
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.nn.freezing import freeze
from pet_fairseq.variator.backbone_wrapper import BackboneWrapper, find_stack
from pet_fairseq.variator.costs import Shape
from pet_fairseq.variator.feed_forward import inner_width, maps_into
from pet_fairseq.variator.grouping import Grouping
from pet_fairseq.variator.options import VariatorConfig, check_options, prompt_end_index
from pet_fairseq.variator.plugin import Plugin
from pet_fairseq.variator.site_modules import attach, check_layers
from pet_fairseq.variator.sites import SITES
from pet_fairseq.variator.stack_wrappers import VariatorDecoder, VariatorEncoder

FORM = ("bottleneck_dim", "adapter_activation", "compression", "decompression")


@register_model("variator", dataclass=VariatorConfig)
class VariatorModel(BackboneWrapper):
    """A frozen backbone with plugins, in one stack of which groups of positions are compressed.

    At ratio 1 it is the backbone.
    """

    no_plain_form = (
        "plugins need this package; export their --backbone-path, or use pet-fairseq serve"
    )

    def __init__(
        self,
        cfg: VariatorConfig,
        backbone: nn.Module,
        padding_idx: int,
        prompt_end_idx: Any = None,  # an index; not read for a backbone with an encoder
    ):
        # no checkpointed activations: run again in backward, a layer would miss the batch's groups
        super().__init__(cfg, unwrap_checkpoint(backbone))
        self.grouping = Grouping()
        holder, name = find_stack(backbone, cfg.compression_stack, cfg.backbone_path)
        stack = getattr(holder, name)
        check_layers(stack.layers, cfg.compression_site)
        self.widths = layer_widths(stack.layers)
        self.site_modules = attach(stack.layers, cfg.compression_site, self.grouping)
        wrapped = (
            VariatorDecoder(stack, self.grouping, padding_idx, prompt_end_idx)
            if name == "decoder"
            else VariatorEncoder(stack, self.grouping, padding_idx)
        )
        setattr(holder, name, wrapped)
        freeze(backbone)
        # the plugins are in the backbone; this is the list under which they are saved
        self.plugins = nn.ModuleList(module.plugins for module in self.site_modules)
        self.register_buffer("backbone_hash", file_hash(cfg.backbone_path))
        self.register_state_dict_post_hook(drop_modules("backbone"))
        self.given = copy(cfg)  # the options of a checkpoint, which --plugin-path may change
        self.untrained: Optional[int] = None  # the ratio whose plugins are new, if there is one
        self.train()

    @classmethod
    def build_model(cls, cfg: VariatorConfig, task) -> "VariatorModel":
        """Build the model around --backbone-path, with the plugins of --plugin-path and new ones.

        Raises:
            UserError: wrong options, or files that cannot be used or do not fit each other.
        """
        check_options(cfg)
        backbone = load_backbone(cfg.backbone_path, task, keeps_head=True)
        dictionary = task.source_dictionary
        model = cls(cfg, backbone, dictionary.pad(), prompt_end_index(cfg, backbone, dictionary))
        for path in filter(None, cfg.plugin_path.split(os.pathsep)):
            model.load_plugins(path)
        if cfg.compression_ratio not in model.ratios:
            model.add_plugins(cfg.compression_ratio, cfg)
            model.untrained = cfg.compression_ratio
        model.set_compression_ratio(cfg.compression_ratio)
        return model

    # --- ratios -----------------------------------------------------------------------------------

    @property
    def ratios(self) -> list[int]:
        """The ratios that can be set."""
        return [1, *sorted(int(k) for k in (self.plugins[0] if len(self.plugins) else ()))]

    def set_compression_ratio(self, ratio: int) -> None:
        """Use this ratio from the next batch on.

        Raises:
            UserError: no plugins of that ratio are loaded.
        """
        if ratio not in self.ratios:
            raise UserError(
                f"compression_ratio {ratio}: the plugin files hold {self.ratios}; give one of "
                "these, or more files with --plugin-path"
            )
        self.grouping.ratio = ratio

    @contextmanager
    def compression_ratio(self, ratio: int) -> Iterator[None]:
        """Inside the block another ratio is in use."""
        with self.grouping.with_ratio(self.grouping.ratio):
            self.set_compression_ratio(ratio)
            yield

    @property
    def has_parameters(self) -> bool:
        """Whether the plugins have parameters; means and copies have none."""
        return any(True for _ in self.plugins.parameters())

    @property
    def why_untrained(self) -> str:
        """Which option leaves nothing to train, for the error that says so."""
        if self.cfg.compression_ratio == 1:
            return "--compression-ratio 1: without plugins nothing is to be trained; give 2 or more"
        return (
            f"--compression {self.cfg.compression}: with --decompression {self.cfg.decompression} "
            "plugins have no parameters to train; make them with pet-fairseq new-plugins"
        )

    @property
    def stack(self) -> Union[VariatorEncoder, VariatorDecoder]:
        """The wrapper of the stack whose layers have plugins."""
        holder, name = find_stack(self.backbone, self.cfg.compression_stack)
        return getattr(holder, name)

    @staticmethod
    def encoder_cost(shape: Shape, length: int) -> int:
        """The layers' multiply-adds with plugins at the site; ratio 1 means without plugins."""
        return shape.layers * SITES[shape.site].layer_cost(shape, length)

    @contextmanager
    def frozen(self) -> Iterator[nn.Module]:
        """Inside the block, this model without plugins."""
        with self.compression_ratio(1):
            yield self

    def add_plugins(self, ratio: int, cfg: VariatorConfig) -> None:
        """Add new plugins of a ratio to every layer.

        Only those of --compression-ratio are trained. The others get no gradient and do not reach
        the optimizer: --fp16 and --ddp-backend legacy_ddp would give them gradients of zero, with
        which weight decay and the optimizer's moments would move them.
        """
        decompresses = SITES[cfg.compression_site].decompresses
        for module in self.site_modules:
            plugin = Plugin(
                self.widths["embed_dim"],
                ratio,
                cfg.bottleneck_dim,
                cfg.adapter_activation,
                cfg.compression,
                cfg.decompression if decompresses else "copy",
            )
            module.add(plugin.requires_grad_(ratio == self.cfg.compression_ratio))

    def load_plugins(self, path: str) -> None:
        """Add the plugins of another file.

        Raises:
            UserError: not plugins for this backbone, or of this form.
        """
        state, cfg = read_plugins(path, "--plugin-path")
        if cfg.compression_site != self.cfg.compression_site:
            raise UserError(
                f"--plugin-path {path}: made for --compression-site {cfg.compression_site}, not "
                f"{self.cfg.compression_site}"
            )
        if cfg.compression_ratio == self.cfg.compression_ratio:
            for option, value in form(cfg).items():  # what is trained and saved has this form
                setattr(self.cfg, option, value)
        self.check_backbone(state["model"], path)
        self.add_plugins(cfg.compression_ratio, cfg)
        load_into(self.plugins, state["model"], cfg.compression_ratio, f"--plugin-path {path}")

    def holds(self, stored: dict[str, Tensor], ratio: int) -> bool:
        """Whether the plugins of a ratio are those that are stored, in the precision of these."""
        own = select_ratio(self.plugins.state_dict(prefix="plugins."), ratio)
        return own.keys() == stored.keys() and all(
            torch.equal(tensor.to(stored[name]), stored[name]) for name, tensor in own.items()
        )

    @staticmethod
    def check_files(paths: list[str], option: str) -> None:
        """Check that several plugin files hold different ratios.

        Of a ratio that two have, the one's weights would run with the other's options.

        Args:
            paths: of the first file all ratios are used, of the others only their own. option:
                names the paths in errors.
        Raises:
            UserError: a file that holds no plugins, or a ratio that is held twice.
        """
        holders: dict[int, str] = {}
        for i, path in enumerate(paths):
            state, cfg = read_plugins(path, option)
            ratios = {cfg.compression_ratio} | (set() if i else stored_ratios(state["model"]))
            for ratio in sorted(ratios - {1}):
                if ratio in holders:
                    raise UserError(
                        f"{option}: {holders[ratio]} and {path} both hold ratio {ratio}; give one "
                        "file for each ratio"
                    )
                holders[ratio] = path

    # --- fairseq's side ---------------------------------------------------------------------------

    def train(self, mode: bool = True):
        """Set the mode, but leave the backbone in eval mode: no dropout."""
        super().train(mode)
        self.backbone.eval()
        return self

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Check the backbone, make room for the file's ratios, and fill in what it leaves out.

        Raises:
            UserError: another backbone, no plugins of the ratio that is to be used, or such ones
                of another form than those of --plugin-path, with whose options they would run.
        """
        self.check_backbone(state_dict, "the plugin file")
        stored = stored_ratios(state_dict)
        ratio = self.cfg.compression_ratio
        if (
            form(self.cfg) != form(self.given)
            and ratio in stored  # of the file, too, if a training beside it has stored them
            and not self.holds(select_ratio(state_dict, ratio), ratio)
        ):
            raise UserError(
                f"--plugin-path {self.cfg.plugin_path}: holds plugins of ratio {ratio} in another "
                "form than the checkpoint; leave them out"
            )
        for ratio in stored - set(self.ratios):
            self.add_plugins(ratio, self.given)
        if self.untrained is not None and self.untrained not in stored and self.has_parameters:
            raise UserError(
                f"compression_ratio {self.untrained}: the plugin file holds {sorted(stored)}; give "
                "one of these or 1, or a file with that ratio as plugin_path"
            )
        restore_modules(self, state_dict)

    def check_backbone(self, state_dict: dict[str, Tensor], what: str) -> None:
        """Raise UserError if plugins were trained on another backbone than this one."""
        check_hash(state_dict, self.backbone_hash, self.cfg.backbone_path, what)


def layer_widths(layers: nn.ModuleList) -> dict[str, Any]:
    """What `Shape` says of a stack's layers, under its names, before plugins are in them."""
    if not len(layers):
        return {"embed_dim": 0, "ffn_embed_dim": 0}
    layer = layers[0]
    widths: dict[str, Any] = {
        "embed_dim": layer.final_layer_norm.weight.numel(),
        "ffn_embed_dim": 0,
    }
    if hasattr(layer, "fc2"):
        widths |= {"ffn_embed_dim": inner_width(layer), "ffn_maps": 1 + maps_into(layer)}
        widths["ffn_biases"] = getattr(layer.fc1, "bias", None) is not None
    for width, projection in (("query_dim", "q_proj"), ("key_dim", "k_proj")):
        projected = getattr(getattr(layer, "self_attn", None), projection, None)
        widths[width] = getattr(projected, "out_features", 0)
    return widths


def read_plugins(path: str, option: str) -> tuple[dict, VariatorConfig]:
    """Read a plugin file, and return its state and its options.

    Raises:
        UserError: it holds no plugins.
    """
    state = load_checkpoint(path, option)
    cfg = state["cfg"].model
    if getattr(cfg, "_name", "") != "variator":
        raise UserError(f"{option} {path}: holds no plugins; give a file of --arch variator")
    return state, cfg


def form(cfg: VariatorConfig) -> dict[str, object]:
    """The options of plugins of one ratio, beside those that all plugins of a model share."""
    return {option: getattr(cfg, option) for option in FORM}


def stored_ratios(state_dict: dict[str, Tensor]) -> set[int]:
    """The ratios of the plugins in a state; those without parameters leave nothing in it."""
    return {int(name.split(".")[2]) for name in state_dict if name.startswith("plugins.0.")}


def select_ratio(state: dict[str, Tensor], ratio: int) -> dict[str, Tensor]:
    """The tensors in a state of the plugins of a ratio."""
    return {
        name: tensor
        for name, tensor in state.items()
        if name.startswith("plugins.") and name.split(".")[2] == str(ratio)
    }


def load_into(plugins: nn.ModuleList, state: dict[str, Tensor], ratio: int, source: str) -> None:
    """Fill the plugins of one ratio from the state of a file, named by `source` in errors.

    Raises:
        UserError: the file's plugins have other shapes.
    """
    ours, theirs = (select_ratio(s, ratio) for s in (plugins.state_dict(prefix="plugins."), state))
    if {n: t.shape for n, t in ours.items()} != {n: t.shape for n, t in theirs.items()}:
        raise UserError(
            f"{source}: made for a model of another width or depth, or with other options"
        )
    for name, tensor in ours.items():
        tensor.copy_(theirs[name])
