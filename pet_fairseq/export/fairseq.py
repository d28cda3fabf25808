"""Export to fairseq: the plain form of a model, fairseq's `transformer` that computes the same."""

from argparse import Namespace
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    FairseqEncoderDecoderModel,
    FairseqModel,
    build_model,
)
from fairseq.models.transformer import TransformerModel
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import OmegaConf, open_dict
from torch import Tensor, nn

from pet_fairseq.checkpoints.dictionaries import dictionaries_by_language, first_folder
from pet_fairseq.checkpoints.loading import build_from_state, load_transformer
from pet_fairseq.checkpoints.safe_loading import load_checkpoint, load_options
from pet_fairseq.checkpoints.saving import derived_state, equal_as_one, new_state, save_state
from pet_fairseq.checkpoints.text_files import (
    copy_files,
    copy_subword_files,
    folders_around,
)
from pet_fairseq.checkpoints.translation_checks import check_translation_model
from pet_fairseq.errors import UserError
from pet_fairseq.nn.architectures import architecture_name, command_line_options, model_class
from pet_fairseq.nn.attention import PROJECTIONS, MultiheadAttention
from pet_fairseq.nn.layers import STACKS, attentions_of

MODEL = "model.pt"
ARCH = "transformer"
TASK_OPTIONS = set(TranslationConfig.__dataclass_fields__)


def write_fairseq(checkpoint: str, data: str, folder: Path, without_tokens: bool = False) -> dict:
    """Write model.pt and the dictionaries, and return the options in model.pt.

    Args:
        without_tokens: take a bilingual model, too; what is written lacks its language tokens.
    """
    state = load_checkpoint(checkpoint, "CHECKPOINT")
    args = state["cfg"]["model"]
    check_translation_model(state, checkpoint, "CHECKPOINT")
    if not without_tokens:
        check_plain_form(args, checkpoint)
    model, task = load_transformer(checkpoint, "CHECKPOINT", data)
    plain, plain_args = plain_model(model, args, task)
    exported = plain_state(state, plain, plain_args, task)
    save_state(exported, folder / MODEL)
    for language, dictionary in dictionaries_by_language(task).items():
        dictionary.save(str(folder / f"dict.{language}.txt"))
    return exported["cfg"]


def write_merged(
    checkpoint: str, data: str, folder: Path, backbone_path: Optional[str] = None
) -> None:
    """Write model.pt, the backbone of a model with `merge` as it has changed it, of any task.

    Beside it lie the subword models, and the dictionaries of language models and of translation
    models; a classifier's checkpoint goes on naming its data folder.

    Args:
        backbone_path: of the backbone, None for the one that the checkpoint names.
    """
    state = load_checkpoint(checkpoint, "CHECKPOINT")
    options = {"backbone_path": backbone_path} if backbone_path else {}
    model, task = build_from_state(state, [checkpoint], "CHECKPOINT", data, **options)
    cfg, dictionaries = state["cfg"], sorted(Path(first_folder(data)).glob("dict.*txt"))
    around = folders_around(checkpoint, cfg, Path(first_folder(data)))
    copy_subword_files(task.source_dictionary, around, folder)
    copy_files({file.name: file for file in dictionaries}, folder)
    with open_dict(cfg):
        cfg.task.data = "." if dictionaries else data
        cfg.model = load_options(cfg.model.backbone_path, "--backbone-path").model
    save_state(derived_state(state, model.merge().state_dict()), folder / MODEL)


def plain_state(state: dict, plain: FairseqModel, args: Namespace, task: TranslationTask) -> dict:
    """The loaded checkpoint with another model in it, as stock fairseq reads it."""
    cfg = OmegaConf.to_container(state["cfg"], resolve=True, enum_to_str=True)
    trained = cfg["task"]
    trained = vars(trained) if isinstance(trained, Namespace) else trained
    options = {name: value for name, value in trained.items() if name in TASK_OPTIONS}
    languages = {"source_lang": task.cfg.source_lang, "target_lang": task.cfg.target_lang}
    cfg["task"] = {**options, **languages, "_name": "translation", "data": "."}
    cfg["model"] = args
    cfg["criterion"] = {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1}
    cfg.setdefault("common", {})["user_dir"] = None
    # the averaged weights of --store-ema are as large as the model, and of its old form
    extra_state = {name: value for name, value in state["extra_state"].items() if name != "ema"}
    weights = equal_as_one(plain.state_dict())  # what layers shared takes no more room here
    return new_state(cfg, weights, state["optimizer_history"], extra_state)


