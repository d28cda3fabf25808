"""The forms in which the library transformers holds translation models: MarianMT, M2M100, FSMT.

Each has a class of its own there, which computes what one kind of fairseq's Transformer computes.
All of them name the tensors of a layer as fairseq does.
"""

from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, Optional

import torch
from fairseq.data import Dictionary
from fairseq.modules import SinusoidalPositionalEmbedding
from fairseq.tasks.translation import TranslationTask
from torch import Tensor, nn

from pet_fairseq.errors import UserError, first_given, option_of
from pet_fairseq.export.ctranslate2 import check_for_ctranslate2
from pet_fairseq.export.fairseq import check_plain_form, plain_model, weights_in_use
from pet_fairseq.huggingface.bert import FIRST_POSITION
from pet_fairseq.huggingface.encoder_decoder import BIAS
from pet_fairseq.huggingface.marian import sinusoids
from pet_fairseq.huggingface.marian_model import MarianModel
from pet_fairseq.nn.architectures import model_class
from pet_fairseq.nn.layers import STACKS

# fairseq's activations by their names in transformers
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_accurate": "gelu_new",
    "gelu_fast": "gelu_new",
}
# options for which no form has room
NO_ROOM = (
    "no_token_positional_embeddings",
    "no_cross_attention",
    "cross_self_attention",
    "adaptive_input",
    "adaptive_softmax_cutoff",
    "layernorm_embedding",
    "base_layers",
    "quant_noise_pq",
)
LEARNED = tuple(f"{stack}_learned_pos" for stack in STACKS)
EMBEDDINGS = {stack: f"{stack}.embed_tokens.weight" for stack in STACKS}
POSITIONS = {stack: f"{stack}.embed_positions.weight" for stack in STACKS}
OUTPUT = "decoder.output_projection.weight"
OUTPUT_BIAS = "decoder.output_projection.bias"
WAY_OUT = "give --to ctranslate2 or --to fairseq"


@dataclass(frozen=True)
class Form:
    """A model as transformers reads it.

    Attributes:
        config: the content of config.json. tensors: by their names in model.safetensors.
        sources, targets: the words of the rows of the embedding matrices, in their order.
        lengths: the longest source and target that it reads, in tokens with `</s>`.
    """

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    sources: list[str]
    targets: list[str]
    lengths: tuple[int, int]


@dataclass(frozen=True)
class Translation:
    """A translation model of fairseq, with its dictionaries.

    Attributes:
        options: of the model. weights: by name, each under all its names.
        lengths: the longest source and target that it reads, in tokens with `</s>`.
        languages: of source and target.
    """

    options: Namespace
    weights: dict[str, Tensor]
    lengths: tuple[int, int]
    languages: tuple[str, str]
    source: Dictionary
    target: Dictionary

    def has_equal(self, *names: str) -> bool:
        """Whether some matrices are the same."""
        first, *others = (self.weights[name] for name in names)
        return all(torch.equal(first, other) for other in others)

    def layers(self) -> dict[str, Tensor]:
        """The tensors of all layers, and of the norms behind the last ones."""
        prefixes = tuple(f"{stack}.layer" for stack in STACKS)  # .layers. and .layer_norm.
        return {f"model.{n}": w for n, w in self.weights.items() if n.startswith(prefixes)}


def make_form(state: dict, path: str, model: nn.Module, task: TranslationTask) -> Form:
    """The form of transformers that holds a model.

    Shared parameters are copied to each layer that uses them.

    Args:
        state: of the checkpoint. path: of its file, for errors. model, task: as
            `load_transformer` gives them for it.
    Raises:
        UserError: no form holds it; the message names the option, and what to do instead.
    """
    options = state["cfg"]["model"]
    lengths = (model.encoder.max_source_positions, model.decoder.max_target_positions)
    languages = (task.cfg.source_lang, task.cfg.target_lang)
    rest = (lengths, languages, task.source_dictionary, task.target_dictionary)
    if issubclass(model_class(options), MarianModel):
        check_sizes(options)
        return marian(Translation(options, weights_in_use(model), *rest))
    check_plain_form(options, path)
    plain, options = plain_model(model, options, task)
    check_sizes(options)
    translation = Translation(options, weights_in_use(plain), *rest)
    return m2m_100(translation) if options.encoder_normalize_before else fsmt(translation)


