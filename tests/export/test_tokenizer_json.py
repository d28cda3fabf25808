"""tokenizer.json of a SentencePiece model: text is segmented and joined as by SentencePiece."""

import json
import os
import random
import shutil
import subprocess
import tempfile
from argparse import Namespace
from collections import Counter
from functools import cache, partial
from pathlib import Path

import pytest
import sentencepiece

from pet_fairseq.demo.corpus import read_pairs
from pet_fairseq.export.tokenizer_json import make_tokenizer
from pet_fairseq.export.tokenizer_words import NoTokenizerError
from pet_fairseq.huggingface.bpe import TokenizerJson
from pet_fairseq.huggingface.tokenizer_file import MARK
from pet_fairseq.huggingface.vocabulary import FIRST
from pet_fairseq.multilingual.subword_restriction import restrict, restrict_sentencepiece

tokenizers = pytest.importorskip("tokenizers")
from pet_fairseq.export.export import export  # noqa: E402
from tests.cli.processes import in_process  # noqa: E402
from tests.export.translators import PRE_NORM, json_pieces, make  # noqa: E402
from tests.packages import ONNX, need  # noqa: E402

SENTENCES = [side for pair in read_pairs() for side in pair]
ODD = [
    "",
    "   ",
    "  two  spaces and  a last one ",
    "caf\u00e9 \ufb01ne \uff21\uff22 \u2460 no\u00a0break \u200bzero\ttab \u2026",
    "unknown \u4e2d\u6587 x\u4e2dy \U0001f600",
    "I said: <s> </a> <unknown> >>x",
]
TEXTS = [*SENTENCES[5_000:5_994], *ODD]
END, UNKNOWN = 2, 3
KINDS = {
    "unigram": {"model_type": "unigram"},
    "bpe": {"model_type": "bpe"},
    "bytes": {"model_type": "unigram", "byte_fallback": True, "vocab_size": 800},
    "bpe_bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 800},
    "identity": {"model_type": "unigram", "normalization_rule_name": "identity"},
    "folded": {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc_cf"},
    "uncovered": {"model_type": "unigram", "character_coverage": 0.98},
    "bpe_uncovered": {"model_type": "bpe", "character_coverage": 0.98},
    "spaces": {"model_type": "bpe", "remove_extra_whitespaces": False, "add_dummy_prefix": False},
}


def train(file, **options):
    """A SentencePiece model of the demo's sentences in a file, and it itself."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES[:5_000]),
        model_prefix=str(file.with_suffix("")),
        minloglevel=2,
        **{"vocab_size": 500} | options,
    )
    return sentencepiece.SentencePieceProcessor(model_file=str(file))


def by(pieces):
    """Segmentation of a text by a SentencePiece model."""
    return partial(pieces.encode, out_type=str)


def dictionaries(pieces, shared):
    """The words of source and target: not all pieces, and some that are none.

    These are also half of what SentencePiece leaves as it is.
    """
    words = [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
    segmented = {piece for text in TEXTS for piece in pieces.encode(text, out_type=str)}
    runs = sorted(segmented - set(words))[::2]
    random.Random(1).shuffle(words)
    sources = [*FIRST, *words[: -len(words) // 8], *runs, "madeupword0000"]
    targets = sources if shared else [*FIRST, *words[len(words) // 4 :], "x", "madeupword0001"]
    return sources, targets


def numbers_of(segment, text, sources, first):
    """What a model reads: fairseq's numbers of the pieces and `</s>`, from `first` on."""
    known = [sources.index(p) if p in sources else UNKNOWN for p in segment(text)]
    return [number + first for number in [*known, END]]


def as_read(number, sources, first):
    """What the encoder's graph makes of a number."""
    return number if first <= number < first + len(sources) else first + UNKNOWN


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "separate"])
@pytest.mark.parametrize("kind", KINDS)
def test_text_is_segmented_as_by_sentencepiece(kind, shared, tmp_path):
    pieces = train(tmp_path / "spm.model", **KINDS[kind])
    sources, targets = dictionaries(pieces, shared)
    made = make_tokenizer(tmp_path / "spm.model", (sources, targets), ([], [END]), [END])
    assert made.words.first == (0 if shared else len(targets))
    made.write(tmp_path)
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        found = [as_read(i, sources, made.words.first) for i in tokenizer.encode(text).ids]
        assert found == numbers_of(by(pieces), text, sources, made.words.first), text
    for text in TEXTS[:200]:
        segmented = pieces.encode(text, out_type=str)
        words = [targets.index(p) for p in segmented if p in targets]
        expected = "".join(targets[i] for i in words).replace("\u2581", " ").strip(" ")
        if "<0x" not in expected:
            assert tokenizer.decode([*words, END]) == expected


