"""Files with fewer pieces: any text joins to itself again, and has no other pieces."""

import codecs
import io
import itertools
import json
import random
from collections import Counter

import pytest
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from pet_fairseq.errors import UserError
from pet_fairseq.multilingual.subword_restriction import choose_merges, restrict

tokenizers = pytest.importorskip("tokenizers")


def make_text(seed=1, words=200, lines=600):
    """Sentences of words, some of which are frequent."""
    draw = random.Random(seed)
    known = ["".join(draw.choices("abcdefgh", k=draw.randint(1, 7))) for _ in range(words)]
    weights = [1 / (1 + rank) for rank in range(words)]
    return [" ".join(draw.choices(known, weights, k=5)) for _ in range(lines)]


TEXT, OTHER = make_text(), make_text(seed=7, lines=50)


# --- the choice -----------------------------------------------------------------------------------


def apply(merges, word):
    """Byte-pair encoding as it is defined: the earliest merge of all, wherever it applies."""
    symbols = list(word)
    for left, right in merges:
        joined = []
        for symbol in symbols:
            if joined and (joined[-1], symbol) == (left, right):
                joined[-1] += symbol
            else:
                joined.append(symbol)
        symbols = joined
    return symbols


MERGES = [("a", "b"), ("c", "d"), ("ab", "c"), ("ab", "cd"), ("e", "f"), ("a", "bc")]


def test_what_is_needed_most():
    counts = Counter({"abcd": 5, "abc": 2, "ef": 3, "g": 1})
    known = {"ab", "cd", "abc", "abcd", "ef", *"abcdefg"}
    # ab is needed 7 times, abcd and cd 5 times, ef 3 and abc 2 times
    for most, expected in (
        (8, ["ab"]),
        (9, ["ab", "cd"]),  # before abcd, which is built on it
        (10, ["ab", "cd", "abcd"]),
        (11, ["ab", "cd", "abcd", "ef"]),
        (12, ["ab", "cd", "abc", "abcd", "ef"]),
    ):
        fewer = choose_merges(MERGES, counts, known, most)
        assert fewer.symbols == {*"abcdefg", *expected}
        assert {"".join(merge) for merge in fewer.merges} == {*expected}
    for most in (7, 13):
        with pytest.raises(UserError, match=f"{most}: the text has 12 different pieces, 7 of them"):
            choose_merges(MERGES, counts, known, most)


def test_what_a_model_does_not_know_is_not_made():
    counts = Counter({"abcd": 5, "abc": 2, "ef": 3})
    fewer = choose_merges(MERGES, counts, {"cd", "abcd", "ef", *"abcdef"}, 8)
    assert fewer.symbols == {*"abcdef", "cd", "ef"} and ("ab", "cd") not in fewer.merges
    whole = choose_merges(MERGES, counts, set(), None)
    assert whole.symbols == {*"abcdef", "ab", "cd", "abc", "abcd", "ef"}


def learn(words, number):
    """The merges of the most frequent pairs, one after the other."""
    merges, segmented = [], [list(word) for word in words]
    for _ in range(number):
        pairs = Counter(pair for symbols in segmented for pair in itertools.pairwise(symbols))
        merges.append(min(pairs, key=lambda pair: (-pairs[pair], pair)))
        segmented = [apply(merges, word) for word in words]
    return merges


@pytest.mark.slow
@pytest.mark.parametrize("most", [12, 25, 40, None])
def test_every_word_has_kept_symbols_only(most):
    """Against the plain definition, for words of the text and for others."""
    words = " ".join(TEXT[:150]).split()
    merges = learn(words, 60)
    counts = Counter(symbol for word in words for symbol in apply(merges, word))
    symbols = {*"abcdefgh", *map("".join, merges)}
    unknown = {*sorted(symbols - {*"abcdefgh"})[::9]}
    known = symbols - unknown
    fewer = choose_merges(merges, counts, known, most)
    assert most is None or len(fewer.symbols) == most
    for word in (*words, *" ".join(OTHER).split()):
        segmented = apply(fewer.merges, word)
        assert "".join(segmented) == word and {*segmented} <= fewer.symbols
        assert most is not None or word not in words or segmented == apply(merges, word)
    assert (fewer.symbols.isdisjoint(unknown)) == (most is not None)


# --- files ----------------------------------------------------------------------------------------


