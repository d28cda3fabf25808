"""tokenizer.json of a translation model, from its SentencePiece model or its teacher's file.

transformers.js reads no other subword model.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pet_fairseq.export.renumbered_tokenizer import renumbered
from pet_fairseq.export.sentencepiece_tokenizer import of_sentencepiece
from pet_fairseq.export.tokenizer_words import Words, whole_token
from pet_fairseq.files import write_text
from pet_fairseq.huggingface.gguf_tokenizer import numbered
from pet_fairseq.huggingface.tokenizer_file import TOKENIZER
from pet_fairseq.huggingface.vocabulary import FIRST

BEGIN, PAD, END = FIRST[:3]


class TokenizerJson(NamedTuple):
    """The content of tokenizer.json, and the words in it in the order of their numbers."""

    content: dict[str, Any]
    words: Words

    def write(self, folder: Path) -> None:
        """Write it without the spaces that JSON may have: a browser fetches it."""
        text = json.dumps(self.content, ensure_ascii=False, separators=(",", ":"))
        write_text(folder / TOKENIZER, text)


def make_tokenizer(
    file: Path,
    dictionaries: tuple[Sequence[str], Sequence[str]],
    around: tuple[Sequence[int], Sequence[int]],
    start: Sequence[int],
) -> TokenizerJson:
    """A tokenizer.json.

    Args:
        file: a SentencePiece model, or the tokenizer.json of a model from which the words come.
        dictionaries: the words of source and target.
        around: the numbers of the words before and behind a sentence, in the source's dictionary.
        start: those from which the decoder starts, in the target's.
    Raises:
        NoTokenizerError: it would segment text in another way.
    """
    segmentation = renumbered if file.suffix == ".json" else of_sentencepiece
    words, whole, parts = segmentation(file, *dictionaries)
    before, behind = ([words.source(number) for number in numbers] for numbers in around)
    numbers = numbered(words.all)
    hidden = {words.first + words.sources.index(word) for word in (PAD, END)}
    hidden |= {words.targets.index(word) for word in (BEGIN, PAD, END)} | set(start)
    hidden |= {numbers[word] for word in (*before, *behind)}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            *(added(number, words.all[number]) for number in sorted(hidden)),
            *(
                {"id": numbers[token["content"]], **token}
                for token in whole
                if numbers[token["content"]] not in hidden
            ),
        ],
        "post_processor": post_processor(before, behind, numbers),
        **parts,
    }
    return TokenizerJson(content, words)


def added(number: int, word: str) -> dict[str, Any]:
    """A word that is never split, and left out of translations."""
    return {"id": number, **whole_token(word), "special": True}


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
