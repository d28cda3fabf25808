"""A bounded cache of the words that a BPE has divided."""

from collections import OrderedDict

WORDS = 20_000


class WordCache(OrderedDict):
    """Pieces by word; when it is full, the word that was not used for longest is forgotten.

    Args:
        max_words: how many words are kept.
    """

    def __init__(self, max_words: int):
        super().__init__()
        self.max_words = max_words

    def __getitem__(self, word: str):
        pieces = super().__getitem__(word)
        self.move_to_end(word)
        return pieces

    def __setitem__(self, word: str, pieces) -> None:
        super().__setitem__(word, pieces)
        if len(self) > self.max_words:
            del self[next(iter(self))]  # Python 3.10's popitem asks __getitem__ for it on the way


def bound_cache(step) -> None:
    """Let a tokenizer or BPE of fairseq forget words; subword_nmt and gpt2 keep each in a dict."""
    segmenter = getattr(step, "bpe", None)
    if segmenter is not None and isinstance(getattr(segmenter, "cache", None), dict):
        segmenter.cache = WordCache(WORDS)