def codes_of(text, merges=120):
    out = io.StringIO()
    learn_bpe(io.StringIO("".join(f"{line}\n" for line in text)), out, merges)
    return out.getvalue()


def segment_by_codes(file):
    with codecs.open(str(file), encoding="utf-8") as content:
        bpe = BPE(content)
    return lambda line: bpe.process_line(line).split()


def write_json(file, model, text):
    """A trained tokenizer.json, in which spaces are marked as SentencePiece marks them."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    options = dict(vocab_size=130, special_tokens=["<unk>", "</s>"], show_progress=False)
    if isinstance(model, tokenizers.models.BPE):
        trainer = tokenizers.trainers.BpeTrainer(**options)
    else:
        trainer = tokenizers.trainers.UnigramTrainer(unk_token="<unk>", **options)
    tokenizer.train_from_iterator(text, trainer)
    tokenizer.save(str(file))


def segment_by_tokenizer(file):
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    return lambda line: tokenizer.encode(line, add_special_tokens=False).tokens


@pytest.fixture(params=["codes", "bpe", "words of bpe", "unigram"])
def file(request, tmp_path):
    """A subword model, a function that does so with such a file, and one that joins."""
    if request.param == "codes":
        (tmp_path / "bpe.codes").write_text(codes_of(TEXT))
        join = lambda pieces: f"{' '.join(pieces)} ".replace("@@ ", "").strip()  # noqa: E731
        return tmp_path / "bpe.codes", segment_by_codes, join
    model = tokenizers.models.Unigram() if request.param == "unigram" else None
    model = model or tokenizers.models.BPE(unk_token="<unk>")
    write_json(tmp_path / "tokenizer.json", model, TEXT)
    if request.param == "words of bpe":  # whole words are taken if they are pieces, as in Llama 3
        content = json.loads((tmp_path / "tokenizer.json").read_text())
        content["model"]["ignore_merges"] = True
        (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    join = lambda pieces: "".join(pieces).replace("\u2581", " ").strip()  # noqa: E731
    return tmp_path / "tokenizer.json", segment_by_tokenizer, join


@pytest.mark.parametrize("most", [40, 60, None])
def test_text_is_the_same_and_its_pieces_are_kept(most, file, tmp_path):
    path, open_file, join = file
    segment = open_file(path)
    counts = Counter(piece for line in TEXT for piece in segment(line))
    known = sorted(counts)
    restricted = restrict(path, counts, [known, known[::-1]], most)
    restricted.write(tmp_path / "fewer" if path.suffix != ".json" else tmp_path / "fewer.json")
    fewer = open_file(next(tmp_path.glob("fewer*")))
    pieces, same = restricted.pieces
    assert pieces == same and (most is None or len(pieces) <= most)
    found = Counter()
    for line in (*TEXT, *OTHER):
        assert join(fewer(line)) == line
        found.update(fewer(line))
    assert most is None or {*found} <= pieces & {*known}
    if most is None:
        assert [fewer(line) for line in TEXT] == [segment(line) for line in TEXT]
    else:  # the most frequent ones are still in use
        assert len({*found}) > 0.7 * most
    if (model := content_of(tmp_path / "fewer.json").get("model", {})).get("merges"):
        stored = {piece for piece in model["vocab"] if len(piece) > 1}
        assert stored - {"<unk>", "</s>"} <= pieces  # no others, which are most of NLLB's


def content_of(file):
    return json.loads(file.read_text()) if file.exists() else {}


def test_files_that_cannot_be_restricted(tmp_path):
    counts, words = Counter({"a": 2, "b": 1}), [["a", "b"]]
    (tmp_path / "bpe.codes").write_text("a b\nab c</w>\n")
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"model": {"type": "WordPiece", "vocab": {"a": 0, "##b": 1}}})
    )
    for name, line in (
        ("bpe.codes", "is no BPE codes of subword-nmt's version 0.2, which cannot be made to"),
        ("tokenizer.json", "is a tokenizer of the type WordPiece, which cannot be made to segment"),
    ):
        with pytest.raises(UserError, match=f"--vocabulary 2: {tmp_path / name} {line}"):
            restrict(tmp_path / name, counts, words, 2)
        trimmed = restrict(tmp_path / name, counts, words, None)
        trimmed.write(tmp_path / f"out {name}")
        assert trimmed.pieces == [{"a", "b"}]
        assert (tmp_path / f"out {name}").read_text() == (tmp_path / name).read_text()
