"""Model `variator`: a frozen model with compression plugins, the only thing its files hold."""

import hashlib
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from torch import Tensor, nn

from pet_fairseq.checkpoints import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.variator.backbone import (
    STACKS,
    ModelAround,
    find_stack,
    is_decoder_only,
    load_backbone,
)
from pet_fairseq.variator.plugin import ACTIVATIONS, COMPRESSIONS, DECOMPRESSIONS, Plugin
from pet_fairseq.variator.sites import SITES, Site, Switch, attach, embed_dim
from pet_fairseq.variator.stacks import VariatorDecoder, VariatorEncoder


@dataclass
class VariatorConfig(FairseqDataclass):
    backbone_path: str = field(
        default="", metadata={"help": "checkpoint of the model to compress, kept frozen (required)"}
    )
    plugin_path: str = field(
        default="",
        metadata={"help": "more plugin files for this backbone, a.pt:b.pt, to switch between"},
    )
    compression_ratio: int = field(
        default=4, metadata={"help": "k, how many positions become one; 1 uses no plugin"}
    )
    bottleneck_dim: int = field(default=64, metadata={"help": "r, inner width of the adapters"})
    compression_site: ChoiceEnum(SITES) = field(
        default="ffn",
        metadata={
            "help": "what works on groups: the feed-forward networks, the self-attention, or only "
            "its keys and values"
        },
    )
    compression_stack: ChoiceEnum(STACKS) = field(
        default="auto",
        metadata={"help": "auto: the encoder, or the decoder of a decoder-only model"},
    )
    prompt_end: str = field(
        default="",
        metadata={
            "help": "symbol that ends the prompt, the part which a decoder-only model compresses "
            "(required for one)"
        },
    )
    adapter_activation: ChoiceEnum(ACTIVATIONS) = field(
        default="tanh", metadata={"help": "between the two maps of an adapter"}
    )
    compression: ChoiceEnum(COMPRESSIONS) = field(
        default="weighted", metadata={"help": "mean: an ablation without parameters"}
    )
    decompression: ChoiceEnum(DECOMPRESSIONS) = field(
        default="adapter", metadata={"help": "copy: an ablation without parameters"}
    )


