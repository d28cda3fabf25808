"""Import of T5, mT5 and umT5 as `--arch t5`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.encoder_decoder import (
    SUFFIXES,
    dictionary_files,
    position_limits,
    translation_task,
)
from pet_fairseq.huggingface.source import Config, Source, Weights
from pet_fairseq.huggingface.tokenizer_file import (
    OPTIONS,
    TEXT_OPTIONS,
    TOKENIZER,
    TokenizerFile,
    add_tokens,
    library,
    read_options,
)
from pet_fairseq.huggingface.vocabulary import FIRST, Vocabulary, make_vocabulary
from pet_fairseq.huggingface.writer import Import, option_words
from pet_fairseq.multilingual.subword_restriction import read_sentencepiece
from pet_fairseq.nn.relative_bias import RelativeBias

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SENTENCE_PIECES = "spiece.model"
SENTINEL, SENTINELS = "<extra_id_{}>", 100  # the name of one, and how many T5's tokenizer adds
LENGTH = 1024  # T5's positions have no end, but fairseq wants one
# the model types whose layers each have a bias by distance, and whose output is never scaled
BIAS_PER_LAYER, NEVER_SCALED = "umt5", "mt5"
GATED = "--gated-ffn"
FEED_FORWARD = {
    "relu": ["--activation-fn", "relu"],
    "gelu": ["--activation-fn", "gelu"],
    "gelu_new": ["--activation-fn", "gelu_accurate"],
    "gated-relu": [GATED, "--activation-fn", "relu"],
    "gated-gelu": [GATED, "--activation-fn", "gelu_accurate"],
    "gated-gelu_new": [GATED, "--activation-fn", "gelu_accurate"],
}
ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
# the parts of a layer in their order: their names, and those of their norms in fairseq
SELF, CROSS = ("SelfAttention", "self_attn"), ("EncDecAttention", "encoder_attn")
STACKS = {"encoder": (SELF,), "decoder": (SELF, CROSS)}
BUCKETS, MAX_DISTANCE = "relative_attention_num_buckets", "relative_attention_max_distance"
OUTPUT, INPUT = "lm_head.weight", "shared.weight"
BIAS = "relative_attention_bias.weight"


def read_t5(source: Source) -> Import:
    """Describe a T5 to the writer.

    Raises:
        UserError: options or files that do not fit.
    """
    config, weights = source.config, source.weights
    config.check_head("ConditionalGeneration")
    config.refuse(decoder_start_token_id=config["pad_token_id"])
    check_stacks(weights)
    check_buckets(config)
    text = read_text(source)
    rows = config.size("vocab_size")
    special = {word: text.number(word) for word in FIRST} | special_rows(config, rows)
    vocabulary = make_vocabulary(text.pieces(), rows, special, text.path)
    tied = OUTPUT not in weights or torch.equal(weights[OUTPUT], weights[INPUT])
    per_layer = config["model_type"] == BIAS_PER_LAYER
    arch = ["--arch", "t5", *size_options(config)]
    arch += config.choose("feed_forward_proj", FEED_FORWARD)
    arch += ["--relative-bias-per-layer"] if per_layer else []
    arch += ["--share-all-embeddings"] if tied else []
    arch += ["--scale-output"] if is_output_scaled(config) else []
    return Import(
        translation_task(*SUFFIXES),
        arch + position_limits(LENGTH),
        dictionary_files(SUFFIXES, vocabulary),
        t5_tensors(weights, config, vocabulary, tied, per_layer),
        f"{len(vocabulary):,} words{widened(weights)}",
        text.write,
        TEXT_OPTIONS,
    )


def check_stacks(weights: Weights) -> None:
    """Raises UserError for files with one stack only, such as those of T5EncoderModel."""
    if not any(name.startswith("decoder.block.") for name in weights):
        raise UserError(
            f"{weights.path}: has an encoder without a decoder, which makes no text; give the "
            "files of a model for text, such as T5ForConditionalGeneration"
        )


def special_rows(config: Config, rows: int) -> dict[str, int]:
    """The rows of the words that pad and end a text. Raises UserError if there are none such."""
    found = {}
    for word, name in (("<pad>", "pad_token_id"), ("</s>", "eos_token_id")):
        found[word] = config.size(name, least=0)
        if found[word] >= rows:
            raise UserError(
                f"{config.path}: {name} is {found[word]}, but the model has {rows:,} words; give "
                "the number of one of them there"
            )
    return found


def check_buckets(config: Config) -> None:
    """Raises UserError for a number of buckets, or a largest distance, that cannot be."""
    buckets, max_distance = config.size(BUCKETS), config.size(MAX_DISTANCE)
    try:
        for both_ways in (True, False):
            RelativeBias(1, buckets, max_distance, both_ways)
    except UserError as error:
        raise UserError(f"{config.path}: {error}") from error


def is_output_scaled(config: Config) -> bool:
    """Whether the output layer's input is divided by sqrt(d_model).

    So it is in T5 1.0, where tie_word_embeddings tells it from later models; transformers 5 writes
    the answer itself.
    """
    if config["model_type"] == NEVER_SCALED:
        return False
    tied = config.get("tie_word_embeddings") is not False
    return bool(config.get("scale_decoder_outputs", tied))


def widened(weights: Weights) -> str:
    """What the terminal says of numbers in half precision."""
    dtype = weights.readers["decoder.final_layer_norm.weight"]().dtype
    kind = str(dtype).removeprefix("torch.")
    return "" if dtype == torch.float32 else f", {kind} made float32"


def size_options(config: Config) -> list[str]:
    """The options of both stacks' sizes and of their positions."""
    layers = config.size("num_layers")
    decoder_layers = config.size("num_decoder_layers") if config.get("num_decoder_layers") else 0
    sizes: dict[str, object] = {}
    for stack, number in (("encoder", layers), ("decoder", decoder_layers or layers)):
        sizes |= {
            f"--{stack}-layers": number,
            f"--{stack}-embed-dim": config.size("d_model"),
            f"--{stack}-ffn-embed-dim": config.size("d_ff"),
            f"--{stack}-attention-heads": config.size("num_heads"),
        }
    sizes |= {
        "--attention-head-dim": config.size("d_kv"),
        "--relative-buckets": config.size(BUCKETS),
        "--relative-max-distance": config.size(MAX_DISTANCE),
        "--rms-norm-eps": config["layer_norm_epsilon"],
    }
    return option_words(sizes)


