"""The words that a BPE has seen, as many as memory is meant to hold."""

from collections import OrderedDict

WORDS = 20_000


class WordCache(OrderedDict):
    """Pieces by word; the word that was not used for the longest time is forgotten.

    Args:
        most: words that are kept.
    """

    def __init__(self, most: int):
        super().__init__()
        self.most = most

    def __getitem__(self, word: str):
        pieces = super().__getitem__(word)
        self.move_to_end(word)
        return pieces

    def __setitem__(self, word: str, pieces) -> None:
        super().__setitem__(word, pieces)
        if len(self) > self.most:
            del self[next(iter(self))]  # Python 3.10's popitem asks __getitem__ for it on the way


def bound_cache(step) -> None:
    """Let a tokenizer or BPE of fairseq forget words; subword_nmt and gpt2 keep each in a dict."""
    segmenter = getattr(step, "bpe", None)
    if isinstance(getattr(segmenter, "cache", None), dict):
        segmenter.cache = WordCache(WORDS)
