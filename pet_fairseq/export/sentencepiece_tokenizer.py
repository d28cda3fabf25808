"""What segments text in a tokenizer.json as a SentencePiece model does."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from pet_fairseq.byte_pieces import SPACE
from pet_fairseq.export.tokenizer_words import (
    UNMARK,
    NoTokenizerError,
    Segmentation,
    Words,
    whole_token,
)
from pet_fairseq.huggingface.gguf_tokenizer import merges_by_score, numbered
from pet_fairseq.huggingface.tokenizer_file import MARK
from pet_fairseq.huggingface.vocabulary import FIRST
from pet_fairseq.multilingual.subword_restriction import read_sentencepiece
from pet_fairseq.predict.onnx_model import LANGUAGE_TOKEN

BEGIN, UNKNOWN = FIRST[0], FIRST[-1]
UNIGRAM, BPE = 1, 2  # SentencePiece's kinds of models
NORMAL, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 3, 4, 5, 6  # and of pieces
SPACES = 1_000  # that are left out at an end of a translation, at most


@dataclass(frozen=True)
class Pieces:
    """The pieces of a SentencePiece model that text may become, beside the words of a source."""

    pieces: frozenset[str]
    sources: Sequence[str]

    def is_text(self, word: str) -> bool:
        """Whether a text may become a word of the source, or the model has to know its name.

        SentencePiece leaves characters that it has no pieces for as they are, in runs: one of these
        may be a word, too.
        """
        if word in FIRST:
            return word != BEGIN
        return word in self.pieces or word in self.runs or bool(LANGUAGE_TOKEN.fullmatch(word))

    @cached_property
    def characters(self) -> frozenset[str]:
        """Those that have pieces."""
        return frozenset(piece for piece in self.pieces if len(piece) == 1)

    @cached_property
    def runs(self) -> frozenset[str]:
        """The words of the source that have none of these characters."""
        words = set(self.sources) - set(FIRST)
        return frozenset(word for word in words if self.characters.isdisjoint(word))


def of_sentencepiece(model: Path, sources: Sequence[str], targets: Sequence[str]) -> Segmentation:
    """What segments text as a SentencePiece model does.

    Raises:
        NoTokenizerError: nothing does.
    """
    proto = read_sentencepiece(model, "--segmentation", "give one")
    check_model(proto)
    pieces = Pieces(frozenset(p.piece for p in proto.pieces if p.type in (NORMAL, BYTE)), sources)
    texts = frozenset(filter(pieces.is_text, sources))
    words = Words(sources, targets, texts, sorted(pieces.pieces - set(sources)))
    languages = [word for word in words.all if LANGUAGE_TOKEN.fullmatch(word)]
    return Segmentation(
        words,
        [whole_token(word) | {"special": False} for word in languages],
        {
            "normalizer": normalizer(proto, pieces),
            "pre_tokenizer": pre_tokenizer(proto, pieces),
            "decoder": decoder(proto.trainer_spec.byte_fallback),
            "model": MODELS[proto.trainer_spec.model_type](proto, pieces, words),
        },
    )


def check_model(proto: Any) -> None:
    """Raise NoTokenizerError for what the library tokenizers lacks, or does in another way."""
    kinds = {piece.type for piece in proto.pieces}
    trained, normalised = proto.trainer_spec, proto.normalizer_spec
    if trained.model_type not in MODELS:
        raise NoTokenizerError("the SentencePiece model is neither unigram nor bpe")
    if trained.model_type == BPE and UNUSED in kinds:
        raise NoTokenizerError("the SentencePiece model, of the kind bpe, has pieces taken out")
    if USER_DEFINED in kinds:
        raise NoTokenizerError("the SentencePiece model has user-defined symbols")
    if trained.treat_whitespace_as_suffix or not normalised.escape_whitespaces:
        raise NoTokenizerError("the SentencePiece model does not mark spaces before words")


def normalizer(proto: Any, pieces: Pieces) -> Optional[dict[str, Any]]:
    """What SentencePiece does with a text before it segments it.

    transformers.js does not read the table of characters, but normalises by NFKC where there is
    one, and has to be told of lower case.

    Of a run of characters without pieces, what the source has no word for becomes one character:
    else each that is a word by itself would be known.
    """
    spec = proto.normalizer_spec
    steps: list[dict[str, Any]] = []
    if spec.precompiled_charsmap:
        table = base64.b64encode(spec.precompiled_charsmap).decode("ascii")
        steps = [{"type": "Lowercase"}] if spec.name.endswith("_cf") else []
        steps.append({"type": "Precompiled", "precompiled_charsmap": table})
    if spec.remove_extra_whitespaces:
        steps += [replace("^ +| +$", ""), replace(" {2,}", " ")]
    if pieces.runs and not proto.trainer_spec.byte_fallback:
        other = other_characters(pieces)
        known = "|".join(map(escape, sorted(pieces.runs)))
        steps.append(replace(f"(?<!{other})(?!(?:{known})(?!{other})){other}+", MARK))
    return {"type": "Sequence", "normalizers": steps} if steps else None


def pre_tokenizer(proto: Any, pieces: Pieces) -> dict[str, Any]:
    """What marks the spaces; and sets runs of characters without pieces apart, whole words."""
    spaces = {
        "type": "Metaspace",
        "replacement": SPACE,
        "prepend_scheme": "always" if proto.normalizer_spec.add_dummy_prefix else "never",
        "split": False,
    }
    if not pieces.runs or proto.trainer_spec.byte_fallback:
        return spaces
    runs = {"Regex": f"{other_characters(pieces)}+"}
    split = {"type": "Split", "pattern": runs, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [spaces, split]}


def other_characters(pieces: Pieces) -> str:
    """A pattern of one character without a piece, and no space."""
    return f"[^ {''.join(map(escape, sorted(pieces.characters | {SPACE})))}]"


def escape(text: str) -> str:
    """A text as a pattern, of JavaScript's as well, which wants no other character escaped."""
    return re.sub(r"[\\^$.*+?()\[\]{}|/-]", r"\\\g<0>", text)


def replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def decoder(has_bytes: bool) -> dict[str, Any]:
    """What makes a text of words: as fairseq's sentencepiece, no spaces are at its ends."""
    return {
        "type": "Sequence",
        "decoders": [
            UNMARK,
            *([{"type": "ByteFallback"}] if has_bytes else []),
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": SPACES, "stop": SPACES},
        ],
    }


def unigram(proto: Any, _: Pieces, words: Words) -> dict[str, Any]:
    """The likeliest segmentation; words that are no pieces are never shorter than its parts."""
    scores = {p.piece: p.score for p in proto.pieces if p.type == NORMAL}
    return {
        "type": "Unigram",
        "unk_id": words.first + words.sources.index(UNKNOWN),
        "vocab": [[word, scores.get(word, 0.0)] for word in words.all],
        "byte_fallback": proto.trainer_spec.byte_fallback,
    }


def bpe(proto: Any, pieces: Pieces, words: Words) -> dict[str, Any]:
    """Pairs of pieces become one, those whose piece has the highest score first."""
    merged = [p for p in proto.pieces if p.type == NORMAL]
    merges = merges_by_score([p.piece for p in merged], [p.score for p in merged])
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": UNKNOWN,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": proto.trainer_spec.byte_fallback,
        "ignore_merges": bool(pieces.runs),  # runs are words without being merged
        "vocab": numbered(words.all),
        "merges": [list(pair) for pair in merges],
    }


MODELS = {UNIGRAM: unigram, BPE: bpe}