def t5_tensors(
    weights: Weights, config: Config, vocabulary: Vocabulary, tied: bool, per_layer: bool
) -> Iterator[tuple[str, Tensor]]:
    """Yield T5's tensors under fairseq's names.

    Args:
        tied: whether the output layer is the embedding matrix.
        per_layer: whether each layer has a bias by distance, and not only the first.
    """
    yield "encoder.embed_tokens.weight", vocabulary.take(weights[INPUT])
    if not tied:
        yield "decoder.output_projection.weight", vocabulary.take(weights[OUTPUT])
    yield "decoder.output_projection.bias", vocabulary.bias
    for stack, attentions in STACKS.items():
        yield f"{stack}.layer_norm.weight", weights[f"{stack}.final_layer_norm.weight"]
        layers = config.get(f"num_{stack}_layers") or config.size("num_layers")
        for i in range(layers):
            old, new = f"{stack}.block.{i}.layer", f"{stack}.layers.{i}"
            for j, (theirs, ours) in enumerate(attentions):
                yield f"{new}.{ours}_layer_norm.weight", weights[f"{old}.{j}.layer_norm.weight"]
                for name, projection in ATTENTION.items():
                    tensor = weights[f"{old}.{j}.{theirs}.{name}.weight"]
                    yield f"{new}.{ours}.{projection}.weight", tensor
            if per_layer or i == 0:
                tensor = weights[f"{old}.0.{SELF[0]}.{BIAS}"]
                yield f"{new}.{SELF[1]}.relative.weight", tensor
            yield from feed_forward_tensors(weights, f"{old}.{len(attentions)}", new)


