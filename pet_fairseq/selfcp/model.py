"""Model `selfcp`: a frozen language model that compresses the prompt it reads (SelfCP, section 3).

To fairseq it is an encoder-decoder: the encoder reads query and prompt, the decoder the response.
Both are the same frozen model.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder, register_model
from torch import Tensor, nn

from pet_fairseq.checkpoints.backbone import (
    check_gives_logits,
    check_hash,
    drop_modules,
    file_hash,
    is_decoder_only,
    load_backbone,
    restore_modules,
)
from pet_fairseq.checkpoints.dictionaries import dictionary_hash
from pet_fairseq.errors import UserError
from pet_fairseq.nn.freezing import freeze
from pet_fairseq.nn.gradients import zero_with_gradients
from pet_fairseq.nn.low_rank import check_rank
from pet_fairseq.selfcp.mixed_input import MixedInput, append_tokens, last_states
from pet_fairseq.selfcp.options import SelfCpConfig, check_options
from pet_fairseq.selfcp.reader import PromptReader, Prompts

LOW_RANK = "encoder.low_rank"  # in the state
TAG = "encoder.memory_tag"


class Responder(FairseqIncrementalDecoder):
    """Continues what a PromptReader read.

    Args:
        inner: the decoder of the language model. updates_for: of the PromptReader.
    """

    def __init__(
        self,
        inner: nn.Module,
        dictionary: Dictionary,
        updates_for: Callable[[str], AbstractContextManager],
    ):
        super().__init__(dictionary)
        self.inner = inner
        self.updates_for = updates_for

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]],
        incremental_state: dict[str, dict[str, Optional[Tensor]]],
        **options,
    ) -> tuple[Tensor, dict]:
        """Logits of the next token, B x 1 x V.

        Args:
            prev_output_tokens: B x (1 + the response so far); the first token stands for all that
                was read. encoder_out: of PromptReader.
        """
        tokens = torch.cat([encoder_out["tokens"][0], prev_output_tokens[:, 1:]], dim=1)
        if prev_output_tokens.size(1) == 1:
            self.fill(incremental_state, encoder_out)
            output = encoder_out["first"][0]
        else:
            with self.updates_for("reader"), self.positions_of_all():
                output, _ = self.inner(tokens, incremental_state=incremental_state)
        return self.end_at_last_position(output, tokens), {"attn": [None]}

    def end_at_last_position(self, output: Tensor, tokens: Tensor) -> Tensor:
        """Let only </s> follow where the model has no position left: B x 1 x V."""
        positions = self.inner.max_positions()
        if tokens.size(1) < positions:
            return output  # known without waiting for the device
        full = tokens.ne(self.inner.padding_idx).sum(dim=1) >= positions
        ends = torch.full_like(output, -torch.inf)
        ends[..., self.dictionary.eos()] = 0
        return torch.where(full[:, None, None], ends, output)

    def fill(self, incremental_state: dict, encoder_out: dict[str, list[Tensor]]) -> None:
        """Move the keys and values of `encoder_out` into the cache of each layer's attention."""
        padding = encoder_out["tokens"][0].eq(self.inner.padding_idx)
        is_padded = bool(padding.any())  # asked of the device once, not for each layer
        for layer, key, value in zip(self.inner.layers, encoder_out["keys"], encoder_out["values"]):
            state = {"prev_key": key, "prev_value": value}
            if is_padded:
                state["prev_key_padding_mask"] = padding
            layer.self_attn._set_input_buffer(incremental_state, state)
        encoder_out["keys"].clear()
        encoder_out["values"].clear()

    @contextmanager
    def positions_of_all(self) -> Iterator[None]:
        """Inside the block positions skip padding, as in training; fairseq's incremental do not."""

        def forget_state(module, args: tuple, options: dict) -> tuple:
            return args, {**options, "incremental_state": None}

        embed = self.inner.embed_positions
        if embed is None:
            yield
            return
        hook = embed.register_forward_pre_hook(forget_state, with_kwargs=True)
        try:
            yield
        finally:
            hook.remove()

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        return self.inner.get_normalized_probs(net_output, log_probs, sample)

    def max_positions(self) -> int:
        return self.inner.max_positions()


def check_kind(backbone: nn.Module, path: str) -> None:
    """Raises UserError if a model in the file `path` cannot read memory tokens."""
    layers = backbone.decoder.layers if is_decoder_only(backbone) else [None]
    if not all(hasattr(layer, "self_attn") for layer in layers):
        raise UserError(
            f"--backbone-path {path}: not a decoder-only Transformer; give a transformer_lm"
        )
    check_gives_logits(backbone, f"--backbone-path {path}")
    decoder = backbone.decoder
    width = decoder.embed_dim
    if decoder.project_out_dim is not None:
        width = decoder.project_out_dim.out_features
    words = decoder.embed_tokens
    if not isinstance(words, nn.Embedding) or words.embedding_dim != width:
        raise UserError(
            f"--backbone-path {path}: its outputs, which become memory tokens, are no vectors as "
            "those of words are; give a model without --adaptive-input and "
            "--character-embeddings, whose --decoder-input-dim is its --decoder-output-dim"
        )


