"""BERT, `--arch bert`: fairseq's RoBERTa with the original's token types and layer norms."""

from typing import Optional

import torch
from fairseq.models import register_model, register_model_architecture
from fairseq.models.roberta import RobertaEncoder, RobertaModel
from fairseq.models.roberta.model import base_architecture
from fairseq.models.transformer import TransformerEncoder
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from omegaconf import OmegaConf
from torch import Tensor, nn

from pet_fairseq.checkpoints.tied_tensors import SharedStoredOnce
from pet_fairseq.nn.architectures import set_defaults
from pet_fairseq.nn.gradients import zero_with_gradients
from pet_fairseq.nn.layers import use_torch_gelu

TOKEN_TYPES = 2
LAYER_NORM_EPS = 1e-12


def token_types(tokens: Tensor, separator: int) -> Tensor:
    """The types of a batch's tokens, B x T: 1 for the second sentence of a pair, else 0.

    A pair is `[CLS] A [SEP] B [SEP]`, of which the end may be cut off. A text with more than two
    separators, such as a block of many sentences in pre-training, is no pair: all of it has type 0.
    Padding behind a single sentence gets type 1, which has no effect.

    Args:
        tokens: B x T. separator: the index of `[SEP]`.
    """
    separators = tokens.eq(separator)
    before = separators.cumsum(dim=1) - separators.long()
    pair = separators.sum(dim=1, keepdim=True).le(2)
    return (before.gt(0) & pair).long()


class BertSentenceEncoder(TransformerEncoder):
    """fairseq's encoder that adds the vector of a token's type, if there are types."""

    def __init__(self, args, dictionary, embed_tokens):
        super().__init__(args, dictionary, embed_tokens)
        self.number_of_types = args.token_types
        self.embed_types = None
        if args.token_types:
            self.embed_types = nn.Embedding(args.token_types, embed_tokens.embedding_dim)
        self.separator = dictionary.eos()

    def forward_embedding(self, src_tokens, token_embedding: Optional[Tensor] = None):
        if token_embedding is None:
            token_embedding = self.embed_tokens(src_tokens)
        if self.embed_types is not None:
            token_embedding = token_embedding + self.embed_types(self._types(src_tokens))
        return super().forward_embedding(src_tokens, token_embedding)

    def _types(self, tokens: Tensor) -> Tensor:
        """The types of tokens, B x T: 0 if the model has one type for both sentences."""
        types = token_types(tokens, self.separator)
        return types if self.number_of_types > 1 else torch.zeros_like(types)


class BertEncoder(RobertaEncoder):
    def build_encoder(self, args, dictionary, embed_tokens):
        encoder = BertSentenceEncoder(args, dictionary, embed_tokens)
        encoder.apply(init_bert_params)
        return encoder


@register_model("bert")
class BertModel(SharedStoredOnce, RobertaModel):
    """BERT for masked words and, with a classification head, for sentences and pairs."""

    sharing_options = "--untie-weights-roberta"

    def __init__(self, args, encoder):
        super().__init__(args, encoder)
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = args.layer_norm_eps
        use_torch_gelu(self)

    def forward(self, src_tokens, **options):
        """As RoBERTa's, but parameters that a batch does not use get gradients of 0."""
        output, extra = super().forward(src_tokens, **options)
        if self.training:  # for example, training classes does not use the head for masked words
            output = output + zero_with_gradients(self.parameters())
        return output, extra

    @staticmethod
    def add_args(parser):
        RobertaModel.add_args(parser)
        parser.add_argument(
            "--token-types",
            type=int,
            metavar="N",
            help=f"the number of token types; 0: none, as in DistilBERT (default: {TOKEN_TYPES})",
        )
        parser.add_argument(
            "--layer-norm-eps",
            type=float,
            metavar="E",
            help=f"the number that layer norms add to the variance (default: {LAYER_NORM_EPS})",
        )

    @classmethod
    def build_model(cls, args, task):
        if OmegaConf.is_config(args):
            OmegaConf.set_struct(args, False)
        set_bert_defaults(args)
        if getattr(args, "max_positions", None) is None:
            args.max_positions = task.max_positions()
        return cls(args, BertEncoder(args, task.source_dictionary))


@register_model_architecture("bert", "bert")
def set_bert_defaults(args) -> None:
    """Set options that are not given to BERT's values."""
    set_defaults(args, token_types=TOKEN_TYPES, layer_norm_eps=LAYER_NORM_EPS)
    base_architecture(args)
