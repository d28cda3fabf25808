"""Layer-wise head sampling (PET, section 3.3): the best heads of every layer of a wide student.

`pet-fairseq sample-heads` loads a wide student, scores its heads on sentences of the training set,
keeps the best of each attention and writes the smaller model; fine-tuning is plain fairseq-train.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Optional

import torch
from fairseq.models import FairseqModel
from torch import Tensor, nn

from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.saving import derived_state, save_state
from pet_fairseq.checkpoints.subsets import read_samples
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_write, check_out_file
from pet_fairseq.nn.layers import attentions_of
from pet_fairseq.nn.parameter_counts import ParameterCounts, count_parameters
from pet_fairseq.pet.attention import PetAttention
from pet_fairseq.pet.heads import KEPT, cut_heads, format_heads

SCORES = ("contribution", "weight")
Scores = dict[str, dict[str, Tensor]]  # stack -> attention -> layers x heads
Kept = dict[str, dict[str, list[list[int]]]]  # the same, the kept heads of each layer, from 0

# --- scores ---------------------------------------------------------------------------------------


def head_norms(context: Tensor, out_weight: Tensor, num_heads: int) -> Tensor:
    """L2 norm of what each head adds to the layer's output: N x H.

    Args:
        context: N x (H D), the heads' outputs side by side; out_weight: C x (H D).
    """
    heads = context.unflatten(-1, (num_heads, -1)).transpose(0, 1)  # H x N x D
    slices = out_weight.unflatten(-1, (num_heads, -1)).permute(1, 2, 0)  # H x D x C
    return (heads @ slices).norm(dim=-1).T


def head_magnitudes(attention: PetAttention) -> Tensor:
    """Sum of the absolute weights and biases of each head's rows in Q, K and V: H."""
    total = attention.q_proj.weight.new_zeros(attention.num_heads)
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj):
        rows = linear.weight.abs().sum(dim=1) + linear.bias.abs()
        total = total + rows.unflatten(0, (attention.num_heads, -1)).sum(dim=1)
    return total.detach()


class _Contributions:
    """Adds up `head_norms` of one attention over the real positions of batches.

    Hooks see the attention (which layer it is) and then its output projection, which layers may
    share.
    """

    def __init__(self, attention: PetAttention):
        self.attention = attention
        self.total = torch.zeros(attention.num_heads, dtype=torch.float64)
        self.tokens = 0
        self.real: Optional[Tensor] = None  # T x B, set before each batch
        self.running = False
        self.hooks = [
            attention.register_forward_pre_hook(self._enter),
            attention.register_forward_hook(self._leave),
            attention.out_proj.register_forward_pre_hook(self._add_norms),
        ]

    def _enter(self, *_) -> None:
        self.running = True

    def _leave(self, *_) -> None:
        self.running = False

    def _add_norms(self, out_proj: nn.Linear, inputs: tuple[Tensor]) -> None:
        if not self.running:
            return  # another layer runs the projection that it shares with this one
        context = inputs[0][self.real]  # N x (H D)
        norms = head_norms(context, out_proj.weight, self.attention.num_heads)
        self.total += norms.sum(dim=0).double().cpu()
        self.tokens += len(context)

    def finish(self) -> Tensor:
        """Remove the hooks and return the mean over the tokens: H."""
        for hook in self.hooks:
            hook.remove()
        return self.total / max(self.tokens, 1)


@torch.no_grad()
def contribution_scores(model: FairseqModel, batches: Iterable[dict], padding_idx: int) -> Scores:
    """Mean norm of what each head adds to its layer's output, over non-padding tokens, by layer.

    Unlike `weight_scores`, it differs between layers that share their weights.

    Args:
        batches: fairseq's samples with source, previous output tokens and target.
    """
    model.eval()
    meters = {
        stack: {
            name: [_Contributions(attention) for attention in group]
            for name, group in attentions_of(getattr(model, stack).layers).items()
        }
        for stack in KEPT
    }
    meters_of_stack = {
        stack: [meter for group in groups.values() for meter in group]
        for stack, groups in meters.items()
    }
    for sample in batches:
        real = {
            "encoder": sample["net_input"]["src_tokens"].ne(padding_idx).T,
            "decoder": sample["target"].ne(padding_idx).T,
        }
        for stack, group in meters_of_stack.items():
            for meter in group:
                meter.real = real[stack]
        model(**sample["net_input"], features_only=True)
    return {
        stack: {name: torch.stack([m.finish() for m in group]) for name, group in groups.items()}
        for stack, groups in meters.items()
    }