def feed_forward_tensors(weights: Weights, old: str, new: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a layer's feed-forward network; a gate and its factor become one."""
    yield f"{new}.final_layer_norm.weight", weights[f"{old}.layer_norm.weight"]
    ffn = f"{old}.DenseReluDense"
    names = ("wi_0", "wi_1") if f"{ffn}.wi_0.weight" in weights else ("wi",)
    yield f"{new}.fc1.weight", torch.cat([weights[f"{ffn}.{name}.weight"] for name in names])
    yield f"{new}.fc2.weight", weights[f"{ffn}.wo.weight"]


# --- text -----------------------------------------------------------------------------------------


def read_text(source: Source) -> TokenizerFile:
    """The folder's tokenizer.json, or one that is made from its SentencePiece model.

    Raises:
        UserError: neither is there, or one that is not readable.
    """
    model = source.folder / SENTENCE_PIECES
    if (source.folder / TOKENIZER).is_file():
        return source.tokenizer
    if not model.is_file():
        raise UserError(f"{model}: no such file, nor {TOKENIZER}; download one of these too")
    return sentence_tokenizer(model)


def sentence_tokenizer(path: Path) -> TokenizerFile:
    """The tokenizer that transformers makes of T5's SentencePiece model, with its sentinels.

    Raises:
        UserError: not a unigram model of SentencePiece, or tokenizer_config.json does not fit.
    """
    model, options = read_sentence_model(path), read_options(path.with_name(OPTIONS))
    try:
        tokenizer = unigram_tokenizer(model)
    except Exception as error:  # tokenizers raises plain Exception
        raise UserError(f"{path}: not usable ({error}); download it again") from error
    kinds = type(model).SentencePiece
    whole = (kinds.CONTROL, kinds.UNKNOWN, kinds.USER_DEFINED)
    special = {piece.piece: i for i, piece in enumerate(model.pieces) if piece.type in whole}
    if "added_tokens_decoder" not in options:
        has_own = any("extra_id_" in piece.piece for piece in model.pieces)  # as mT5's
        count = options.get("extra_ids", 0 if has_own else SENTINELS)
        first = len(model.pieces)
        special |= {SENTINEL.format(count - 1 - i): first + i for i in range(count)}
    add_tokens(tokenizer, path, options, special)
    return TokenizerFile(tokenizer, path, options)


def unigram_tokenizer(model) -> "Tokenizer":
    """A tokenizer with the pieces of a SentencePiece model, as transformers makes it for T5."""
    tokenizers = library()
    pieces = [(piece.piece, piece.score) for piece in model.pieces]
    has_bytes = model.trainer_spec.byte_fallback
    unigram = tokenizers.models.Unigram(pieces, model.trainer_spec.unk_id, has_bytes)
    tokenizer = tokenizers.Tokenizer(unigram)
    characters = model.normalizer_spec.precompiled_charsmap
    if characters:
        tokenizer.normalizer = tokenizers.normalizers.Precompiled(characters)
    pre, decoders = tokenizers.pre_tokenizers, tokenizers.decoders
    tokenizer.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()])
    bytes_first = [decoders.ByteFallback()] if has_bytes else []
    tokenizer.decoder = decoders.Sequence([*bytes_first, decoders.Metaspace()])
    return tokenizer


def read_sentence_model(path: Path):
    """The contents of a SentencePiece model. Raises UserError if it is none of unigrams."""
    model = read_sentencepiece(path)
    if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM or not model.pieces:
        raise UserError(
            f"{path}: a SentencePiece model of another type than unigram, which T5's is; give the "
            f"model's {TOKENIZER}"
        )
    return model
