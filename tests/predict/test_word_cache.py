"""BPE segmentation in bounded memory: which words are forgotten, and that nothing else grows."""

import itertools
import json
import random
import tracemalloc

import pytest
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode

from pet_fairseq.predict import text as text_module
from pet_fairseq.predict.text import WordCache
from tests.predict.test_text import text_of


def test_the_word_that_was_unused_longest_is_forgotten():
    cache = WordCache(max_words=3)
    for word in "abc":
        cache[word] = word.upper()
    assert "a" in cache and cache["a"] == "A"
    cache["d"] = "D"
    assert "b" not in cache
    assert [*cache] == ["c", "a", "d"]
    cache["c"] = "new"
    assert cache["c"] == "new" and len(cache) == 3


def subword_nmt(folder):
    codes = folder / "codes"
    codes.write_text("#version: 0.2\na b\nc d</w>\n")
    return text_of("--bpe", "subword_nmt", "--bpe-codes", str(codes))


def gpt2(folder):
    """The BPE of GPT-2 on letters alone, without a merge that matters."""
    pieces = {piece: i for i, piece in enumerate(bytes_to_unicode().values())}
    (folder / "encoder.json").write_text(json.dumps({**pieces, "ab": 256}))
    (folder / "vocab.bpe").write_text("#version: 0.2\na b\n")
    options = ("--gpt2-encoder-json", folder / "encoder.json", "--gpt2-vocab-bpe")
    return text_of("--bpe", "gpt2", *map(str, options), str(folder / "vocab.bpe"))


def new_words():
    """Texts of a hundred words of one length, hardly any of which was there before."""
    draw = random.Random(1)
    while True:
        yield " ".join("".join(draw.choices("abcd", k=12)) for _ in range(100))


def growth(text, texts=60):
    """Bytes that new words add when the cache has been full already."""
    words = new_words()
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(2):
            for line in itertools.islice(words, texts):
                text.encode(line)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    return sizes[1] - sizes[0]


@pytest.mark.parametrize("make", [subword_nmt, gpt2])
def test_memory_is_flat_over_ever_new_words(make, tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "WORDS", 1000)
    text = make(tmp_path)
    expected = [text.encode("abcd ab"), text.encode("cd")]
    assert growth(text) < 50_000
    assert [text.encode("abcd ab"), text.encode("cd")] == expected