def check_sizes(options: Namespace) -> None:
    """Check what no form can hold.

    Raises:
        UserError: names the option.
    """
    width = options.encoder_embed_dim
    for name in ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"):
        if getattr(options, name, None) not in (None, width):
            value = getattr(options, name)
            what = f"{option_of(name)} {value} beside --encoder-embed-dim {width}"
            refuse(what, way_out(options))
    if option := first_given(options, NO_ROOM):
        refuse(option, way_out(options))
    if options.encoder_normalize_before != options.decoder_normalize_before:
        one = "--encoder-normalize-before or --decoder-normalize-before alone"
        refuse(one, "give --to onnx or --to fairseq")
    activation = getattr(options, "activation_fn", "relu")
    if activation not in ACTIVATIONS:
        refuse(f"--activation-fn {activation}", way_out(options))


def way_out(options: Namespace) -> str:
    """What to give in place of --to huggingface; CTranslate2 only if it has room for the model."""
    try:
        check_for_ctranslate2(options)
    except UserError:
        return "give --to fairseq"
    return WAY_OUT


def refuse(what: str, remedy: str = WAY_OUT, form: str = "no form of transformers") -> NoReturn:
    raise UserError(f"--to huggingface: {form} has room for {what}; {remedy}")


# --- the forms ------------------------------------------------------------------------------------


def m2m_100(model: Translation) -> Form:
    """A pre-norm model with one matrix for all embeddings and the output.

    Raises:
        UserError: it has several, learned positions, or no norm at the end.
    """
    form = "M2M100, transformers' form of pre-norm models, "
    check_positions(model.options, form)
    if getattr(model.options, "no_decoder_final_norm", False):
        refuse("--no-decoder-final-norm", way_out(model.options), form=f"{form}never")
    if model.source != model.target or not model.has_equal(*EMBEDDINGS.values(), OUTPUT):
        raise UserError(
            f"--to huggingface: {form}has one matrix for all embeddings and the output, and this "
            "model has several; train one with --share-all-embeddings on data of "
            "fairseq-preprocess --joined-dictionary, or a post-norm one (compress --student-form "
            f"post-norm), or {way_out(model.options)}"
        )
    words = model.source.symbols
    config = {"vocab_size": len(words), "tie_word_embeddings": True}
    tensors = {"model.shared.weight": model.weights[OUTPUT]}
    return Form(
        config_of("m2m_100", "M2M100ForConditionalGeneration", model, model.target.eos(), **config),
        tensors | model.layers(),
        words,
        words,
        model.lengths,
    )


def fsmt(model: Translation) -> Form:
    """A post-norm model, whose output is the matrix of the decoder's embeddings.

    Raises:
        UserError: its output has a matrix of its own, or its positions are learned.
    """
    form = "FSMT, transformers' form of fairseq's post-norm models, "
    check_positions(model.options, form)
    if not model.has_equal(EMBEDDINGS["decoder"], OUTPUT):
        raise UserError(
            f"--to huggingface: {form}has one matrix for the decoder's embeddings and the output, "
            "and this model has two; train one with --share-decoder-input-output-embed, or "
            f"{way_out(model.options)}"
        )
    config: dict[str, Any] = {
        "langs": list(model.languages),
        "src_vocab_size": len(model.source),
        "tgt_vocab_size": len(model.target),
        "tie_word_embeddings": False,  # the encoder's with the decoder's
    }
    tensors = {f"model.{name}": model.weights[name] for name in (*EMBEDDINGS.values(), OUTPUT)}
    rows, pad = FIRST_POSITION + max(model.lengths), model.target.pad()
    table = SinusoidalPositionalEmbedding.get_embedding(rows, model.options.encoder_embed_dim, pad)
    tensors |= {f"model.{POSITIONS[stack]}": table for stack in STACKS}
    return Form(
        config_of("fsmt", "FSMTForConditionalGeneration", model, model.target.eos(), **config),
        tensors | model.layers(),
        model.source.symbols,
        model.target.symbols,
        model.lengths,
    )