def check_plain_form(options: Any, path: str) -> None:
    """Refuse a checkpoint whose model has no plain form.

    A model class that has none says in its attribute `no_plain_form` what to do instead.

    Args:
        options: those of the checkpoint's model.
    Raises:
        UserError: names the file, the model and the way out.
    """
    arch, kind = architecture_name(options), model_class(options)
    holds = f"CHECKPOINT {path}: holds {ARCH_MODEL_NAME_REGISTRY.get(arch, arch)}"
    if hasattr(kind, "no_plain_form"):
        raise UserError(f"{holds}: {kind.no_plain_form}")
    if not issubclass(kind, FairseqEncoderDecoderModel):
        raise UserError(
            f"{holds}, not a translation model; give a Transformer trained with --task translation "
            "or pet_translation"
        )
    if not issubclass(kind, TransformerModel):
        raise UserError(
            f"{holds}, which has no form as fairseq's transformer; fairseq itself reads the "
            "checkpoint as it is, and pet-fairseq compress makes a student of it that has one"
        )


@torch.no_grad()
def plain_model(
    model: nn.Module, args: Namespace, task: FairseqTask
) -> tuple[nn.Module, Namespace]:
    """A plain Transformer with the model's weights, and its options.

    Each layer gets its own copy of shared weights, without the heads that it does not use.

    Args:
        model: with its final weights. args: its options.
    Raises:
        UserError: the heads of an attention do not add up to the model's width, or their number
            differs between layers.
    """
    plain_args = plain_options(model, args)
    plain = build_model(plain_args, task).eval()
    missing, unexpected = plain.load_state_dict(weights_in_use(model), strict=False)
    assert not unexpected and all(name.endswith(".version") for name in missing), (
        missing,
        unexpected,
    )
    return plain, plain_args


def weights_in_use(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters and buffers under all their names, without heads that are not used."""
    weights = dict(model.named_parameters(remove_duplicate=False))
    stored = model.state_dict()
    weights |= {name: buffer for name, buffer in model.named_buffers() if name in stored}
    for path, module in model.named_modules():
        if not isinstance(module, MultiheadAttention):
            continue
        for name in PROJECTIONS:
            weight, bias = module.weights_in_use(name)
            weights |= {f"{path}.{name}.weight": weight, f"{path}.{name}.bias": bias}
    return weights


def plain_options(model: nn.Module, args: Namespace) -> Namespace:
    """The model's options as fairseq's `transformer` has them."""
    plain = Namespace(**vars(args))
    for stack in STACKS:
        heads = _heads(model, stack)
        if heads is not None:
            setattr(plain, f"{stack}_attention_heads", heads)
    for name in option_names(type(model)) - option_names(TransformerModel):
        vars(plain).pop(name, None)
    plain.arch = plain._name = ARCH
    plain.task = "translation"  # CTranslate2's converter reads the task here
    return plain


def option_names(kind: type) -> set[str]:
    """The names of the options that a model class has."""
    return {action.dest for action in command_line_options(kind)}


def _heads(model: nn.Module, stack: str) -> Optional[int]:
    """The number of heads in every attention of a stack, None without layers.

    Raises:
        UserError: they differ between layers, or do not add up to the model's width.
    """
    numbers: set[int] = set()
    for name, attentions in attentions_of(getattr(model, stack).layers).items():
        for number, attention in enumerate(attentions, start=1):
            width = attention.num_heads * attention.head_dim
            if width != attention.embed_dim:
                raise UserError(
                    f"{stack} layer {number} {name}: {attention.num_heads} heads of "
                    f"{attention.head_dim} are {width} wide, but a plain Transformer's must be "
                    f"{attention.embed_dim} together; sample heads first: pet-fairseq sample-heads "
                    f"--heads {attention.embed_dim // attention.head_dim}"
                )
            numbers.add(attention.num_heads)
    if len(numbers) > 1:
        raise UserError(
            f"the {stack}'s layers have {sorted(numbers)} heads, but a plain Transformer's all "
            "have one number; sample heads to one number"
        )
    return numbers.pop() if numbers else None
