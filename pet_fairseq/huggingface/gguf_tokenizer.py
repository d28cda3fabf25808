"""Making a tokenizer of the library `tokenizers` from the one that a GGUF file describes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pet_fairseq.byte_pieces import SPACE
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.source import Config
from pet_fairseq.huggingface.tokenizer_file import (
    TOKENIZER,
    TokenizerFile,
    library,
    load_tokenizer,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL, WHOLE = 3, 4  # token types of pieces that are never split: <|im_start|>; <think>
BYTES, SENTENCES = "gpt2", "llama"  # tokenizer.ggml.model: byte-level BPE, or SentencePiece's
DIGITS = {"llama-bpe": "{1,3}", "qwen2": ""}  # how many digits stay together
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = ("gpt-2", "smollm", *DIGITS)  # tokenizer.ggml.pre: how text is split before bytes merge


def gguf_tokenizer(fields: dict, path: Path) -> TokenizerFile:
    """The tokenizer.json beside a GGUF file, or else a tokenizer made from the file's fields.

    Raises:
        UserError: the fields describe a tokenizer of an unknown kind.
    """
    given = Config(fields, path)
    beside = path.with_name(TOKENIZER)
    pieces = given["tokenizer.ggml.tokens"]
    unknown = given.get("tokenizer.ggml.unknown_token_id")
    options = {} if unknown is None else {"unk_token": pieces[unknown]}
    if beside.is_file():
        return TokenizerFile(load_tokenizer(beside), beside, options)
    kind, split = given["tokenizer.ggml.model"], given.get("tokenizer.ggml.pre")
    if kind == SENTENCES:
        tokenizer = sentence_pieces(given, pieces)
    elif kind == BYTES and split in SPLITS:
        tokenizer = byte_pieces(given, pieces, split)
    else:
        raise UserError(
            f"{path}: its tokenizer is of the kind {kind}, {split or 'of unknown splits'}; put the "
            f"model's {TOKENIZER} beside it"
        )
    add_whole_pieces(tokenizer, pieces, given["tokenizer.ggml.token_type"])
    return TokenizerFile(tokenizer, path, options)


def byte_pieces(given: Config, pieces: Sequence[str], split: str) -> "Tokenizer":
    """Make a byte-level BPE tokenizer such as GPT-2's; split: one of SPLITS."""
    tokenizers = library()
    pre, whole_words = tokenizers.pre_tokenizers, split == "llama-bpe"
    merges = [tuple(merge.split(" ")) for merge in given["tokenizer.ggml.merges"]]
    model = tokenizers.models.BPE(numbered(pieces), merges, ignore_merges=whole_words)
    tokenizer = tokenizers.Tokenizer(model)
    if split in DIGITS:
        words = tokenizers.Regex(WORDS % DIGITS[split])
        steps = [pre.Split(words, "isolated"), pre.ByteLevel(False, use_regex=False)]
    else:
        single_digits = [pre.Digits(individual_digits=True)] if split == "smollm" else []
        steps = [*single_digits, pre.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre.Sequence(steps)
    if split == "qwen2":
        tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def sentence_pieces(given: Config, pieces: Sequence[str]) -> "Tokenizer":
    """Make a BPE tokenizer such as SentencePiece's, which splits unknown characters into bytes."""
    tokenizers = library()
    scores = given["tokenizer.ggml.scores"]
    model = tokenizers.models.BPE(
        numbered(pieces), merges_by_score(pieces, scores), fuse_unk=True, byte_fallback=True
    )
    tokenizer = tokenizers.Tokenizer(model)
    decoders, normalizers = tokenizers.decoders, tokenizers.normalizers
    first = given.get("tokenizer.ggml.add_space_prefix", True)
    tokenizer.normalizer = normalizers.Sequence(
        [*([normalizers.Prepend(SPACE)] if first else []), normalizers.Replace(" ", SPACE)]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            *(decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()),
            *([decoders.Strip(" ", 1, 0)] if first else []),
        ]
    )
    return tokenizer


def merges_by_score(pieces: Sequence[str], scores: Sequence[float]) -> list[tuple[str, str]]:
    """The pairs of pieces that together are a piece, in the order of its score, highest first."""
    known = set(pieces)
    merges = []
    for piece, score in zip(pieces, scores):
        halves = ((piece[:i], piece[i:]) for i in range(1, len(piece)))
        merges += [(-score, pair) for pair in halves if known.issuperset(pair)]
    return [pair for _, pair in sorted(merges, key=lambda merge: merge[0])]


def numbered(pieces: Sequence[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(pieces)}


def add_whole_pieces(tokenizer: "Tokenizer", pieces: Sequence[str], types: Sequence[int]) -> None:
    """Make the tokenizer keep the pieces of types SPECIAL and WHOLE in one in any text."""
    new = library().AddedToken
    of_type = list(zip(pieces, types))
    special = [new(piece, normalized=False, special=True) for piece, t in of_type if t == SPECIAL]
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens([new(piece, normalized=False) for piece, t in of_type if t == WHOLE])
