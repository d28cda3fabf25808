"""GPT-2 as fairseq's `transformer_lm`: `--arch gpt2`."""

from dataclasses import dataclass

from fairseq.models import register_model
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

from pet_fairseq.output_bias import add_output_bias


@dataclass
class Gpt2Config(TransformerLanguageModelConfig):
    pass


@register_model("gpt2", dataclass=Gpt2Config)
class Gpt2Model(TransformerLanguageModel):
    """fairseq's language model with a bias for words of fairseq that GPT-2 does not have.

    Its logits are far below 0: beside them, that of a word whose vector is 0 would take all
    probability.
    """

    def __init__(self, decoder):
        super().__init__(decoder)
        add_output_bias(decoder.output_projection)