def file_hash(path: str) -> Tensor:
    """SHA-256 of a file: 32 numbers, uint8."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return torch.tensor(list(digest), dtype=torch.uint8)


@register_model("variator", dataclass=VariatorConfig)
class VariatorModel(ModelAround):
    """A backbone of which one stack works on groups of positions while a ratio above 1 is set."""

    def __init__(
        self,
        cfg: VariatorConfig,
        backbone: nn.Module,
        padding_idx: int,
        prompt_end_idx: Optional[int] = None,
    ):
        super().__init__(cfg, backbone)
        self.switch = Switch()
        holder, name = find_stack(backbone, cfg.compression_stack)
        stack = getattr(holder, name)
        self.width = embed_dim(stack.layers)
        self.sites: List[Site] = attach(stack.layers, cfg.compression_site, self.switch)
        wrapped = (
            VariatorDecoder(stack, self.switch, padding_idx, prompt_end_idx)
            if name == "decoder"
            else VariatorEncoder(stack, self.switch, padding_idx)
        )
        setattr(holder, name, wrapped)
        backbone.requires_grad_(False)
        # the sites are in the backbone; this is the list under which they are saved
        self.plugins = nn.ModuleList(site.plugins for site in self.sites)
        self.register_buffer("backbone_hash", file_hash(cfg.backbone_path))
        self.register_state_dict_post_hook(keep_plugins_only)
        self.untrained: Optional[int] = None  # a ratio whose plugins are new
        self.train()

    @classmethod
    def build_model(cls, cfg: VariatorConfig, task) -> "VariatorModel":
        check_options(cfg)
        backbone = load_backbone(cfg.backbone_path, task)
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
    def ratios(self) -> List[int]:
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
        self.switch.ratio = ratio

    @contextmanager
    def compression_ratio(self, ratio: int) -> Iterator[None]:
        """Another ratio inside a with block."""
        with self.switch.at(self.switch.ratio):
            self.set_compression_ratio(ratio)
            yield

    @property
    def stack(self) -> VariatorEncoder | VariatorDecoder:
        """What wraps the layers that have the sites."""
        holder, name = find_stack(self.backbone, self.cfg.compression_stack)
        return getattr(holder, name)

    @contextmanager
    def frozen(self) -> Iterator[nn.Module]:
        """This model without plugins."""
        with self.compression_ratio(1):
            yield self

    def add_plugins(self, ratio: int, cfg: VariatorConfig) -> None:
        """New plugins of a ratio at every site."""
        copies = cfg.compression_site == "attention-kv"  # positions come out: nothing to expand
        for site in self.sites:
            site.add(
                Plugin(
                    self.width,
                    ratio,
                    cfg.bottleneck_dim,
                    cfg.adapter_activation,
                    cfg.compression,
                    "copy" if copies else cfg.decompression,
                )
            )

    def load_plugins(self, path: str) -> None:
        """Add the plugins of another file.

        Raises:
            UserError: not plugins for this backbone, or of this form.
        """
        state = load_checkpoint(path, "--plugin-path")
        cfg = state["cfg"].model
        if getattr(cfg, "_name", "") != "variator":
            raise UserError(
                f"--plugin-path {path}: holds no plugins; give a file of --arch variator"
            )
        if cfg.compression_site != self.cfg.compression_site:
            raise UserError(
                f"--plugin-path {path}: made for --compression-site {cfg.compression_site}, not "
                f"{self.cfg.compression_site}"
            )
        self.check_backbone(state["model"], path)
        self.add_plugins(cfg.compression_ratio, cfg)
        load_into(self.plugins, state["model"], cfg.compression_ratio, path)

    # --- fairseq's side ---------------------------------------------------------------------------

    def train(self, mode: bool = True):
        """The backbone stays in eval mode: no dropout."""
        super().train(mode)
        self.backbone.eval()
        return self

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """Check the backbone, make room for the file's ratios, and fill in what it leaves out.

        Raises:
            UserError: another backbone, or no plugins of the ratio that is to be used.
        """
        self.check_backbone(state_dict, "the plugin file")
        stored = {int(n.split(".")[2]) for n in state_dict if n.startswith("plugins.0.")}
        for ratio in stored - set(self.ratios):
            self.add_plugins(ratio, self.cfg)
        if self.untrained is not None and self.untrained not in stored:
            raise UserError(
                f"compression_ratio {self.untrained}: the plugin file holds {sorted(stored)}; give "
                "one of these or 1, or a file with that ratio as plugin_path"
            )
        for key, value in self.state_dict_with_backbone().items():
            state_dict.setdefault(key, value)

    def state_dict_with_backbone(self) -> Dict[str, Tensor]:
        """Every parameter and buffer by name."""
        named = [*self.named_parameters(remove_duplicate=False), *self.named_buffers()]
        return {key: value.detach() for key, value in named}

    def check_backbone(self, state_dict: Dict[str, Tensor], what: str) -> None:
        """Raises UserError if plugins were trained on another backbone than this one."""
        found = state_dict.get("backbone_hash")
        if found is None or not torch.equal(found.cpu(), self.backbone_hash.cpu()):
            raise UserError(
                f"--backbone-path {self.cfg.backbone_path}: not the file that {what} was trained "
                "on; give that one"
            )


def keep_plugins_only(model: nn.Module, state_dict: Dict, prefix: str, _metadata: dict) -> None:
    """State-dict hook: the backbone has its own file."""
    for name in [n for n in state_dict if n.startswith(prefix + "backbone.")]:
        del state_dict[name]


def load_into(plugins: nn.ModuleList, state: Dict[str, Tensor], ratio: int, path: str) -> None:
    """Fill the plugins of one ratio from a file's state.

    Raises:
        UserError: the file's plugins have other shapes.
    """
    for i, by_ratio in enumerate(plugins):
        prefix = f"plugins.{i}.{ratio}."
        part = {n[len(prefix) :]: t for n, t in state.items() if n.startswith(prefix)}
        try:
            by_ratio[str(ratio)].load_state_dict(part, strict=True)
        except RuntimeError as error:
            raise UserError(
                f"--plugin-path {path}: made for a model of another width or depth"
            ) from error


def check_options(cfg: VariatorConfig) -> None:
    """Raises UserError for values that cannot make a model, before the backbone is loaded."""
    if cfg.compression_ratio < 1:
        raise UserError(
            f"--compression-ratio {cfg.compression_ratio}: give 2 or more, or 1 for none"
        )
    if cfg.bottleneck_dim < 1:
        raise UserError(f"--bottleneck-dim {cfg.bottleneck_dim}: give 1 or more")


def prompt_end_index(
    cfg: VariatorConfig, backbone: nn.Module, dictionary: Dictionary
) -> Optional[int]:
    """Of the symbol that ends a prompt; None for a model with an encoder.

    Raises:
        UserError: no such symbol, or a site that would show a decoder its future.
    """
    if not is_decoder_only(backbone):
        return None
    if cfg.compression_site != "ffn":
        raise UserError(
            f"--compression-site {cfg.compression_site}: in a decoder-only model a group of keys "
            "would hide the prompt's order from its mask; give ffn"
        )
    index = dictionary.index(cfg.prompt_end)
    if not cfg.prompt_end or index == dictionary.unk():
        raise UserError(
            f"--prompt-end {cfg.prompt_end!r}: not in the dictionary; give the symbol that ends "
            "the prompts in the data"
        )
    return index