def test_what_is_around_sentences_and_never_of_them(tmp_path):
    """Language tokens before and behind, a decoder that starts from two words."""
    pieces = train(tmp_path / "spm.model", model_type="unigram")
    words = [pieces.id_to_piece(i) for i in range(3, 400)]
    sources = [*FIRST, ">>fra<<", "__de__", *words]
    targets = [*FIRST, "__en__", *words[::-1]]
    model, around = tmp_path / "spm.model", ([5], [END])
    made = make_tokenizer(model, (sources, targets), around, [END, 4])
    made.write(tmp_path)
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    inner = numbers_of(by(pieces), TEXTS[0], sources, made.words.first)
    read = [as_read(number, sources, made.words.first) for number in tokenizer.encode(TEXTS[0]).ids]
    assert read == [made.words.first + 5, *inner]
    assert tokenizer.encode(f">>fra<<{TEXTS[0]}").ids[:2] == [
        made.words.first + 5,
        made.words.first + 4,
    ]
    assert tokenizer.encode("__de__ <s>").ids.count(made.words.first + 5) == 1
    assert tokenizer.decode([END, 4, targets.index(words[40]), END, 1]) == words[40].strip("\u2581")
    own = [tokenizer.id_to_token(number) for number in range(made.words.first)]
    assert own == [MARK + word for word in targets]


@pytest.mark.parametrize("share", [1.0, 0.7], ids=["all", "some"])
@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes"])
def test_a_tokenizer_json_with_the_words_of_a_model(kind, share, tmp_path):
    """Text becomes the words that a model reads by its own tokenizer.json, under its numbers.

    The dictionary has some of the pieces in another order, and a word that is none.
    """
    file = tmp_path / "model" / "tokenizer.json"
    file.parent.mkdir()
    pieces = json_pieces(file.parent, SENTENCES[:5_000], kind, 600)
    counts = Counter(p for text in SENTENCES[:5_000] for p in segmented(file, text))
    rarest = [p for p, _ in counts.most_common()][int(share * len(counts)) :]
    kept = restrict(file, counts - Counter(dict.fromkeys(rarest, 10**9)), [pieces], None)
    kept.write(file)
    words = [*FIRST, "madeupword0000", *sorted(kept.pieces[0])]
    made = make_tokenizer(file, (words, words), ([], [END]), [END])
    assert made.words.others == [] and made.words.first == 0
    made.write(tmp_path)
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == len(words)
    numbers = {word: number for number, word in enumerate(words)}
    texts = [text for text in TEXTS if "<" not in text]
    with_unknown = 0
    for text in texts:
        expected = [*(numbers.get(piece, UNKNOWN) for piece in segmented(file, text)), END]
        found = tokenizer.encode(text).ids
        if kind == "unigram" and UNKNOWN in expected:
            assert found.count(UNKNOWN) <= expected.count(UNKNOWN), text
            continue
        assert found == expected, text
        with_unknown += UNKNOWN in expected
    assert with_unknown < len(texts) / 2
    known = [i for text in texts[:99] for i in tokenizer.encode(text).ids if i != UNKNOWN]
    expected = opened(file.read_text("utf-8")).decode(" ".join(words[i] for i in known if i != END))
    assert tokenizer.decode(known) == expected
    assert len(set(known)) > 150 and UNKNOWN in tokenizer.encode(ODD[4]).ids