def marian(model: Translation) -> Form:
    """A Marian model; a joint vocabulary is in OPUS-MT's order: `</s>`, `<unk>`, ..., `<pad>`.

    Raises:
        UserError: its layers are pre-norm.
    """
    options = model.options
    if options.encoder_normalize_before:
        refuse("--encoder-normalize-before", form="MarianMT never")
    shared = model.source == model.target and model.has_equal(*EMBEDDINGS.values())
    tied = model.has_equal(EMBEDDINGS["decoder"], OUTPUT)
    sources, targets = marian_order(model.source, model.target)
    rows = {"encoder": torch.tensor(sources), "decoder": torch.tensor(targets)}
    pad, end = targets.index(model.target.pad()), targets.index(model.target.eos())
    config = config_of("marian", "MarianMTModel", model, pad, pad=pad, end=end) | {
        "vocab_size": len(sources),
        "decoder_vocab_size": len(targets),
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": tied,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
    }
    if options.swish:
        config["activation_function"] = "swish"
    weights = model.weights
    embeddings = {stack: weights[EMBEDDINGS[stack]][rows[stack]] for stack in STACKS}
    if shared:
        tensors = {"model.shared.weight": embeddings["encoder"]}
    else:
        tensors = {f"model.{EMBEDDINGS[stack]}": embeddings[stack] for stack in STACKS}
    if not tied:
        tensors["lm_head.weight"] = weights[OUTPUT][rows["decoder"]]
    tensors[BIAS] = weights[OUTPUT_BIAS][rows["decoder"]][None]
    size = config["max_position_embeddings"]
    tensors |= {f"model.{POSITIONS[s]}": positions(weights[POSITIONS[s]], size) for s in STACKS}
    return Form(
        config,
        tensors | model.layers(),
        [model.source[i] for i in sources],
        [model.target[i] for i in targets],
        model.lengths,
    )


def marian_order(source: Dictionary, target: Dictionary) -> tuple[list[int], list[int]]:
    """The numbers of the words in the order of OPUS-MT's vocabularies.

    If source and target have words of their own, they keep fairseq's order: transformers wants
    `<pad>` at the same place in both.
    """
    if source != target:
        return list(range(len(source))), list(range(len(target)))
    firsts, last = [source.eos(), source.unk()], [source.bos(), source.pad()]
    order = [*firsts, *range(source.nspecial, len(source)), *last]
    return order, order


def positions(table: Tensor, size: int) -> Tensor:
    """fairseq's table of positions as Marian has it, size x C: without the rows before the first.

    They may have been trained. Rows that the model lacks, because its other stack reads longer
    sentences, are those of an untrained model.
    """
    rows = table[FIRST_POSITION:]
    return torch.cat([rows, sinusoids(size, table.size(1))[len(rows) :]])


def check_positions(options: Namespace, form: str) -> None:
    """Raises UserError if positions are learned."""
    if option := first_given(options, LEARNED):
        refuse(option, way_out(options), form=f"{form}never")


def config_of(
    kind: str,
    architecture: str,
    model: Translation,
    start: int,
    pad: Optional[int] = None,
    end: Optional[int] = None,
    **more: Any,
) -> dict[str, Any]:
    """What all forms have in config.json.

    Args:
        kind: model_type. start: the word from which the decoder starts.
        pad, end: the numbers of `<pad>` and `</s>`; by default fairseq's.
    """
    options, words = model.options, model.target
    config = {
        "model_type": kind,
        "architectures": [architecture],
        "d_model": options.encoder_embed_dim,
        "activation_function": ACTIVATIONS[getattr(options, "activation_fn", "relu")],
        "scale_embedding": not getattr(options, "no_scale_embedding", False),
        "max_position_embeddings": max(model.lengths),
        "is_encoder_decoder": True,
        "dtype": "float32",
        "pad_token_id": words.pad() if pad is None else pad,
        "eos_token_id": words.eos() if end is None else end,
        "decoder_start_token_id": start,
    }
    for stack in STACKS:
        config[f"{stack}_layers"] = len(layer_numbers(model.weights, stack))
        config[f"{stack}_ffn_dim"] = getattr(options, f"{stack}_ffn_embed_dim")
        config[f"{stack}_attention_heads"] = getattr(options, f"{stack}_attention_heads")
        config[f"{stack}_layerdrop"] = 0.0
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        config[name] = float(getattr(options, name, None) or 0)
    return config | more


def layer_numbers(weights: Iterable[str], stack: str) -> set[str]:
    """The numbers of a stack's layers, in the names of its tensors."""
    return {name.split(".")[2] for name in weights if name.startswith(f"{stack}.layers.")}
