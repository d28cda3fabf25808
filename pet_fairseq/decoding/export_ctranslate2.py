"""Models that have a form in CTranslate2 but none in fairseq's `transformer`.

Their class says so by `ctranslate2_form(options)`, which returns the name of the activation and
whether the decoder starts from the padding word.
"""

from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationTask
from torch import nn

from pet_fairseq.nn.architectures import model_class
from pet_fairseq.nn.output_bias import ABSENT

START = "<blank>"  # CTranslate2's name of <pad>


def has_ctranslate2_form(options: Any) -> bool:
    """Whether the model with these options has a form in CTranslate2 of its own."""
    return hasattr(model_class(options), "ctranslate2_form")


@torch.no_grad()
def write_ctranslate2_form(
    model: nn.Module, options: Any, task: TranslationTask, folder: Path, quantization: str
) -> None:
    """Write a model in its own form for CTranslate2's Translator.

    fairseq never generates the padding word; CTranslate2 may, so here the word is made impossible.
    A model with an output bias is needed for that.
    """
    from ctranslate2.converters.fairseq import set_transformer_decoder, set_transformer_encoder
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    activation, starts_from_padding = model_class(options).ctranslate2_form(options)
    spec = TransformerSpec.from_config(
        (options.encoder_layers, options.decoder_layers),
        options.encoder_attention_heads,
        pre_norm=options.encoder_normalize_before,
        activation=getattr(Activation, activation),
    )
    set_transformer_encoder(spec.encoder, model.encoder)
    set_transformer_decoder(spec.decoder, model.decoder)
    bias = model.decoder.output_projection.bias.clone()
    bias[task.target_dictionary.pad()] = ABSENT
    spec.decoder.projection.bias = bias.numpy()
    spec.register_source_vocabulary(words_of(task.source_dictionary))
    spec.register_target_vocabulary(words_of(task.target_dictionary))
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = START if starts_from_padding else spec.config.eos_token
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def words_of(dictionary: Dictionary) -> list[str]:
    return [START if word == dictionary.pad_word else word for word in dictionary.symbols]
