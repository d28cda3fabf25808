"""tokenizer.json of a translation model whose words are pieces of SentencePiece.

transformers.js reads no other subword model. A tokenizer.json has one vocabulary, from
which text gets its numbers and to which translations are turned back; a translation model has two
dictionaries, and its SentencePiece model may have pieces that neither of them has. So the words of
the target come first, then those of the source unless both have the same, then the other pieces,
which the model does not know.
"""

import base64
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Optional

from pet_fairseq.byte_pieces import SPACE
from pet_fairseq.files import write_text
from pet_fairseq.huggingface.gguf_tokenizer import merges_by_score, numbered
from pet_fairseq.huggingface.tokenizer_file import TOKENIZER
from pet_fairseq.huggingface.vocabulary import FIRST
from pet_fairseq.multilingual.subword_restriction import read_sentencepiece
from pet_fairseq.predict.onnx_model import LANGUAGE_TOKEN

BEGIN, PAD, END, UNKNOWN = FIRST
# before a word that no text becomes: no character of any text, and left out of translations
MARK = "\uffff"
UNIGRAM, BPE = 1, 2  # SentencePiece's kinds of models
NORMAL, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 3, 4, 5, 6  # and of pieces
SPACES = 1_000  # that are left out at an end of a translation, at most


class NoTokenizerError(Exception):
    """tokenizer.json cannot segment text as SentencePiece does; the message says why."""


@dataclass(frozen=True)
class Words:
    """The words of a tokenizer.json in the order of their numbers.

    Args:
        sources, targets: the dictionaries. pieces: of the SentencePiece model.
    """

    sources: Sequence[str]
    targets: Sequence[str]
    pieces: frozenset[str]

    @property
    def first(self) -> int:
        """The number of the first word of the source."""
        return 0 if self.sources == self.targets else len(self.targets)

    @cached_property
    def all(self) -> list[str]:
        targets = [MARK + word for word in self.targets[: self.first]]
        known = set(self.sources)
        sources = [word if self.is_text(word) else MARK + word for word in self.sources]
        return [*targets, *sources, *sorted(self.pieces - known)]

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

    def source(self, number: int) -> str:
        """The name of a word of the source."""
        return self.all[self.first + number]


class TokenizerJson(NamedTuple):
    """The content of tokenizer.json, and the number in it of the first word of the source."""

    content: dict[str, Any]
    first: int

    def write(self, folder: Path) -> None:
        """Write it without the spaces that JSON may have: a browser fetches it."""
        text = json.dumps(self.content, ensure_ascii=False, separators=(",", ":"))
        write_text(folder / TOKENIZER, text)


def make_tokenizer(
    model: Path,
    dictionaries: tuple[Sequence[str], Sequence[str]],
    around: tuple[Sequence[int], Sequence[int]],
    start: Sequence[int],
) -> TokenizerJson:
    """A tokenizer.json.

    Args:
        model: SentencePiece's. dictionaries: the words of source and target.
        around: the numbers of the words before and behind a sentence, in the source's dictionary.
        start: those from which the decoder starts, in the target's.
    Raises:
        NoTokenizerError: it would segment text in another way.
    """
    proto = read_sentencepiece(model, "--segmentation", "give one")
    check_model(proto)
    words = Words(*dictionaries, pieces_of(proto))
    before, behind = ([words.source(number) for number in numbers] for numbers in around)
    hidden = {words.first + words.sources.index(word) for word in (PAD, END)}
    hidden |= {words.targets.index(word) for word in (BEGIN, PAD, END)} | set(start)
    hidden |= {words.all.index(word) for word in (*before, *behind)}
    languages = [w for w in words.all if LANGUAGE_TOKEN.fullmatch(w)]
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            *(added(number, words.all[number], True) for number in sorted(hidden)),
            *(added(words.all.index(word), word, False) for word in languages),
        ],
        "normalizer": normalizer(proto, words),
        "pre_tokenizer": pre_tokenizer(proto, words),
        "post_processor": post_processor(before, behind, numbered(words.all)),
        "decoder": decoder(proto.trainer_spec.byte_fallback),
        "model": MODELS[proto.trainer_spec.model_type](proto, words),
    }
    return TokenizerJson(content, words.first)


