"""GPT-2, `--arch gpt2`: fairseq's `transformer_lm` with an output bias."""

from dataclasses import dataclass

from fairseq.models import register_model
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

from pet_fairseq.checkpoints.tied_tensors import SharedStoredOnce
from pet_fairseq.nn.output_bias import add_output_bias


@dataclass
class Gpt2Config(TransformerLanguageModelConfig):
    pass


@register_model("gpt2", dataclass=Gpt2Config)
class Gpt2Model(SharedStoredOnce, TransformerLanguageModel):
    """fairseq's language model with an output bias for words of fairseq that GPT-2 does not have.

    GPT-2's logits are far below 0, so without the bias a word whose vector is 0, and so its logit,
    would take all probability.
    """

    sharing_options = "--share-decoder-input-output-embed"

    def __init__(self, decoder):
        super().__init__(decoder)
        add_output_bias(decoder.output_projection)
