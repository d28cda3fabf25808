"""The plain form of a model: fairseq's own `transformer` that computes the same."""

from argparse import Namespace
from typing import Optional, Set, Tuple

import torch
from fairseq.models import build_model
from fairseq.models.transformer import TransformerModel
from fairseq.tasks import FairseqTask
from torch import nn

from pet_fairseq.attention import MultiheadAttention
from pet_fairseq.errors import UserError
from pet_fairseq.layers import attentions_of

ARCH = "transformer"
# what to do with a model that has no plain form, by the name it is registered under
NO_PLAIN_FORM = {
    "variator": "plugins need this package; export their --backbone-path, or use pet-fairseq serve",
    "selfcp": "memory needs this package; its language model is the file of its --backbone-path",
    "can_transformer": "compressed attention is no layer of a plain Transformer; use fairseq with "
    "--user-dir",
}
PET_OPTIONS = ("pairs", "head_dim", "kept_heads", "kept_cross_heads")


def check_kind(name: Optional[str], kind: type, path: str) -> None:
    """Raises UserError if a model registered under this name has no plain form."""
    if name in NO_PLAIN_FORM:
        raise UserError(f"CHECKPOINT {path}: holds {name}: {NO_PLAIN_FORM[name]}")
    if not issubclass(kind, TransformerModel):
        raise UserError(
            f"CHECKPOINT {path}: holds {name}, no translation model; give a Transformer trained "
            "with --task translation or pet_translation"
        )


@torch.no_grad()
def plain_model(
    model: nn.Module, args: Namespace, task: FairseqTask
) -> Tuple[nn.Module, Namespace]:
    """A plain Transformer with the model's weights, and its options.

    Shared weights are unrolled, unused heads cut.

    Args:
        model: with its final weights; cut to its used heads. args: its options.
    Raises:
        UserError: heads that are wider or narrower together than the model.
    """
    plain_args = plain_options(model, args)
    plain = build_model(plain_args, task).eval()
    for module in model.modules():
        if isinstance(module, MultiheadAttention):
            module.make_generation_fast_()
    weights = dict(model.named_parameters(remove_duplicate=False))
    weights |= dict(model.named_buffers())
    missing, unexpected = plain.load_state_dict(weights, strict=False)
    assert not unexpected and all(name.endswith(".version") for name in missing), (
        missing,
        unexpected,
    )
    return plain, plain_args


def plain_options(model: nn.Module, args: Namespace) -> Namespace:
    """The model's options as fairseq's `transformer` has them."""
    plain = Namespace(**vars(args))
    for stack in ("encoder", "decoder"):
        heads = _heads(model, stack)
        if heads is not None:
            setattr(plain, f"{stack}_attention_heads", heads)
        for name in PET_OPTIONS:
            vars(plain).pop(f"{stack}_{name}", None)
    vars(plain).pop("compression_reference", None)
    plain.arch = plain._name = ARCH
    plain.task = "translation"  # CTranslate2's converter asks here
    return plain


def _heads(model: nn.Module, stack: str) -> Optional[int]:
    """The number of heads in every attention of a stack, None without layers.

    Raises:
        UserError: they differ, or do not make up the width.
    """
    found: Set[int] = set()
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
            found.add(attention.num_heads)
    if len(found) > 1:
        raise UserError(
            f"the {stack}'s layers have {sorted(found)} heads, but a plain Transformer's all have "
            "one number; sample heads to one number"
        )
    return found.pop() if found else None
