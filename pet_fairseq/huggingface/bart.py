"""Import of BART and mBART as fairseq's `bart`."""

from collections.abc import Iterator
from itertools import chain
from typing import Optional

from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.bert import ACTIVATIONS
from pet_fairseq.huggingface.classification_heads import (
    CLASSES,
    HEAD,
    classifier_task,
    is_classifier,
)
from pet_fairseq.huggingface.encoder_decoder import (
    BIAS,
    PRE_NORM,
    SUFFIXES,
    dictionary_files,
    norm_parts,
    position_limits,
    shared_tensors,
    size_options,
    translation_task,
)
from pet_fairseq.huggingface.source import Config, Source, Weights
from pet_fairseq.huggingface.text_pieces import MASK, TextPieces, choose_pair, read_text_pieces
from pet_fairseq.huggingface.tokenizer_file import OPTIONS, read_options
from pet_fairseq.huggingface.vocabulary import FIRST, make_vocabulary
from pet_fairseq.huggingface.writer import Import
from pet_fairseq.multilingual.language_tokens import END, LanguageTokens

MBART = "mbart"  # the model_type whose layers are pre-norm, with a norm after the last one
# architectures without and with language tokens, by whether embeddings are scaled
ARCHS = {False: ("bart_large", "bilingual_bart"), True: ("mbart_large", "bilingual_mbart")}
CLASS_HEAD = {"dense": f"{HEAD}.dense", "out_proj": f"{HEAD}.out_proj"}


def read_bart(source: Source) -> Import:
    """Describe a BART or mBART to the writer.

    Raises:
        UserError: options or files that do not fit.
    """
    config = source.config
    config.refuse(tie_word_embeddings=True, pad_token_id=1)
    config.check_head("ConditionalGeneration", CLASSES)
    weights = source.weights.renamed(lambda name: name.removeprefix("model."))
    if BIAS in weights and weights[BIAS].any():
        raise UserError(f"{weights.path}: {BIAS} is not 0, and fairseq's bart has no such bias")
    text = read_text_pieces(source)
    special = {word: text.numbers.get(word) for word in FIRST}
    rows = config.size("vocab_size")
    vocabulary = make_vocabulary(known_pieces(text, rows), rows, special, text.path)
    positions = config.size("max_position_embeddings")
    pre_norm = config["model_type"] == MBART
    has_class_head = is_classifier(source)
    bilingual = bool(source.languages)
    arch = bart_options(config, bilingual, pre_norm)
    if not (pre_norm and (has_class_head or bilingual)):  # these start from other words
        config.refuse(decoder_start_token_id=special[END])
    if has_class_head:
        if bilingual:
            raise UserError(f"{config.path}: is of a classifier; leave the languages out")
        outputs = len(weights["classification_head.out_proj.bias"])
        task, files = classifier_task(source, outputs, separators=2, vocabulary=vocabulary)
        task.append("--add-prev-output-tokens")
        arch += ["--max-positions", str(positions)]
    else:
        languages = choose_pair(source, text) if bilingual else SUFFIXES
        if bilingual:
            tokens = (text.languages[language] for language in languages)
            arch += mbart_tokens(source, *tokens).command_words()
        task, files = translation_task(*languages), dictionary_files(languages, vocabulary)
    parts = ["embed_positions.weight", *norm_parts("layernorm_embedding")]
    parts += norm_parts("layer_norm") if pre_norm else []
    tensors = shared_tensors(weights, config, vocabulary, parts)
    return Import(
        task,
        arch + position_limits(positions),
        files,
        chain(tensors, head_tensors(weights)) if has_class_head else tensors,
        f"{len(vocabulary):,} words" + (", with a head for classes" if has_class_head else ""),
        text.write,
        text.options,
    )


def bart_options(config: Config, bilingual: bool, pre_norm: bool) -> list[str]:
    """The options of the architecture, its sizes and its layers."""
    options = ["--arch", ARCHS[bool(config.get("scale_embedding"))][bilingual]]
    options += size_options(config)
    options += ["--activation-fn", config.choose("activation_function", ACTIVATIONS)]
    return [*options, *(PRE_NORM if pre_norm else ())]


def known_pieces(text: TextPieces, rows: int) -> list[Optional[str]]:
    """The tokenizer's pieces; BARTs trained on summaries have no row for the last one, <mask>."""
    pieces = text.in_order()
    return pieces[:rows] if pieces[rows:] == [MASK] else pieces


def head_tensors(weights: Weights) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of the head for classes under fairseq's names."""
    for theirs, ours in CLASS_HEAD.items():
        for kind in ("weight", "bias"):
            yield f"{ours}.{kind}", weights[f"classification_head.{theirs}.{kind}"]


def mbart_tokens(source: Source, source_token: str, target_token: str) -> LanguageTokens:
    """What an mBART for translation reads around sentences.

    mBART-50 has language tokens in front, the older mBART behind; the tokenizer's class says which
    it is, or else the word from which the decoder starts.
    """
    config = source.config
    options = read_options(source.folder / OPTIONS)
    kind = str(options.get("tokenizer_class") or config.get("tokenizer_class"))
    starts_from_end = config.get("decoder_start_token_id") in (None, config.get("eos_token_id", 2))
    if "MBart50" in kind or ("MBart" not in kind and starts_from_end):
        return LanguageTokens((source_token,), (END,), (END, target_token))
    return LanguageTokens((), (END, source_token), (target_token,))
