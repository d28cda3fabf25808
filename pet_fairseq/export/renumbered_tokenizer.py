"""A tokenizer.json that has the words of a smaller model, under that model's numbers.

The words of a student of NLLB, say, are some of the pieces of its teacher's tokenizer.json.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pet_fairseq.export.tokenizer_words import UNMARK, NoTokenizerError, Segmentation, Words
from pet_fairseq.files import read_text
from pet_fairseq.huggingface.gguf_tokenizer import numbered
from pet_fairseq.huggingface.tokenizer_file import load_tokenizer, unescape_spaces
from pet_fairseq.huggingface.vocabulary import FIRST
from pet_fairseq.multilingual.subword_restriction import choose_merges, read_merges

UNKNOWN = FIRST[-1]


def renumbered(file: Path, sources: Sequence[str], targets: Sequence[str]) -> Segmentation:
    """What segments text as a tokenizer.json does, into the words that a model knows.

    A character that it does not know is an unknown word each time; where pieces are weighed, a text
    with such a character may have other known pieces around it.

    Raises:
        NoTokenizerError: source and target have different words, or its pieces are of another kind.
        UserError: not a tokenizer.json.
    """
    if list(sources) != list(targets):
        raise NoTokenizerError("source and target have dictionaries of their own")
    load_tokenizer(file)  # which says what is wrong with it
    content = json.loads(read_text(file, "--segmentation"))
    model = content["model"]
    kind = model.get("type", "BPE" if "merges" in model else "unknown")  # older files do not say
    if kind not in MODELS:
        raise NoTokenizerError(f"{file} has pieces of the type {kind}")
    names = list(map(unescape_spaces, sources))
    added = [t for t in content["added_tokens"] if t["content"] in {*names} - {*FIRST}]
    # "special" words would be left out of a translation, which fairseq does with its own only
    whole = [
        {name: value for name, value in token.items() if name != "id"} | {"special": False}
        for token in added
    ]
    kept = frozenset(token["content"] for token in added) | {*FIRST}
    words, changed = MODELS[kind](model, names, kept)
    decoder = content["decoder"]
    if decoder is not None:
        decoder = {"type": "Sequence", "decoders": [UNMARK, decoder]}
    parts = {name: content[name] for name in ("normalizer", "pre_tokenizer")}
    return Segmentation(words, whole, parts | {"decoder": decoder, "model": model | changed})


def bpe(model: dict[str, Any], names: list[str], kept: frozenset[str]) -> tuple[Words, dict]:
    """The words, and what changes of a model of merges.

    Args:
        names: of a model's words. kept: of these those that no merge makes.
    """
    merges = read_merges(model["merges"]) or []
    known = {name for name in names if name in model["vocab"]}
    fewer = choose_merges(merges, Counter(dict.fromkeys(known, 1)), known, None)
    words = Words(names, names, kept | known, sorted(fewer.symbols - {*names}))
    changed = {
        "dropout": None,
        "unk_token": UNKNOWN,
        "fuse_unk": False,
        "vocab": numbered(words.all),
        "merges": [list(pair) for pair in fewer.merges],
    }
    return words, changed


def unigram(model: dict[str, Any], names: list[str], kept: frozenset[str]) -> tuple[Words, dict]:
    """The words, and what changes of a model that weighs pieces; arguments as for `bpe`."""
    scores = dict(model["vocab"])
    words = Words(names, names, kept | {name for name in names if name in scores}, [])
    vocabulary = [[word, scores.get(word, 0.0)] for word in words.all]
    return words, {"vocab": vocabulary, "unk_id": names.index(UNKNOWN)}


MODELS: dict[str, Callable[[dict, list[str], frozenset[str]], tuple[Words, dict]]] = {
    "BPE": bpe,
    "Unigram": unigram,
}
