"""A frozen teacher: asked about a batch, it gives its distributions over the next token."""

import os
from typing import Callable, Dict, List, NamedTuple, Sequence

import torch
import torch.nn.functional as F
from fairseq.models import FairseqModel
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from pet_fairseq.checkpoints.frozen_models import FrozenModels, load_frozen_models
from pet_fairseq.errors import UserError

TEACHER_PATH_HELP = "checkpoint of the teacher, or an ensemble a.pt:b.pt (required)"
TEACHER_CACHE_HELP = (
    "MiB of memory in which to keep what the teacher said about a sentence pair, so that it is run "
    "once and not in every epoch; 0 keeps nothing"
)


class Outputs(NamedTuple):
    """What a model says about a batch, before the step that makes it as wide as the vocabulary."""

    features: Tensor  # B x T x C
    output_layer: Callable[[Tensor], Tensor]  # N x C -> N x V, logits up to a constant per token
    parameters: List[nn.Parameter]  # that the output layer uses


def has_output_layer(model: nn.Module) -> bool:
    """Whether a model can stop before its output projection: a Transformer without a cascade."""
    decoder = getattr(model, "decoder", None)
    return isinstance(decoder, TransformerDecoderBase) and decoder.adaptive_softmax is None


def run_model(model: nn.Module, net_input: dict) -> Outputs:
    """Run a fairseq model without its output projection where it is a Transformer.

    Other models give their log-probabilities, whose softmax is the same as that of the logits.
    """
    if has_output_layer(model):
        decoder = model.decoder
        features, _ = model(**net_input, features_only=True)
        return Outputs(features, decoder.output_layer, list(decoder.output_projection.parameters()))
    log_probs = model.get_normalized_probs(model(**net_input), log_probs=True)
    return Outputs(log_probs, lambda rows: rows, [])


def ensemble_log_probs(logits: Sequence[Tensor], temperature: float) -> Tensor:
    """log of the teacher's distribution at a temperature: [N, V], float32.

    Several teachers count as one whose distribution is the mean of theirs (as in fairseq's
    ensembles); the temperature acts on that mean: p_T is proportional to p^(1/T).
    """
    if len(logits) == 1:
        return F.log_softmax(logits[0].float() / temperature, dim=-1)
    log_probs = torch.stack([F.log_softmax(z.float(), dim=-1) for z in logits])
    return F.log_softmax(log_probs.logsumexp(dim=0) / temperature, dim=-1)


class Teacher(FrozenModels):
    """One frozen model or an ensemble, in the device and dtype of the student.

    Args:
        paths: a checkpoint, or an ensemble `a.pt:b.pt`; task: its dictionaries must be theirs.
        cache_mb: keep the features of so many MiB of sentence pairs in memory, see TeacherCache.
    Raises:
        UserError: an unusable checkpoint, or one that reads shorter sentences than the task.
    """

    def __init__(self, paths: str, task, cache_mb: float = 0):
        if not paths:
            raise UserError("--teacher-path: missing; give the checkpoint of the teacher")
        if cache_mb < 0:
            raise UserError(f"--teacher-cache-mb {cache_mb:g}: give 0 or more")
        super().__init__(load_frozen_models(paths, "--teacher-path", task).models)
        check_positions(self.models, task)
        self.cache = TeacherCache(cache_mb, task.target_dictionary.pad())
        if self.cache.enabled and not all(map(has_output_layer, self.models)):
            raise UserError(
                f"--teacher-cache-mb {cache_mb:g}: {paths.split(os.pathsep)[0]} is no Transformer "
                "with a plain output layer; leave the option out"
            )

    def ask(
        self, student: FairseqModel, sample: dict, real: Tensor
    ) -> Callable[[slice, float], Tensor]:
        """Run the teacher on a batch.

        Args:
            sample: fairseq's batch; real: B x T, which target positions count, N of them.
        Returns:
            a function of rows (a slice of the N) and temperature: log-probabilities, n x V.
        """
        models = self.like(next(student.parameters()))
        outputs: List[Outputs] = []

        def compute() -> Tensor:
            outputs.extend(run_model(model, sample["net_input"]) for model in models)
            return torch.cat([out.features[real] for out in outputs], dim=-1)

        with torch.no_grad():
            features = self.cache.lookup(sample, real, compute)
        layers = [out.output_layer for out in outputs] or [m.decoder.output_layer for m in models]
        widths = [out.features.size(-1) for out in outputs] or [
            m.decoder.output_projection.in_features for m in models
        ]

        @torch.no_grad()
        def log_probs(rows: slice, temperature: float) -> Tensor:
            parts = features[rows].split(widths, dim=-1)
            return ensemble_log_probs([f(part) for f, part in zip(layers, parts)], temperature)

        return log_probs


def check_positions(teachers: List[nn.Module], task) -> None:
    """Raises UserError if the task lets longer sentences through than a teacher can read."""
    for teacher in teachers:
        for side, limit, wanted in zip(
            ("source", "target"), teacher.max_positions(), task.max_positions()
        ):
            if wanted > limit:
                raise UserError(
                    f"--max-{side}-positions {wanted}: the teacher reads {limit} tokens at most; "
                    f"give --max-{side}-positions {limit}"
                )


# --- cache ----------------------------------------------------------------------------------------


class TeacherCache:
    """Features of sentence pairs, so that the teacher is run once and not in every epoch.

    The teacher has no dropout, so a pair's features differ between batches by rounding only. Keys
    are the tokens themselves: noise on the data, or another data set, just misses the cache.
    """

    def __init__(self, limit_mb: float, padding_idx: int):
        self.free_bytes = int(limit_mb * 2**20)
        self.enabled = self.free_bytes > 0
        self.padding_idx = padding_idx
        self.features: Dict[bytes, Tensor] = {}

    def lookup(self, sample: dict, real: Tensor, compute: Callable[[], Tensor]) -> Tensor:
        """The features at the target positions that count (`real`, B x T): N x C."""
        if not self.enabled:
            return compute()
        keys = pair_keys(sample, self.padding_idx)
        found = [self.features.get(key) for key in keys]
        if all(part is not None for part in found):
            return torch.cat(found).to(real.device)
        features = compute()
        for key, part in zip(keys, features.cpu().split(real.sum(dim=1).tolist())):
            self._keep(key, part)
        return features

    def _keep(self, key: bytes, part: Tensor) -> None:
        size = part.numel() * part.element_size()
        if key in self.features or size > self.free_bytes:
            return
        self.free_bytes -= size
        self.features[key] = part.clone()  # a view would keep the whole batch


def pair_keys(sample: dict, padding_idx: int) -> List[bytes]:
    """One key per sentence pair of a batch, the same in every batch whatever its padding."""
    sides = (
        sample["net_input"]["src_tokens"],
        sample["net_input"]["prev_output_tokens"],
        sample["target"],
    )
    rows = zip(*(side.cpu().numpy() for side in sides))
    return [b"|".join(tokens[tokens != padding_idx].tobytes() for tokens in row) for row in rows]