def weight_scores(model: FairseqModel) -> Scores:
    """`head_magnitudes` of every attention; equal in layers that share parameters."""
    return {
        stack: {
            name: torch.stack([head_magnitudes(a) for a in group]).double().cpu()
            for name, group in attentions_of(getattr(model, stack).layers).items()
        }
        for stack in KEPT
    }


def best_heads(scores: Tensor, number: int) -> list[list[int]]:
    """The heads with the highest scores in each layer, by increasing number, from 0.

    Args:
        scores: layers x heads; number: how many heads to take from each layer.
    """
    order = scores.argsort(dim=1, descending=True, stable=True)
    return [sorted(heads) for heads in order[:, :number].tolist()]


# --- the tool -------------------------------------------------------------------------------------


class Sampled(NamedTuple):
    """The scores of all heads, the heads kept, and the model's sizes before and after."""

    scores: Scores
    kept: Kept
    before: ParameterCounts
    after: ParameterCounts


def sample_heads(
    checkpoint: str,
    data: str,
    heads: int,
    out: Path,
    score: str = "contribution",
    subset: str = "train",
    sentences: int = 1000,
    max_tokens: int = 4000,
    device: str = "cpu",
) -> Sampled:
    """Keep the best heads of a wide PET student and write the result as a checkpoint.

    Args:
        checkpoint: the wide student; data: fairseq-preprocess's folder; heads: how many to keep in
            each attention; score: one of SCORES; subset, sentences, max_tokens: the batches on
            which `contribution` is measured.
    Raises:
        UserError: names the option and the reason.
    """
    check_wide(load_checkpoint(checkpoint, "CHECKPOINT", mapped=True), checkpoint, heads)
    check_out_file(out)
    device = check_device(device)
    model, task = load_transformer(checkpoint, "CHECKPOINT", data)
    before = count_parameters(model)
    if score == "weight":
        scores = weight_scores(model)
    else:
        limits = model.max_positions()
        batches = read_samples(task, subset, sentences, max_tokens, limits, device)
        scores = contribution_scores(model.to(device), batches, task.target_dictionary.pad())
    kept = {
        stack: {name: best_heads(values, heads) for name, values in groups.items()}
        for stack, groups in scores.items()
    }
    for stack, groups in kept.items():
        cut_heads(attentions_of(getattr(model, stack).layers), groups)
    save(checkpoint, kept, model.cpu(), out)
    return Sampled(scores, kept, before, count_parameters(model))


def check_wide(state: dict, path: str, heads: int) -> None:
    """Refuse a checkpoint whose heads cannot be sampled.

    Raises:
        UserError: it holds no PET model, was sampled before, or has fewer heads than wanted.
    """
    args = state["cfg"]["model"]
    if not hasattr(args, "encoder_pairs"):
        raise UserError(
            f"CHECKPOINT {path}: not a PET model but {getattr(args, 'arch', 'another one')}; "
            "give one that was trained with --arch pet_transformer"
        )
    for stack, options in KEPT.items():
        stored = getattr(args, f"{stack}_attention_heads")
        if not 1 <= heads <= stored:
            raise UserError(
                f"--heads {heads}: give 1 to {stored}; the {stack} of {path} has {stored} heads"
            )
        if any(getattr(args, f"{stack}_{option}", None) for option in options):
            raise UserError(f"CHECKPOINT {path}: sampled before; give the wide student")


def save(checkpoint: str, kept: Kept, model: FairseqModel, out: Path) -> None:
    """Write the cut model as a checkpoint without training state."""
    state = load_checkpoint(checkpoint, "CHECKPOINT")
    args = state["cfg"]["model"]
    for stack, options in KEPT.items():
        for option, name in options.items():
            if name in kept[stack]:  # a decoder may have no cross-attention, a stack no layer
                setattr(args, f"{stack}_{option}", format_heads(kept[stack][name]))
    sampled = derived_state(state, model.state_dict())
    atomic_write(out, lambda file: save_state(sampled, file))


def format_sampled(sampled: Sampled) -> str:
    """A table of the scores, with the kept heads marked, and the sizes before and after."""
    lines = []
    for stack, groups in sampled.scores.items():
        for name, scores in groups.items():
            for i, values in enumerate(scores.tolist()):
                kept = sampled.kept[stack][name][i]
                marked = (f"{v:.4g}{'*' if h in kept else ''}" for h, v in enumerate(values))
                lines.append(f"{stack} layer {i + 1} {name:12} {'  '.join(marked)}")
    lines.append("(scores of heads 1, 2, ...; * kept)")
    for what, counts in (("before", sampled.before), ("after", sampled.after)):
        lines.append(
            f"{what}: {counts.layers:,} layer parameters stored, {counts.unshared_layers:,} active"
        )
    return "\n".join(lines)
