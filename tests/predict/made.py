"""Tiny models that answer texts: their data, backbones and plugin files, as fairseq leaves them."""

from argparse import Namespace
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from omegaconf import OmegaConf

from pet_fairseq.variator.low_rank import LowRankConfig, LowRankModel
from tests.translation import WORDS, make_task, save_model, save_state
from tests.variator.test_model import make_variator

RATIOS = (2, 4)
HEAD = "sentence_classification_head"
LABELS = ["bad", "good", "none"]


class Made(NamedTuple):
    """A task, the backbone's checkpoint and a plugin file for each of RATIOS."""

    task: object
    backbone: str
    plugins: list[str]

    @property
    def path(self) -> str:
        return ":".join(self.plugins)


def save_with_task(path: Path, name: str, model, model_cfg, task) -> str:
    """A checkpoint with what loading needs."""
    is_config = OmegaConf.is_config(task.cfg)
    fields = OmegaConf.to_container(task.cfg, enum_to_str=True) if is_config else vars(task.cfg)
    options = {k: v for k, v in fields.items() if not str(v).startswith("${")}
    save_state(path, model, model_cfg, {**options, "_name": name})
    return str(path)


def save_plugins(folder: Path, name: str, task, backbone: str) -> Made:
    """Random plugins for a backbone."""
    files = []
    for ratio in RATIOS:
        model = make_variator(task, backbone, compression_ratio=ratio)
        cfg = Namespace(**vars(model.cfg))
        files.append(save_with_task(folder / f"plugins{ratio}.pt", name, model, cfg, task))
    return Made(task, backbone, files)


def make_translator(folder: Path) -> Made:
    task = make_task(folder / "data")
    torch.manual_seed(2)
    return save_plugins(folder, "translation", task, save_model(folder / "b.pt", task))


def make_classifier(folder: Path) -> Made:
    """RoBERTa of two layers with a head for three classes, in which nothing is trained."""
    task = classification_task(folder / "data")
    options = dict(max_positions=40, encoder_embed_dim=32, encoder_ffn_embed_dim=64)
    return save_classifier(folder, task, "roberta_base", **options)


def make_regression(folder: Path) -> str:
    """The checkpoint of a model that gives a number in place of a class."""
    made = make_classifier(folder)
    state = torch.load(made.backbone, weights_only=True)
    state["cfg"]["task"] |= {"num_classes": 1, "regression_target": True}
    for name in ("weight", "bias"):
        key = f"classification_heads.{HEAD}.out_proj.{name}"
        state["model"][key] = state["model"][key][:1].clone()
    torch.save(state, folder / "regression.pt")
    return str(folder / "regression.pt")


def make_bart(folder: Path) -> Made:
    """BART of two layers in each stack with such a head."""
    task = classification_task(folder / "data", add_prev_output_tokens=True)
    options = dict(max_source_positions=40, max_target_positions=40, decoder_layers=2)
    for stack in ("encoder", "decoder"):
        options |= {f"{stack}_embed_dim": 32, f"{stack}_ffn_embed_dim": 64}
    return save_classifier(folder, task, "bart_base", **options, decoder_attention_heads=2)


def save_classifier(folder: Path, task: SentencePredictionTask, arch: str, **options) -> Made:
    args = Namespace(
        arch=arch,
        _name=arch,
        task="sentence_prediction",  # BART asks for it when it is loaded
        dropout=0.0,
        attention_dropout=0.0,
        encoder_layers=2,
        encoder_attention_heads=2,
        **options,
    )
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(2)
    model = build_model(args, task)
    model.register_classification_head(HEAD, num_classes=len(LABELS))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # no answer is like another
    backbone = save_with_task(folder / "b.pt", "sentence_prediction", model, args, task)
    return save_plugins(folder, "sentence_prediction", task, backbone)


def save_low_rank(made: Made, name: str, folder: Path) -> str:
    """The checkpoint of low-rank updates, none of them zero, of a backbone; `name`: its task's."""
    cfg = LowRankConfig(backbone_path=made.backbone, lora_rank=3)
    cfg._name = "low_rank"
    torch.manual_seed(3)
    model = LowRankModel.build_model(cfg, made.task)
    with torch.no_grad():
        for up in model.low_rank.up:
            up.normal_(std=0.1)
    return save_with_task(folder / "l.pt", name, model, Namespace(**vars(cfg)), made.task)


def write_dictionary(folder: Path, words: list[str]) -> Dictionary:
    """A new folder's dict.txt."""
    folder.mkdir(parents=True)
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    dictionary.save(str(folder / "dict.txt"))
    return dictionary


def classification_task(folder: Path, **options) -> SentencePredictionTask:
    for name, words in (("input0", WORDS), ("label", LABELS)):
        write_dictionary(folder / name, words)
    sizes = dict(num_classes=len(LABELS), max_positions=40)
    cfg = SentencePredictionConfig(data=str(folder), **sizes, **options)
    cfg.init_token = 0
    cfg.classification_head_name, cfg.regression_target, cfg.seed = HEAD, False, 1
    return SentencePredictionTask.setup_task(cfg)