def pieces_of(proto: Any) -> frozenset[str]:
    """The pieces that text may become."""
    return frozenset(p.piece for p in proto.pieces if p.type in (NORMAL, BYTE))


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


def added(number: int, word: str, is_special: bool) -> dict[str, Any]:
    """A word that is never split; special ones are left out of translations."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": word, **flags, "special": is_special}


def normalizer(proto: Any, words: Words) -> Optional[dict[str, Any]]:
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
    if words.runs and not proto.trainer_spec.byte_fallback:
        other = other_characters(words)
        known = "|".join(map(escape, sorted(words.runs)))
        steps.append(replace(f"(?<!{other})(?!(?:{known})(?!{other})){other}+", MARK))
    return {"type": "Sequence", "normalizers": steps} if steps else None


def pre_tokenizer(proto: Any, words: Words) -> dict[str, Any]:
    """What marks the spaces; and sets runs of characters without pieces apart, whole words."""
    spaces = {
        "type": "Metaspace",
        "replacement": SPACE,
        "prepend_scheme": "always" if proto.normalizer_spec.add_dummy_prefix else "never",
        "split": False,
    }
    if not words.runs or proto.trainer_spec.byte_fallback:
        return spaces
    runs = {"Regex": f"{other_characters(words)}+"}
    split = {"type": "Split", "pattern": runs, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [spaces, split]}


def other_characters(words: Words) -> str:
    """A pattern of one character without a piece, and no space."""
    return f"[^ {''.join(map(escape, sorted(words.characters | {SPACE})))}]"


def escape(text: str) -> str:
    """A text as a pattern, of JavaScript's as well, which wants no other character escaped."""
    return re.sub(r"[\\^$.*+?()\[\]{}|/-]", r"\\\g<0>", text)


def replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def post_processor(
    before: Iterable[str], behind: Iterable[str], numbers: dict[str, int]
) -> dict[str, Any]:
    """What puts words around a sentence."""

    def special(word: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": word, "type_id": 0}}

    def sequence(name: str) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": 0}}

    before, behind = list(before), list(behind)
    around = [[special(word) for word in words] for words in (before, behind)]
    return {
        "type": "TemplateProcessing",
        "single": [*around[0], sequence("A"), *around[1]],
        "pair": [*around[0], sequence("A"), sequence("B"), *around[1]],
        "special_tokens": {
            word: {"id": word, "ids": [numbers[word]], "tokens": [word]}
            for word in (*before, *behind)
        },
    }


def decoder(has_bytes: bool) -> dict[str, Any]:
    """What makes a text of words: as fairseq's sentencepiece, no spaces are at its ends."""
    return {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": MARK}, "content": ""},
            *([{"type": "ByteFallback"}] if has_bytes else []),
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": SPACES, "stop": SPACES},
        ],
    }


def unigram(proto: Any, words: Words) -> dict[str, Any]:
    """The likeliest segmentation; words that are no pieces are never shorter than its parts."""
    scores = {p.piece: p.score for p in proto.pieces if p.type == NORMAL}
    return {
        "type": "Unigram",
        "unk_id": words.first + words.sources.index(UNKNOWN),
        "vocab": [[word, scores.get(word, 0.0)] for word in words.all],
        "byte_fallback": proto.trainer_spec.byte_fallback,
    }


def bpe(proto: Any, words: Words) -> dict[str, Any]:
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
        "ignore_merges": bool(words.runs),  # runs are words without being merged
        "vocab": numbered(words.all),
        "merges": [list(pair) for pair in merges],
    }


MODELS = {UNIGRAM: unigram, BPE: bpe}
