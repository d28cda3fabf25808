"""Import of FSMT, fairseq's translation models of WMT'19 and others, as `--arch transformer`."""

from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor

from pet_fairseq.errors import UserError, option_of
from pet_fairseq.files import read_lines
from pet_fairseq.huggingface.bert import ACTIVATIONS
from pet_fairseq.huggingface.encoder_decoder import (
    BilingualText,
    dictionary_files,
    layer_tensors,
    position_limits,
    read_pieces,
    size_options,
    translation_task,
)
from pet_fairseq.huggingface.marian import read_sentence_text
from pet_fairseq.huggingface.source import Config, Source, Weights, require_file
from pet_fairseq.huggingface.tokenizer_file import (
    JSON_TOKENIZERS,
    MERGES,
    OPTIONS,
    read_options,
)
from pet_fairseq.huggingface.vocabulary import FIRST, Vocabulary
from pet_fairseq.huggingface.writer import Import
from pet_fairseq.multilingual.language_tokens import check_language
from pet_fairseq.multilingual.subword_restriction import VERSION, piece_of

SOURCE_PIECES, TARGET_PIECES = "vocab-src.json", "vocab-tgt.json"
CODES = "bpe.codes"
BPE_TOKENIZER, SENTENCE_TOKENIZER = "FSMTTokenizer", "MarianTokenizer"
POSITIONS_ROUNDED = 1e-2  # in bfloat16
INPUT, OUTPUT = "decoder.embed_tokens.weight", "decoder.output_projection.weight"


def read_fsmt(source: Source) -> Import:
    """Describe an FSMT to the writer.

    Raises:
        UserError: options or files that do not fit.
    """
    config = source.config
    config.refuse(pad_token_id=FIRST.index("<pad>"))
    config.refuse(eos_token_id=FIRST.index("</s>"), decoder_start_token_id=FIRST.index("</s>"))
    text = read_bilingual_text(source, config.size("src_vocab_size"), config.size("tgt_vocab_size"))
    languages, (words, target_words) = text.languages, text.vocabularies
    weights = source.weights.renamed(lambda name: name.removeprefix("model."))
    check_positions(weights)
    tied = OUTPUT not in weights or torch.equal(weights[INPUT], weights[OUTPUT])
    arch = ["--arch", "transformer", *size_options(config)]
    arch += ["--activation-fn", config.choose("activation_function", ACTIVATIONS)]
    arch += ["--share-decoder-input-output-embed"] if tied else []
    arch += [] if config["scale_embedding"] else ["--no-scale-embedding"]
    return Import(
        translation_task(*languages),
        arch + position_limits(config.size("max_position_embeddings")),
        dictionary_files(languages, words, target_words),
        fsmt_tensors(weights, config, words, target_words, tied),
        f"{len(words):,} and {len(target_words):,} words, {' to '.join(languages)}",
        text.write,
        text.options,
    )


def read_bilingual_text(source: Source, rows: int, target_rows: int) -> BilingualText:
    """Read FSMTTokenizer's files, or those of another one that tokenizer_config.json names.

    Args:
        rows, target_rows: of the matrices of source and target words.
    Raises:
        UserError: files that are missing, or do not fit the model.
    """
    path = source.folder / OPTIONS
    options = Config(read_options(path), path)
    if options.get("tokenizer_class") in (SENTENCE_TOKENIZER, *JSON_TOKENIZERS):
        return read_sentence_text(source, rows, target_rows)
    options.refuse(do_lower_case=False)
    languages, pad = read_languages(source), source.config["pad_token_id"]
    words, target_words = (
        read_pieces(source.folder / name, size, pad, word_of)
        for name, size in ((SOURCE_PIECES, rows), (TARGET_PIECES, target_rows))
    )
    codes = read_codes(source.folder / MERGES)
    return BilingualText(
        languages,
        (words, target_words),
        lambda folder: (folder / CODES).write_text(codes, encoding="utf-8"),
        ["--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", f"{{}}/{CODES}"],
    )


def read_languages(source: Source) -> tuple[str, str]:
    """The languages in config.json, or in tokenizer_config.json.

    Raises:
        UserError: there are none, or the user chose others.
    """
    config = Config(read_options(source.folder / OPTIONS) | source.config, source.config.path)
    languages = config["langs"]
    if not isinstance(languages, list) or not len(set(map(str, languages))) == len(languages) == 2:
        raise UserError(f"{config.path}: langs is {languages!r}, not two languages")
    for name, language in zip(("source_lang", "target_lang"), languages):
        check_language(
            option_of(name), source.languages.get(name, language), [language], config.path
        )
    return languages[0], languages[1]


def check_positions(weights: Weights) -> None:
    """Raises UserError if positions are stored, as newer files have them, and were trained."""
    for stack in ("encoder", "decoder"):
        stored = weights.get(f"{stack}.embed_positions.weight")
        if stored is None:
            continue
        sinusoids = SinusoidalPositionalEmbedding.get_embedding(*stored.shape, FIRST.index("<pad>"))
        if not torch.allclose(stored, sinusoids, atol=POSITIONS_ROUNDED):
            raise UserError(
                f"{weights.path}: the {stack}'s positions are no sinusoids, as fairseq's "
                "transformer has them"
            )


def word_of(symbol: str) -> str:
    """fairseq's word for one of FSMT's, which are subword-nmt's symbols."""
    return symbol if symbol in FIRST else piece_of(symbol)


def read_codes(path: Path) -> str:
    """The codes of merges.txt as subword-nmt reads them: two pieces a line, without counts.

    Raises:
        UserError: there is no such file, or a line has less than two pieces.
    """
    lines = read_lines(require_file(path), "FOLDER")
    merges = [line.split()[:2] for line in lines if line and not line.startswith("#version")]
    if any(len(merge) < 2 for merge in merges):
        raise UserError(f"{path}: has a line without two pieces; download it again")
    return "".join(f"{line}\n" for line in (VERSION, *map(" ".join, merges)))


def fsmt_tensors(
    weights: Weights, config: Config, source: Vocabulary, target: Vocabulary, tied: bool
) -> Iterator[tuple[str, Tensor]]:
    """Yield FSMT's tensors under fairseq's names.

    Args:
        tied: whether the output projection is the decoder's embedding matrix.
    """
    own = "encoder.embed_tokens.weight"
    yield own, source.take(weights[own if own in weights else INPUT])
    yield INPUT, target.take(weights[INPUT])
    if not tied:
        yield OUTPUT, target.take(weights[OUTPUT])
    yield from layer_tensors(weights, config)
