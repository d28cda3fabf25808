"""Model `factorised_transformer`: a Transformer whose embeddings are products of two matrices.

Z. Lan et al., "ALBERT", ICLR 2020, section 3.1: V x R and R x C parameters in place of V x C, so
that a student with a large vocabulary has more of its bytes in its layers. R is fairseq's own
`--decoder-output-dim`: with it fairseq puts a projection from C to R in front of the output layer,
which shares the V x R matrix if embeddings are tied.
"""

from argparse import Namespace

from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from torch import Tensor, nn

from pet_fairseq.errors import UserError


class FactorisedEmbedding(nn.Embedding):
    """Looks words up in a V x R matrix, then projects them to width C.

    fairseq reads the width that the layers get from `embedding_dim`, and shares `weight`.
    """

    def __init__(self, words: int, rank: int, width: int, padding_idx: int):
        super().__init__(words, rank, padding_idx)
        self.embedding_dim = width
        self.projection = nn.Linear(rank, width, bias=False)
        # the products have fairseq's variance, 1 / C
        nn.init.normal_(self.weight, std=rank**-0.5)
        nn.init.constant_(self.weight[padding_idx], 0)
        nn.init.normal_(self.projection.weight, std=width**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Vectors of words: one more dimension than `tokens`, C wide."""
        return self.projection(super().forward(tokens))


@register_model("factorised_transformer")
class FactorisedTransformerModel(TransformerModel):
    """fairseq's Transformer with embeddings that are products of two matrices, as in ALBERT.

    It takes fairseq's options; `--decoder-output-dim` is the rank of the embeddings.
    """

    no_plain_form = (
        "other software would store the products of its embedding matrices, which are as large as "
        "plain embeddings; use fairseq with --user-dir"
    )

    @classmethod
    def build_model(cls, args, task):
        check_options(args)
        return super().build_model(args, task)

    @classmethod
    def build_embedding(cls, args, dictionary, embed_dim, path=None):
        rank = args.decoder.output_dim
        return FactorisedEmbedding(len(dictionary), rank, embed_dim, dictionary.pad())


def check_options(args: Namespace) -> None:
    """Refuse options from which no model can be built, before anything is.

    Raises:
        UserError: names the option, its value and the way out.
    """
    for name in ("encoder_embed_path", "decoder_embed_path", "adaptive_softmax_cutoff"):
        if getattr(args, name, None):
            option = name.replace("_", "-")
            raise UserError(f"--{option}: not supported by factorised_transformer; leave it out")
    rank, width = args.decoder_output_dim, args.decoder_embed_dim
    if not 1 <= int(rank) < width:
        raise UserError(
            f"--decoder-output-dim {rank}: the inner width of factorised embeddings; give 1 or "
            f"more, and less than --decoder-embed-dim {width}"
        )


@register_model_architecture("factorised_transformer", "factorised_transformer")
def factorised_transformer(args: Namespace) -> None:
    """fairseq's `transformer` with embeddings whose rank is half the decoder's width."""
    rank = getattr(args, "decoder_output_dim", None)
    base_architecture(args)
    args.decoder_output_dim = args.decoder_embed_dim // 2 if rank is None else rank