@cache
def opened(content):
    """fairseq's --bpe tokenizer_json with a file of this content."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        return TokenizerJson(Namespace(tokenizer_file=file.name, tokenizer_newline=""))


def segmented(file, text):
    return opened(file.read_text(encoding="utf-8")).encode(text).split()


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"model_type": "word", "vocab_size": 300}, "neither unigram nor bpe"),
        ({"user_defined_symbols": ["<x>"]}, "has user-defined symbols"),
        ({"treat_whitespace_as_suffix": True}, "does not mark spaces before words"),
    ],
)
def test_models_that_it_cannot_follow(options, reason, tmp_path):
    pieces = train(tmp_path / "spm.model", **options)
    words = dictionaries(pieces, shared=True)
    with pytest.raises(NoTokenizerError, match=reason):
        make_tokenizer(tmp_path / "spm.model", words, ([], [END]), [END])


def test_pieces_taken_out(tmp_path):
    """Of a unigram model they are left out; a bpe model goes on to build words by way of them."""
    for kind in ("unigram", "bpe"):
        whole, model = tmp_path / f"{kind}.model", tmp_path / f"{kind}.fewer.model"
        pieces = train(whole, model_type=kind)
        words = [pieces.id_to_piece(i) for i in range(3, 400)]
        restrict_sentencepiece(whole, words, model)
        fewer = sentencepiece.SentencePieceProcessor(model_file=str(model))
        sources = [*FIRST, *words, *{p for t in TEXTS for p in fewer.encode(t, out_type=str)}]
        sources = list(dict.fromkeys(sources))
        if kind == "bpe":
            with pytest.raises(NoTokenizerError, match="has pieces taken out"):
                make_tokenizer(model, (sources, sources), ([], [END]), [END])
            continue
        made = make_tokenizer(model, (sources, sources), ([], [END]), [END])
        made.write(tmp_path)
        tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        for text in TEXTS[:300]:
            assert tokenizer.encode(text).ids == numbers_of(by(fewer), text, sources, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_a_folder_with_a_tokenizer_json(kind, tmp_path):
    """It translates as the checkpoint, by the file that other software reads, too."""
    need(*ONNX)
    pieces = partial(json_pieces, texts=SENTENCES[:5_000], kind=kind, size=600)
    made = make(tmp_path / "model", "transformer", pieces, **PRE_NORM, share_all_embeddings=True)
    export(made.checkpoint, made.data, "onnx", tmp_path / "onnx")
    content = json.loads((tmp_path / "onnx" / "tokenizer.json").read_text(encoding="utf-8"))
    assert content["post_processor"]["single"][1]["SpecialToken"]["id"] == "</s>"
    (tmp_path / "in").write_text("\n".join([*TEXTS[:9], *ODD]) + "\n", encoding="utf-8")
    for name, model in (("ours", made.checkpoint), ("onnx.out", tmp_path / "onnx")):
        given = ("--input", tmp_path / "in", "--output", tmp_path / name)
        assert in_process("translate", model, *given).status == 0
    ours, theirs = ((tmp_path / name).read_text("utf-8") for name in ("ours", "onnx.out"))
    assert ours == theirs and len(set(ours.splitlines())) > 3


@pytest.mark.slow
def test_two_dictionaries_in_python(tmp_path):
    """The folder, whose numbers of the source begin behind the target's, translates as before."""
    need(*ONNX)

    def pieces_in(folder):
        pieces = train(folder / "spm.model")
        return [pieces.id_to_piece(i) for i in range(3, 450)]

    made = make(tmp_path / "model", "transformer", pieces_in, separate=True, **PRE_NORM)
    export(made.checkpoint, made.data, "onnx", tmp_path / "onnx")
    numbers = json.loads((tmp_path / "onnx" / "vocab.json").read_text(encoding="utf-8"))
    assert min(numbers.values()) > 400
    (tmp_path / "in").write_text("\n".join(TEXTS[:9] + ODD) + "\n", encoding="utf-8")
    for name, model in (("ours", made.checkpoint), ("onnx.out", tmp_path / "onnx")):
        given = ("--data", made.data, "--input", tmp_path / "in", "--output", tmp_path / name)
        assert in_process("translate", model, *given).status == 0
    ours, theirs = ((tmp_path / name).read_text("utf-8") for name in ("ours", "onnx.out"))
    assert ours == theirs and len(set(ours.splitlines())) > 3