@register_model("selfcp", dataclass=SelfCpConfig)
class SelfCpModel(FairseqEncoderDecoderModel):
    """A frozen language model that compresses long prompts to memory tokens, and reads these.

    Only the memory tag, the connector and, if asked for, low-rank updates are trained and saved.
    """

    wraps_backbone = True  # its checkpoints are no backbones
    no_plain_form = (
        "memory needs this package; its language model is the file of its --backbone-path"
    )

    def __init__(
        self, cfg: SelfCpConfig, backbone: nn.Module, dictionary: Dictionary, data: str = ""
    ):
        """Build the model around a backbone; `data` is the dictionary's folder, for errors."""
        inner = backbone.decoder
        freeze(backbone)
        reader = PromptReader(inner, cfg, dictionary)
        super().__init__(reader, Responder(inner, dictionary, reader.updates_for))
        self.cfg = cfg
        self.data = data
        digest = torch.tensor(list(dictionary_hash(dictionary)), dtype=torch.uint8)
        self.register_buffer("dictionary_hash", digest)
        self.register_buffer("backbone_hash", file_hash(cfg.backbone_path))
        self.register_state_dict_post_hook(drop_modules("encoder.inner", "decoder.inner"))
        self.train()

    @classmethod
    def build_model(cls, cfg: SelfCpConfig, task) -> "SelfCpModel":
        """Build the model around the language model in --backbone-path.

        Raises:
            UserError: wrong options, a backbone that cannot read memory tokens, or one with too few
                positions for the window.
        """
        check_options(cfg)
        backbone = load_backbone(cfg.backbone_path, task)
        check_kind(backbone, cfg.backbone_path)
        positions = backbone.max_positions()
        if cfg.window >= positions:
            raise UserError(
                f"--window {cfg.window}: the backbone has {positions} positions, for query and "
                "response too; give a smaller window"
            )
        data = getattr(task, "args", task.cfg).data
        return cls(cfg, backbone, task.source_dictionary, data)

    def train(self, mode: bool = True):
        """Set the mode, but leave the backbone in eval mode: no dropout."""
        super().train(mode)
        self.decoder.inner.eval()
        return self

    def forward(self, prev_output_tokens: Tensor, **prompts: Prompts) -> tuple[Tensor, dict]:
        """Logits of the response's tokens, B x R x V; "read": B, tokens and memory before them.

        Args:
            prev_output_tokens: B x R, one symbol that is not read, then the response, padded on the
                right. prompts: as for PromptReader.read.
        """
        inputs = self.encoder.read(**prompts, more=prev_output_tokens.size(1) - 1)
        logits = self.respond(inputs, prev_output_tokens)
        if self.training:  # nothing may have been compressed in this batch
            logits = logits + zero_with_gradients(self.parameters())
        return logits, {"read": inputs.lengths}

    def respond(self, inputs: MixedInput, prev_output_tokens: Tensor) -> Tensor:
        """Logits of responses to what was read, B x R x V; prev_output_tokens as for `forward`."""
        inner = self.decoder.inner
        whole = append_tokens(inputs, prev_output_tokens[:, 1:], inner.padding_idx)
        self.encoder.check_length(whole)
        with self.encoder.updates_for("reader"):
            states = last_states(inner, whole)
        steps = torch.arange(prev_output_tokens.size(1), device=states.device)
        at_response = inputs.lengths[:, None] - 1 + steps
        at_response = at_response[..., None].expand(-1, -1, states.size(-1))
        return inner.output_layer(states.gather(1, at_response))

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> None:
        """Check backbone and dictionary, and fill in what the file leaves out.

        Raises:
            UserError: another backbone, a dictionary of other words or in another order, or
                low-rank updates of another rank, or another number of tags. Files that are too old
                to hold the dictionary's hash are not checked for it.
        """
        what = "the memory tag and connector"
        check_hash(state_dict, self.backbone_hash, self.cfg.backbone_path, what)
        theirs: Any = state_dict.get("dictionary_hash", self.dictionary_hash)
        if not torch.equal(theirs.cpu(), self.dictionary_hash.cpu()):
            raise UserError(
                f"{self.data}/dict.txt: not the dictionary that {what} was trained with; give data "
                "made with the same SentencePiece model"
            )
        check_rank(state_dict, LOW_RANK, self.cfg.lora_rank)
        check_tags(state_dict, self.cfg.memory_tags)
        restore_modules(self, state_dict)


def check_tags(state_dict: dict[str, Tensor], number: int) -> None:
    """Raise UserError if a model's state has another number of memory tags than --memory-tags."""
    stored = state_dict.get(TAG)
    if stored is None:
        return
    tags = 1 if stored.dim() == 1 else len(stored)
    if tags != number:
        raise UserError(
            f"--memory-tags {number}: the checkpoint has {tags}; give that number, or leave it out"
        )
