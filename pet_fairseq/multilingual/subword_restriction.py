"""Files that segment text into fewer of their pieces, which join to the same text.

Byte-pair encoding has fewer merges then. A merge joins two neighbouring symbols of a word, the
earliest merge of a table first; a word begins as its single characters. A table with some of the
merges segments every word, more finely, and into nothing else than their results and characters.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text, write_text
from pet_fairseq.multilingual.vocabulary_trimming import check_number, choose_words

Merge = tuple[str, str]
# of subword-nmt: behind a word's last symbol, and behind all of its pieces but the last one
END_OF_WORD, SEPARATOR = "</w>", "@@"
VERSION = "#version: 0.2"  # of subword-nmt's codes in which the last letter has END_OF_WORD


class Fewer(NamedTuple):
    """Some merges of a table, and all symbols into which they segment the words of a text."""

    merges: list[Merge]
    symbols: set[str]


def choose_merges(
    merges: Sequence[Merge],
    counts: Counter,
    known: Collection[str],
    most: Optional[int],
    forms: Callable[[str], Iterable[str]] = lambda character: (character,),
) -> Fewer:
    """The merges that a text needs, or those of them that it needs most often.

    A merge is needed as often as the symbols occur that are built with it. So those that a merge
    is built on are needed at least as often as it, and stay if it stays.

    Args:
        merges: the earliest first. counts: how often the table's symbols are in the text.
        known: the symbols that a model knows. most: how many of the symbols are kept at most; what
            a model does not know is then kept out, with all that is built on it. None: all.
        forms: the symbols that a character may be, if it is one of them.
    Raises:
        UserError: `most` has no room for the characters, or there are fewer symbols.
    """
    first = {left + right: (left, right) for left, right in reversed(merges)}
    ranks = {symbol: rank for rank, symbol in reversed([*enumerate(map("".join, merges))])}
    built = first if most is None else built_of_known(merges, known)
    needed: Counter = Counter()
    for symbol, count in counts.items():
        for part in parts_of(symbol, first, built):
            needed[part] += count
    single = {symbol for symbol in needed if symbol not in first}
    characters = single | {form for symbol in single for form in forms(symbol) if form in known}
    pieces = [symbol for symbol in needed if symbol in built]
    if most is not None:
        check_number(most, len(characters), len(characters) + len(pieces))
        pieces.sort(key=lambda symbol: (-needed[symbol], ranks[symbol]))
        pieces = pieces[: most - len(characters)]
    kept = {*characters, *pieces}
    # a symbol may be the result of several merges
    stays = [merge for merge in merges if "".join(merge) in kept and kept.issuperset(merge)]
    return Fewer(stays, kept)


def built_of_known(merges: Sequence[Merge], known: Collection[str]) -> dict[str, Merge]:
    """A merge for each symbol that can be built of known symbols alone, by the symbol."""
    results = set(map("".join, merges))
    built: dict[str, Merge] = {}
    for merge in merges:
        symbol = "".join(merge)
        if symbol in known and all(part in built or part not in results for part in merge):
            built.setdefault(symbol, merge)
    return built


def parts_of(symbol: str, first: dict[str, Merge], built: dict[str, Merge]) -> Iterator[str]:
    """A symbol and all that it is built of, down to its characters.

    Args:
        first: a merge for each symbol that any make. built: those that are preferred.
    """
    open_parts = [symbol]
    while open_parts:
        part = open_parts.pop()
        yield part
        open_parts += built.get(part) or first.get(part) or ()


# --- files ----------------------------------------------------------------------------------------


class Restricted(NamedTuple):
    """Pieces that are kept of each dictionary, and what writes the file that segments into them."""

    pieces: list[set[str]]
    write: Callable[[Path], object]


def restrict(
    file: Path, counts: Counter, dictionaries: Sequence[Collection[str]], most: Optional[int]
) -> Restricted:
    """A subword model, with fewer of its pieces.

    Args:
        counts: how often each piece is in the text.
        dictionaries: the words of the sides whose text it segments.
        most: how many pieces are kept of each at most; None: those of the text.
    Raises:
        UserError: a file of which no part can be used, or numbers that do not fit the text.
    """
    if file.suffix in (".model", ".spm"):
        pieces = [choose_words(counts, words, most) for words in dictionaries]
        return Restricted(pieces, partial(restrict_sentencepiece, file, set().union(*pieces)))
    known = {word for words in dictionaries for word in words}
    kind = restrict_tokenizer if file.suffix == ".json" else restrict_codes
    kept, content = kind(file, counts, known, most)
    return Restricted([kept] * len(dictionaries), lambda out: write_text(out, content))


def restrict_codes(
    file: Path, counts: Counter, known: Collection[str], most: Optional[int]
) -> tuple[set[str], str]:
    """The pieces of codes of subword-nmt with fewer merges, and these codes.

    Raises:
        UserError: codes of an old version, none at all, or as `choose_merges`.
    """
    whole = read_text(file, "--vocabulary")
    header, *lines = whole.rstrip("\n").split("\n")
    merges = read_merges(line.strip("\r ").split(" ") for line in lines)
    if header.strip() != VERSION or merges is None:
        return unrestricted(
            file, counts, known, most, "no BPE codes of subword-nmt's version 0.2"
        ), whole
    symbols = Counter({symbol_of(piece): count for piece, count in counts.items()})
    fewer = choose_merges(merges, symbols, set(map(symbol_of, known)), most, forms_of)
    text = "".join(f"{line}\n" for line in (VERSION, *map(" ".join, fewer.merges)))
    return set(map(piece_of, fewer.symbols)), text


def unrestricted(
    file: Path, counts: Counter, known: Collection[str], most: Optional[int], what: str
) -> set[str]:
    """The pieces of a text, where their file has to stay as it is.

    Raises:
        UserError: a number of pieces is asked for; `what` says why it cannot be.
    """
    if most is not None:
        raise UserError(
            f"--vocabulary {most}: {file} is {what}, which cannot be made to segment text into "
            "fewer pieces; give trim"
        )
    return choose_words(counts, known)


def forms_of(symbol: str) -> tuple[str, str]:
    """A character within a word and at its end."""
    character = symbol.removesuffix(END_OF_WORD)
    return character, character + END_OF_WORD


def symbol_of(piece: str) -> str:
    """subword-nmt's symbol of a piece: it marks words' ends inside, and what goes on outside."""
    return piece.removesuffix(SEPARATOR) if piece.endswith(SEPARATOR) else piece + END_OF_WORD


def piece_of(symbol: str) -> str:
    """The piece whose symbol this is."""
    return symbol.removesuffix(END_OF_WORD) if symbol.endswith(END_OF_WORD) else symbol + SEPARATOR


def read_merges(pairs: Iterable[object]) -> Optional[list[Merge]]:
    """Merges from lists of two words, or from the two words in one; None if these are others."""
    merges = []
    for pair in pairs:
        words = pair.split(" ") if isinstance(pair, str) else pair
        if not (isinstance(words, list) and len(words) == 2):
            return None
        merges.append((str(words[0]), str(words[1])))
    return merges


def restrict_tokenizer(
    file: Path, counts: Counter, known: Collection[str], most: Optional[int]
) -> tuple[set[str], str]:
    """The pieces of a tokenizer.json with fewer merges, or with fewer pieces if it weighs these.

    Those that are taken out of the latter (Unigram) keep their numbers, under names that no text
    has.

    Returns:
        the pieces, and the file.

    Raises:
        UserError: of another type, not readable, or as `choose_merges`.
    """
    whole = read_text(file, "--vocabulary")
    content = json.loads(whole)
    model = content["model"]
    if model.get("type") == "Unigram":
        pieces = choose_words(counts, known, most)
        stay = {*pieces, *(token["content"] for token in content.get("added_tokens") or ())}
        model["vocab"] = [
            [piece, score]
            if piece in stay or len(piece) == 1 or number == model.get("unk_id")
            else [f"\0{number}", score]
            for number, (piece, score) in enumerate(model["vocab"])
        ]
        return pieces, json.dumps(content)
    merges = read_merges(model.get("merges") or ())
    if model.get("type") != "BPE" or not merges or model.get("continuing_subword_prefix"):
        kind = f"a tokenizer of the type {model.get('type', 'unknown')}"
        return unrestricted(file, counts, known, most, kind), whole
    fewer = choose_merges(merges, counts, known, most)
    is_list = isinstance(model["merges"][0], list)
    model["merges"] = [list(pair) if is_list else " ".join(pair) for pair in fewer.merges]
    # no merge makes them; with ignore_merges, words that are pieces would be taken whole
    gone = {*map("".join, merges)} - fewer.symbols
    model["vocab"] = {piece: n for piece, n in model["vocab"].items() if piece not in gone}
    return fewer.symbols, json.dumps(content)


def restrict_sentencepiece(model: Path, words: Collection[str], out: Path) -> None:
    """Write a SentencePiece model that segments text into some of its pieces only.

    Single characters stay, so that a word never becomes unknown as a whole.

    Raises:
        UserError: not a SentencePiece model.
    """
    proto = read_sentencepiece(model)
    kinds = type(proto).SentencePiece
    for piece in proto.pieces:
        if piece.type == kinds.NORMAL and piece.piece not in words and len(piece.piece) > 1:
            piece.type = kinds.UNUSED
    out.write_bytes(proto.SerializeToString())


def read_sentencepiece(
    model: Path, option: Optional[str] = None, remedy: str = "download it again"
) -> Any:
    """The content of a SentencePiece model, as protobuf knows it.

    Args:
        option: by which the user named it, for the error. remedy: what the user is to do.
    Raises:
        UserError: not a SentencePiece model.
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    try:
        proto.ParseFromString(model.read_bytes())
    except DecodeError as error:
        name = f"{option} {model}" if option else model
        raise UserError(f"{name}: not a SentencePiece model; {remedy}") from error
    return proto