# --- with transformers.js ---------------------------------------------------------------------


@pytest.fixture
def transformers_js():
    """Translates by `@huggingface/transformers` 4 of npm, whose folder TRANSFORMERS_JS names."""
    package = os.environ.get("TRANSFORMERS_JS")
    if package is None or shutil.which("node") is None:
        pytest.skip("TRANSFORMERS_JS is not set, or there is no node")

    def translate(folder, lines):
        script = Path(__file__).with_name("transformers_js_text.mjs")
        words = map(str, ("node", script, package, folder, json.dumps(lines)))
        done = subprocess.run(list(words), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return translate


def pieces_in(kind, folder):
    """A SentencePiece model, or a tokenizer.json, in a folder; returns its pieces."""
    if kind == "json":
        return json_pieces(folder, SENTENCES[:5_000], size=500)
    pieces = train(folder / "spm.model", **KINDS[kind])
    return ["__de__", "x", "y", "__en__", *(pieces.id_to_piece(i) for i in range(3, 450))]


def segmentation(folder):
    """What segments text for the model in a folder."""
    if (folder / "spm.model").is_file():
        return by(sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model")))
    return partial(segmented, folder / "tokenizer.json")


# the kind of subword model, the architecture, its options, and the word before a sentence
MODELS = {
    "one dictionary": ("bpe", "transformer", {"share_all_embeddings": True}, []),
    "two dictionaries": ("unigram", "transformer", {}, []),
    "tokenizer.json": ("json", "transformer", {"share_all_embeddings": True}, []),
    "language tokens": (
        *("unigram", "bilingual_transformer"),
        {"source_prefix": ["__de__"], "decoder_start": ["</s>", "__en__"]},
        ["__de__"],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_transformers_js_translates_raw_text(name, tmp_path, transformers_js):
    """The same lines as `pet-fairseq translate`, by greedy search, and the same pieces."""
    need(*ONNX)
    kind, arch, options, before = MODELS[name]
    separate = "share_all_embeddings" not in options
    options = {"pieces": partial(pieces_in, kind), "separate": separate, **PRE_NORM, **options}
    made = make(tmp_path / "model", arch, **options)
    export(made.checkpoint, made.data, "onnx", tmp_path / "onnx")
    lines = [line for line in [*SENTENCES[5_000:5_030], *ODD[2:]] if line.strip()]
    (tmp_path / "in").write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = ("--data", made.data, "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert in_process("translate", made.checkpoint, *given, "--beam", 1).status == 0
    expected = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    found = transformers_js(tmp_path / "onnx", lines)
    assert [one["text"].strip() for one in found] == expected
    assert len(set(expected)) > 5
    segment = segmentation(tmp_path / "model")
    numbers = json.loads((tmp_path / "onnx" / "vocab.json").read_text(encoding="utf-8"))
    sources, first = list(numbers), min(numbers.values())
    assert (first > 0) == separate
    for line, one in zip(lines, found):
        read = [as_read(number, sources, first) for number in one["numbers"]]
        words = [numbers[word] for word in before]
        assert read == [*words, *numbers_of(segment, line, sources, first)]
